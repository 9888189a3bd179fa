"""What the consumer reads, and where it is: the assigned partitions with their positions.

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
    """A committed offset: that of the next record to read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(slots=True, eq=False)
class Position:
    """Of one assigned partition. ``offset``: of the next record to hand out, None while it is not known.

    ``epoch``: of the leader that wrote the record before; ``reset``: the timestamp to look up instead of an offset, in
    ms or one of Kafka's questions below zero; ``validated``: the leader epoch that the offset was held against;
    ``topic_id``: of the topic that the offset is in, None until metadata has told it;
    ``replica``: the follower to read from, and until when. The last three are what brokers told of the log.
    """

    offset: int | None = None
    epoch: int = -1
    reset: int | timedelta | None = None
    validated: int = -1
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
        return self.offset is not None and self.reset is None

    @property
    def fetchable(self) -> bool:
        return self.known and not self.paused and not self.validating and not self.revoking

    def move(self, offset: int, epoch: int = -1) -> None:
        """Go on from another offset: what was asked for or read before no longer fits."""
        self.offset, self.epoch, self.reset = offset, epoch, None
        self.validated, self.validating, self.topic_id, self.replica = -1, False, None, None

    def look_up(self, timestamp: int | timedelta) -> None:
        """Go on from where the log has this time, which is not known yet."""
        self.offset, self.epoch, self.reset = None, -1, timestamp
        self.validating, self.topic_id, self.replica = False, None, None


class Positions:
    """The assigned partitions, in the order in which they came. ``unsettled``: some may have no position yet.

    ``version`` grows when others are assigned, or in another order.
    """

    def __init__(self) -> None:
        self._assigned: dict[TopicPartition, Position] = {}
        self.version = 0
        self.unsettled = False

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
        """Raises: NotAssigned."""
        found = self._assigned.get(partition)
        if found is None:
            raise NotAssigned(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return found

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these and no others; what is kept keeps its position."""
        before, self.unsettled = self._assigned, True
        self._assigned = {partition: before.get(partition) or Position() for partition in partitions}
        if list(before) != list(self._assigned):
            self.version += 1

    def keep(self, kept: Collection[TopicPartition]) -> None:
        """What is not kept is about to go: nothing of it is read any more."""
        for partition, position in self._assigned.items():
            position.revoking = partition not in kept

    def to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where every partition is whose position is known."""
        return {
            partition: OffsetAndMetadata(position.offset, "", position.epoch)
            for partition, position in self._assigned.items()
            if position.offset is not None and position.reset is None
        }
