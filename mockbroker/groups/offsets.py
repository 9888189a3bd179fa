"""The committed and transactional offsets of one group."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TypeAlias
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from kwire.schema import ZERO_UUID


@dataclass(slots=True, kw_only=True)  # made for every partition of a commit: frozen, that would take four times as long
class Committed:
    """A committed offset.

    Attributes:
        offset: Offset of the next record to read.
        leader_epoch: Leader epoch of the last record read; -1 if the client did not send it.
        metadata: Metadata that the client sent.
        at: Time of the commit in seconds.
        expires: Time of expiration in seconds, from the retention time in the request (v2-4); None if the broker's
            retention time applies.
        topic_id: Topic id; ZERO_UUID if the request did not contain one.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    at: float = 0.0
    expires: float | None = None
    topic_id: UUID = field(default=ZERO_UUID, compare=False)


TopicPartition: TypeAlias = tuple[str, int]  # topic name and partition


@dataclass(slots=True)
class Offsets:
    """The committed offsets of a group, by topic name and partition.

    If an offset is committed both with and without a transaction, the later request wins.

    Attributes:
        committed: committed offsets by topic and partition.
        pending_transactional: offsets of open transactions, by producer id, topic and partition. Each is a pair of a
            sequence number and the offset. Sequence numbers order all commits of the group.
        unwritten: partitions whose offset was stored or deleted since the last write.
        unwritten_transactional: transactional offsets that are not written yet, by producer id and epoch.

    Source: Kafka's OffsetMetadataManager.
    """

    committed: dict[TopicPartition, Committed] = field(default_factory=dict)
    pending_transactional: dict[int, dict[TopicPartition, tuple[int, Committed]]] = field(default_factory=dict)
    unwritten: dict[TopicPartition, None] = field(default_factory=dict)
    unwritten_transactional: dict[tuple[int, int], dict[TopicPartition, Committed]] = field(default_factory=dict)
    _sequences: dict[TopicPartition, int] = field(default_factory=dict)  # order of the requests, across partitions
    _open_transactions: dict[TopicPartition, set[int]] = field(default_factory=dict)  # producer ids
    _last_sequence: int = 0

    def copy(self) -> Offsets:
        """Return a copy of the committed offsets, for an OffsetFetch that reads many offsets in several parts.

        The copy contains no transactional offsets, but its method ``is_unstable`` considers the open transactions.
        """
        return Offsets(dict(self.committed), _open_transactions=dict(self._open_transactions))

    def store(self, topic: str, partition: int, committed: Committed) -> None:
        """Store the committed offset of a partition, and record the change as unwritten."""
        self._last_sequence += 1
        self._sequences[topic, partition] = self._last_sequence
        self.committed[topic, partition] = committed
        self.unwritten[topic, partition] = None

    def store_transactional(
        self, producer_id: int, epoch: int, topic: str, partition: int, committed: Committed
    ) -> None:
        """Store an offset that is committed or discarded when the transaction of the producer ends.

        Args:
            producer_id: Producer id.
            epoch: Producer epoch.
            topic: Topic name.
            partition: Partition index.
            committed: The offset, with its metadata.
        """
        self._last_sequence += 1
        self.pending_transactional.setdefault(producer_id, {})[topic, partition] = self._last_sequence, committed
        self._open_transactions.setdefault((topic, partition), set()).add(producer_id)
        self.unwritten_transactional.setdefault((producer_id, epoch), {})[topic, partition] = committed

    def restore(self, offsets: Mapping[TopicPartition, tuple[int, Committed]]) -> None:
        """Add committed offsets that were loaded from records.

        ``offsets``: by topic and partition, the log offset of the record, and the committed offset in the record.
        """
        for topic_partition, (log_offset, committed) in offsets.items():
            self._last_sequence = max(self._last_sequence, log_offset + 1)
            self._sequences[topic_partition] = log_offset + 1  # 0 means that no offset was stored
            self.committed[topic_partition] = committed

    def restore_transactional(self, producer_id: int, offsets: Mapping[TopicPartition, tuple[int, Committed]]) -> None:
        """Add the offsets of an open transaction that were loaded from records.

        Args:
            producer_id: Producer id of the transaction.
            offsets: By topic and partition, the log offset of the record, and the committed offset in the record.
        """
        self._last_sequence = max(self._last_sequence, *(log_offset + 1 for log_offset, _ in offsets.values()))
        self.pending_transactional[producer_id] = {
            topic_partition: (log_offset + 1, committed) for topic_partition, (log_offset, committed) in offsets.items()
        }
        for topic_partition in offsets:
            self._open_transactions.setdefault(topic_partition, set()).add(producer_id)

    def mark_written(self) -> None:
        """Record that all changes of the offsets are written to the log."""
        self.unwritten.clear()
        self.unwritten_transactional.clear()

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Return whether an open transaction has a pending offset for the partition."""
        return (topic, partition) in self._open_transactions

    def end_transaction(self, producer_id: int, *, committed: bool) -> dict[TopicPartition, int]:
        """Commit or discard the offsets of a producer's transaction.

        A pending offset is not committed if a later request has committed an offset of the partition.

        Args:
            producer_id: Producer id.
            committed: True to commit the offsets, False to discard them.

        Returns: the newly committed offsets by topic and partition.
        """
        stored: dict[TopicPartition, int] = {}
        for topic_partition, (sequence, pending) in self.pending_transactional.pop(producer_id, {}).items():
            self._remove_open_transaction(producer_id, topic_partition)
            if committed and sequence > self._sequences.get(topic_partition, 0):
                self._sequences[topic_partition] = sequence
                self.committed[topic_partition] = pending
                stored[topic_partition] = pending.offset
        return stored

    def get(self, topic: str, partition: int) -> Committed | None:
        """Return the committed offset of a partition, or None if no offset is committed."""
        return self.committed.get((topic, partition))

    def delete(self, topic: str, partition: int) -> None:
        """Delete the committed offset of a partition, and its pending offsets in open transactions.

        A partition without offsets is not an error.
        """
        self.committed.pop((topic, partition), None)
        self._sequences.pop((topic, partition), None)
        self.unwritten[topic, partition] = None
        for producer_id in self._open_transactions.pop((topic, partition), ()):
            pending = self.pending_transactional[producer_id]
            del pending[topic, partition]
            if not pending:
                del self.pending_transactional[producer_id]

    def of_topics(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of some topics that have committed or pending offsets. ``topics``: topic names."""
        return [each for each in {**self.committed, **self._open_transactions} if each[0] in topics]

    def _remove_open_transaction(self, producer_id: int, topic_partition: TopicPartition) -> None:
        """Record that the transaction of a producer has no pending offset of a partition."""
        producer_ids = self._open_transactions.get(topic_partition, set())
        producer_ids.discard(producer_id)
        if not producer_ids:
            self._open_transactions.pop(topic_partition, None)

    def by_topic(self) -> dict[str, dict[int, Committed]]:
        """Return the committed offsets by topic and partition, in the order of the first commits."""
        topics: dict[str, dict[int, Committed]] = {}
        for (topic, partition), committed in self.committed.items():
            topics.setdefault(topic, {})[partition] = committed
        return topics


def is_metadata_too_large(metadata: str | None, limit: int) -> bool:
    """Return whether metadata is longer than ``limit``, counted in UTF-16 code units.

    Source: Kafka's OffsetMetadataManager, which uses the length of a Java string, although the
    setting is ``offset.metadata.max.bytes``.
    """
    if not metadata or 2 * len(metadata) <= limit:  # a character has one or two code units
        return False
    return len(metadata.encode("utf-16-be", "surrogatepass")) // 2 > limit
