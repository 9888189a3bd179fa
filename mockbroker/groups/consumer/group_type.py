"""Groups of the consumer rebalance protocol (KIP-848), as one type of groups."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from kwire import ErrorCode
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer import commit_rules, description, machine, records
from mockbroker.groups.consumer.state import CONSUMER, STATES, ConsumerGroup
from mockbroker.groups.coordinated import Becomes, CoordinatedGroup, Turn
from mockbroker.groups.events import Commit, ConsumerHeartbeat
from mockbroker.groups.group_type import Context, GroupType, GroupView, Refused, RetentionStart, Topics
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.image import Change, Record
from mockbroker.groups.records.wall_time import Wall

T = TypeVar("T")


class ConsumerType(GroupType[ConsumerGroup]):
    """ConsumerGroupHeartbeat."""

    name: ClassVar[str] = CONSUMER
    states: ClassVar[Sequence[str]] = STATES
    events: ClassVar[Sequence[type]] = [ConsumerHeartbeat]
    record_keys: ClassVar[Sequence[type]] = records.KEYS

    # --- requests and time ---

    def new(self, group_id: str, context: Context, now: float) -> ConsumerGroup:  # noqa: ARG002
        """Return a group without members, in epoch 0."""
        return ConsumerGroup(group_id=group_id)

    def receive(self, group: ConsumerGroup, event: ConsumerHeartbeat, context: Context, now: float) -> Turn:
        """Return what a heartbeat does to a group. Raises: Refused."""
        if event.epoch < 0:
            return machine.leave(group, event, context, now)
        return machine.heartbeat(group, machine.with_member_id(event, context), context, now)

    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: ConsumerHeartbeat, context: Context, now: float
    ) -> Turn:
        """A member that joins makes the group, also in the place of an empty one of another type. Raises: Refused."""
        event = machine.with_member_id(event, context)
        machine.check_joins(group_id, other, event)
        if other is not None and not other.empty:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        group = self.new(group_id, context, now)
        if other is not None:
            group.offsets = other.offsets
        return [Becomes(group), *machine.heartbeat(group, event, context, now)]

    def tick(self, group: ConsumerGroup, context: Context, now: float) -> Turn:
        """Return what is due, up to one expression."""
        return machine.tick(group, context, now)

    # --- records ---

    def group_id_of(self, key: Any) -> str:
        """Return the id of the group."""
        group_id: str = key.group_id
        return group_id

    def records(self, group: ConsumerGroup, wall: Wall) -> Iterable[Record]:
        """Return the records of the group, its members, targets and expressions."""
        return records.records(group, wall)

    def changed(self, group: ConsumerGroup, wall: Wall) -> Iterable[Change]:
        """Return the records of what has changed."""
        return records.changed(group, wall)

    def rebuilt(
        self, group_id: str, found: Sequence[tuple[Any, Any]], context: Context, wall: Wall, now: float
    ) -> ConsumerGroup | None:
        """Return the group of its records. Raises: DecodeError."""
        return records.rebuilt(group_id, found, context, wall, now)

    # --- commit rules ---

    def commit_error(self, group: ConsumerGroup, event: Commit, now: float) -> ErrorCode:  # noqa: ARG002
        """Return why an OffsetCommit is refused, or NONE."""
        return commit_rules.commit_error(group, event)

    def transactional_commit_error(self, group: ConsumerGroup, event: Commit) -> ErrorCode:
        """Return why a TxnOffsetCommit is refused, or NONE."""
        return commit_rules.transactional_commit_error(group, event)

    def fetch_error(self, group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
        """Return why an OffsetFetch is refused, or NONE."""
        return commit_rules.fetch_error(group, member_id, epoch)

    def retention_starts(self, group: ConsumerGroup) -> RetentionStart:
        """Source: Kafka's ConsumerGroup.offsetExpirationCondition."""

        def starts(topic: str, committed: Committed) -> float | None:
            return None if group.reads(topic) else committed.at

        return starts

    def subscribed(self, group: ConsumerGroup) -> Container[str]:
        """Return the names that members read."""
        return group.subscribed()

    # --- description ---

    def described(self, group: ConsumerGroup, response: type[T], context: Context) -> T | None:
        """Return the group as ConsumerGroupDescribe has it."""
        return cast("T", description.described(group, context)) if response is description.Described else None

    def view(self, group: ConsumerGroup, context: Context) -> GroupView:
        """Return what snapshots show."""
        return description.view(group, context)

    def to_json(self, group: ConsumerGroup, topics: Topics, settings: Settings) -> Mapping[str, Any]:
        """Return the group as ``mockbroker import`` prints it."""
        return description.to_json(group, topics, settings)


CONSUMER_TYPE = ConsumerType()
