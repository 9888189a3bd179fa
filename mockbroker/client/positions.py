"""The assigned partitions with their positions.

Source: org.apache.kafka.clients.consumer.internals.SubscriptionState.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from mockbroker.client.errors import NotAssigned
from mockbroker.client.metadata import TopicPartition

EARLIEST_TIMESTAMP, LATEST_TIMESTAMP = -2, -1


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset (of the next record to read), with metadata of the user's choice."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(slots=True, eq=False)
class Position:
    """Position in one assigned partition.

    offset: of the next record to return; None while it is unknown.
    epoch: leader epoch of the record before it, -1 if unknown.
    reset_timestamp: what to look up to get an offset: ms since 1970, -1 (latest), -2 (earliest), or an age.
    validated_epoch: the leader epoch that the offset was validated with.
    validating: whether a validation is in flight.
    topic_id: of the topic that the offset belongs to; None until metadata has it.
    paused: by the user.
    revoking: about to be revoked, so no record is returned.
    replica: the follower to fetch from, and the time until which it is used.
    high_watermark, last_stable_offset, log_start_offset: of the latest Fetch response.
    """

    offset: int | None = None
    epoch: int = -1
    reset_timestamp: int | timedelta | None = None
    validated_epoch: int = -1
    validating: bool = False
    topic_id: UUID | None = None
    paused: bool = False
    revoking: bool = False
    replica: tuple[int, float] | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None

    @property
    def known(self) -> bool:
        return self.offset is not None and self.reset_timestamp is None

    @property
    def fetchable(self) -> bool:
        return self.known and not self.paused and not self.validating and not self.revoking

    def set_offset(self, offset: int, epoch: int = -1) -> None:
        """Continue at another offset. Responses to earlier requests no longer apply."""
        self.offset, self.epoch, self.reset_timestamp = offset, epoch, None
        self.validated_epoch, self.validating, self.topic_id, self.replica = -1, False, None, None

    def reset_to(self, timestamp: int | timedelta) -> None:
        """Continue at the offset of a timestamp, which has to be looked up."""
        self.offset, self.epoch, self.reset_timestamp = None, -1, timestamp
        self.validating, self.topic_id, self.replica = False, None, None


class Positions:
    """Positions of the assigned partitions, in the order of the assignment.

    unresolved: whether a partition may have no valid position.
    version: grows when the assignment or its order changes.
    """

    def __init__(self) -> None:
        self._assigned: dict[TopicPartition, Position] = {}
        self.version = 0
        self.unresolved = False

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
        """Return the position of a partition. Raises: NotAssigned."""
        position = self._assigned.get(partition)
        if position is None:
            raise NotAssigned(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return position

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay assigned keep their position."""
        before, self.unresolved = self._assigned, True
        self._assigned = {partition: before.get(partition) or Position() for partition in partitions}
        if list(before) != list(self._assigned):
            self.version += 1

    def keep_only(self, kept: Collection[TopicPartition]) -> None:
        """Mark all other partitions as revoking: no further record of them is returned."""
        for partition, position in self._assigned.items():
            position.revoking = partition not in kept

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets of all known positions."""
        return {
            partition: OffsetAndMetadata(position.offset, "", position.epoch)
            for partition, position in self._assigned.items()
            if position.offset is not None and position.reset_timestamp is None
        }
