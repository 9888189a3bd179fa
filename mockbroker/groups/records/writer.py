"""The writer of changed groups to the offsets topic.

The changes of a group are written as one batch, and its transactional offsets as one batch for each transaction.
Source: Kafka's CoordinatorRuntime and GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_type import GroupTypes
from mockbroker.groups.offsets import Offsets, TopicPartition
from mockbroker.groups.records.compaction import Compactor
from mockbroker.groups.records.image import Change, Image, apply_changes, image_of, tombstones
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.topics.model import OFFSETS_TOPIC, ClusterState, Partition


@dataclass(slots=True)
class _WrittenGroup:
    """The records of one group that have been written to the log.

    Attributes:
        group: The group.
        image: The group's records in the log, except the records of offsets.
        offsets: The group's Offsets object whose changes are written; None if no offsets are written yet.
        offset_keys: Encoded record keys of the written offsets, by partition; None for a key that is not encoded yet.
    """

    group: CoordinatedGroup
    image: Image = field(default_factory=dict)
    offsets: Offsets | None = None
    offset_keys: dict[TopicPartition, bytes | None] = field(default_factory=dict)

    def is_current(self, group: CoordinatedGroup) -> bool:
        """Return whether all changes of a group are written, as after most heartbeats.

        ``group``: the group. If it is a different object than ``self.group``, the result is False.
        """
        return self.group is group and self.offsets is group.offsets and not group.has_unwritten_changes

    def all_offset_keys(self) -> dict[TopicPartition, bytes | None]:
        """Return the encoded keys of all offsets in the log by partition, including transactional and deleted offsets.

        A value is None if the key is not encoded yet.
        """
        if self.offsets is None:
            return self.offset_keys
        offsets = self.offsets
        pending = (partition for partitions in offsets.pending_transactional.values() for partition in partitions)
        return dict.fromkeys([*offsets.committed, *offsets.unwritten, *pending]) | self.offset_keys


class GroupRecordWriter:
    """The writer of the records of all groups to ``__consumer_offsets``.

    Args:
        cluster: Cluster that has the topics.
        types: All group types of the coordinator.
        wall: Clock for the timestamps of the records.
        offset_version: Version in which the values of committed offsets are encoded.
    """

    def __init__(self, cluster: ClusterState, types: GroupTypes, wall: WallClock, offset_version: int) -> None:
        self._types = types
        self._offset_version = offset_version
        self._cluster = cluster
        self._clock = wall
        self._written: dict[str, _WrittenGroup] = {}
        self._compactor = Compactor()

    def write(self, group_id: str, group: CoordinatedGroup | None, now: float) -> Partition | None:
        """Write the changes of a group. Return the partition that contains the new records, or None without changes.

        Args:
            group_id: The group id.
            group: The group; None if it was deleted.
            now: The current time in seconds.
        """
        written = self._written.get(group_id)
        if group is None:
            if written is None:
                return None
        elif written is not None and written.is_current(group):
            return None
        changes: list[Change] = []
        transactional: list[tuple[int, int, list[Change]]] = []
        if written is not None and (group is None or written.group.type_name != group.type_name):
            changes += tombstones(self._types.of(written.group).keys_to_delete(written.group, written.image))
            written.image = {}
        if group is None:
            assert written is not None
            changes = tombstones(_encoded_keys(group_id, written.all_offset_keys().items())) + changes
            del self._written[group_id]
        else:
            if written is None:
                written = self._written[group_id] = _WrittenGroup(group)
            written.group = group
            if group.changes:
                changes += apply_changes(written.image, self._types.of(group).changed_records(group, self._clock))
                group.changes.clear()
            offsets = group.offsets
            if offsets.unwritten or written.offsets is not offsets:
                changes += self._offset_changes(group_id, written, offsets)
            if offsets.unwritten_transactional:
                transactional = list(self._transactional_changes(group_id, offsets))
            offsets.mark_written()
        if not (changes or transactional):
            return None
        partition = self._cluster.topics[OFFSETS_TOPIC].partition_of(group_id)
        if changes:
            self._append(partition, changes, now)
        for producer_id, epoch, records in transactional:
            self._append(partition, records, now, producer_id, epoch)
        self._compactor.compact_if_grown(partition, self._clock.to_ms(now))
        return partition

    def adopt(self, group: CoordinatedGroup) -> None:
        """Record that a group was loaded from its records: the writer then writes only later changes of the group."""
        image = image_of(self._types.of(group).records(group, self._clock))
        self._written[group.group_id] = _WrittenGroup(
            group, image, group.offsets, dict.fromkeys(group.offsets.committed)
        )
        group.changes.clear()
        group.offsets.mark_written()

    def unload(self, group_id: str) -> None:
        """Forget the written records of a group, because another broker coordinates the group now."""
        self._written.pop(group_id, None)

    # --- changes ---

    def _offset_changes(self, group_id: str, written: _WrittenGroup, offsets: Offsets) -> Iterator[Change]:
        from mockbroker.groups.records import offsets as offset_records  # on demand: with the first group

        if written.offsets is not offsets:
            deleted = [
                (topic_partition, key)
                for topic_partition, key in written.all_offset_keys().items()
                if topic_partition not in offsets.committed
            ]
            yield from tombstones(_encoded_keys(group_id, deleted))
            written.offsets = offsets
        for topic_partition in offsets.unwritten:
            committed = offsets.committed.get(topic_partition)
            key = written.offset_keys.get(topic_partition) or offset_records.encode_key(group_id, *topic_partition)
            if committed is not None:
                written.offset_keys[topic_partition] = key
                yield key, offset_records.encode_value(committed, self._clock, self._offset_version)
            else:
                written.offset_keys.pop(topic_partition, None)
                yield key, None

    def _transactional_changes(self, group_id: str, offsets: Offsets) -> Iterator[tuple[int, int, list[Change]]]:
        from mockbroker.groups.records import offsets as offset_records

        for (producer_id, epoch), pending in offsets.unwritten_transactional.items():
            records: list[Change] = [
                (
                    offset_records.encode_key(group_id, *topic_partition),
                    offset_records.encode_value(committed, self._clock, self._offset_version),
                )
                for topic_partition, committed in pending.items()
            ]
            yield producer_id, epoch, records

    # --- the log ---

    def _append(
        self, partition: Partition, changes: Iterable[Change], now: float, producer_id: int = -1, epoch: int = -1
    ) -> None:
        timestamp = self._clock.to_ms(now)
        records = [Record(key=key, value=value, timestamp=timestamp) for key, value in changes]
        data = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,  # Kafka's coordinators use 0, with and without a producer id
            transactional=producer_id >= 0,
        )
        partition.append(read_batch(data))


def _encoded_keys(group_id: str, keys: Iterable[tuple[TopicPartition, bytes | None]]) -> Iterator[bytes]:
    from mockbroker.groups.records import offsets as offset_records

    return (key or offset_records.encode_key(group_id, *topic_partition) for topic_partition, key in keys)
