"""The assigned partitions with their positions.

Source: org.apache.kafka.clients.consumer.internals.SubscriptionState.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from uuid import UUID

from kwire.lazy_dataclass import dataclass
from mockbroker.client.errors import NotAssigned
from mockbroker.client.metadata import TopicPartition
from mockbroker.client.subscription import checked_partitions

EARLIEST_TIMESTAMP, LATEST_TIMESTAMP = -2, -1


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset with its metadata.

    Attributes:
        offset: Offset of the next record to read.
        metadata: Text of the user's choice.
        leader_epoch: Leader epoch of the last record read; -1 if unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(slots=True, eq=False)
class Position:
    """The position in one assigned partition.

    Attributes:
        offset: Offset of the next record to return; None while the offset is unknown, as it is during a reset.
        epoch: Leader epoch of the record before ``offset``; -1 if unknown.
        reset_timestamp: Timestamp whose offset has to be looked up: milliseconds since 1970, -1 (latest), -2
            (earliest), or a timedelta (maximum age of the first record); None if no lookup is necessary.
        validated_epoch: Leader epoch with which ``offset`` was validated; -1 if the offset was not validated.
        validating: Whether a validation is in flight.
        topic_id: Id of the topic that the offset belongs to; None until metadata contains the topic id.
        paused: Whether the user has paused the partition.
        revoking: Whether the partition is about to be revoked, so that no record of the partition is returned.
        settled: Whether a poll has used the offset, or the user has sought: a commit no longer changes the position.
        replica: Node id of the follower to fetch from, and the time until which the follower is used, in seconds on the
            engine's clock; None to fetch from the leader.
        high_watermark: High watermark in the latest Fetch response; None before the first one.
        last_stable_offset: Last stable offset in the latest Fetch response; None before the first one.
        log_start_offset: Log start offset in the latest Fetch response; None before the first one.
    """

    offset: int | None = None
    epoch: int = -1
    reset_timestamp: int | timedelta | None = None
    validated_epoch: int = -1
    validating: bool = False
    topic_id: UUID | None = None
    paused: bool = False
    revoking: bool = False
    settled: bool = False
    replica: tuple[int, float] | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None

    @property
    def known(self) -> bool:
        return self.offset is not None

    @property
    def fetchable(self) -> bool:
        return self.known and not self.paused and not self.validating and not self.revoking

    def set_offset(self, offset: int, epoch: int = -1) -> None:
        """Set the position to an offset. Responses to requests that were sent before this call are ignored.

        ``epoch``: leader epoch of the record before the offset; -1 if unknown.
        """
        self.offset, self.epoch, self.reset_timestamp = offset, epoch, None
        self.validated_epoch, self.validating, self.topic_id, self.replica = -1, False, None, None

    def reset_to(self, timestamp: int | timedelta) -> None:
        """Request that the resolver sets the position to the offset of a timestamp.

        ``timestamp``: milliseconds since 1970, -1 (latest), -2 (earliest), or a timedelta (maximum age of the first
        record).
        """
        self.offset, self.reset_timestamp = None, timestamp  # set_offset resets the other fields


class Positions:
    """The positions of the assigned partitions, in the order of the assignment.

    Attributes:
        unresolved: False if all partitions have a valid position; True if the resolver must check the positions.
        unsettled: True if the offset of a partition may not be settled yet.
        version: Number of changes of the assignment or of its order.
    """

    def __init__(self) -> None:
        self._assigned: dict[TopicPartition, Position] = {}
        self.version = 0
        self.unresolved = self.unsettled = False

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._assigned)

    def __len__(self) -> int:
        return len(self._assigned)

    def __contains__(self, partition: object) -> bool:
        return partition in self._assigned

    def items(self) -> Iterable[tuple[TopicPartition, Position]]:
        return self._assigned.items()

    def get(self, partition: TopicPartition) -> Position | None:
        return self._assigned.get(partition)

    def of(self, partition: TopicPartition) -> Position:
        """Return the position of a partition.

        Raises: NotAssigned if the partition is not assigned; TypeError if it is not a pair of topic and number.
        """
        position = self._assigned.get(partition)
        if position is None:
            checked_partitions([partition])
            raise NotAssigned(
                f"{partition[0]}-{partition[1]} is not assigned to this consumer: "
                "the property assignment contains the assigned partitions"
            )
        return position

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. A partition that stays assigned keeps its position."""
        before, self.unresolved, self.unsettled = self._assigned, True, True
        self._assigned = {partition: before.get(partition) or Position() for partition in partitions}
        if list(before) != list(self._assigned):
            self.version += 1

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the position of a partition to an offset, and let the resolver check it.

        Raises: NotAssigned if the partition is not assigned.
        """
        self.of(partition).set_offset(offset)
        self.of(partition).settled = True
        self.unresolved = True

    def settle(self) -> None:
        """Settle the positions that are known, because the user polls."""
        if self.unsettled:
            for position in self._assigned.values():
                position.settled = position.settled or position.known
            self.unsettled = not all(position.settled for position in self._assigned.values())

    def discard_unsettled(self, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> list[TopicPartition]:
        """Make the positions unknown that are not settled and not at the committed offset; return their partitions.
        Pauses remain.

        ``committed``: the offsets of a commit.
        """
        discarded = []
        for partition, at in committed.items():
            position = self._assigned.get(partition)
            if position and not position.settled and position.offset != at.offset:
                self._assigned[partition] = Position(paused=position.paused, revoking=position.revoking)
                discarded.append(partition)
        return discarded

    def keep_only(self, kept: Collection[TopicPartition]) -> None:
        """Mark all partitions except ``kept`` as being revoked, so that no further records of them are returned. The
        partitions in ``kept`` lose the mark.
        """
        for partition, position in self._assigned.items():
            position.revoking = partition not in kept

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return partition -> offset to commit. Partitions with an unknown position are left out."""
        return {
            partition: OffsetAndMetadata(position.offset, "", position.epoch)
            for partition, position in self._assigned.items()
            if position.offset is not None
        }
