"""The group type of the consumer rebalance protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from kwire import ErrorCode
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer import commit_rules, description, machine, records
from mockbroker.groups.consumer.declaration import CONSUMER, EVENTS, RECORD_KEYS, STATES
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember
from mockbroker.groups.consumer.target import effective_assignor
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, RegisterGroup
from mockbroker.groups.events import Commit, ConsumerHeartbeat
from mockbroker.groups.group_type import (
    Context,
    GroupSummary,
    GroupView,
    MemberDescription,
    Refused,
    RetentionStart,
    TopicNames,
)
from mockbroker.groups.modern_group import EpochGroupType
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.image import Change, Record
from mockbroker.groups.records.wall_time import WallClock

T = TypeVar("T")


class ConsumerType(EpochGroupType[ConsumerGroup]):
    """The group type of consumer groups (KIP-848), whose members send ConsumerGroupHeartbeat."""

    name: ClassVar[str] = CONSUMER
    states: ClassVar[Sequence[str]] = STATES
    events: ClassVar[Sequence[type]] = EVENTS
    record_keys: ClassVar[Sequence[str]] = RECORD_KEYS

    # --- requests and time ---

    def new(self, group_id: str, context: Context, now: float) -> ConsumerGroup:  # noqa: ARG002
        return ConsumerGroup(group_id=group_id)

    def receive(self, group: ConsumerGroup, event: ConsumerHeartbeat, context: Context, now: float) -> GroupEffects:
        """Handle a heartbeat."""
        if event.epoch < 0:
            return machine.leave(group, event, context, now)
        return machine.heartbeat(group, machine.with_member_id(event, context), context, now)

    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: ConsumerHeartbeat, context: Context, now: float
    ) -> GroupEffects:
        """Create the group for a member that joins.

        An empty classic group with this id is replaced, and its committed offsets are kept.
        """
        event = machine.with_member_id(event, context)
        machine.check_may_create(group_id, other, event)
        if other is not None and not other.is_replaced_by(CONSUMER):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        group = self.new(group_id, context, now)
        if other is not None:
            group.offsets = other.offsets
        return [RegisterGroup(group), *machine.heartbeat(group, event, context, now)]

    def evict(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        reason: str,
        context: Context,
        now: float,
    ) -> GroupEffects:
        """Remove a member, and start a new group epoch.

        If only members of the classic protocol remain, the group may be converted to a classic group instead.

        Return the effects: responses, journal events, and new groups to register.

        Args:
            group: the group.
            member: the member.
            reason: reason of the removal, for the journal.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """
        return machine.fence(group, [member], EventKind.EXPIRE, reason, context, now)

    def tick(self, group: ConsumerGroup, context: Context, now: float) -> GroupEffects:
        """Handle the due timers.

        A call matches at most one regular expression with at most REGEX_SLICE topics; the timer for the next part is
        due at once.
        """
        return machine.tick(group, context, now)

    # --- records ---

    def records(self, group: ConsumerGroup, wall: WallClock) -> Iterable[Record]:
        """Return the records of the group, its members, target assignments and regular expressions."""
        return records.records(group, wall)

    def changed_records(self, group: ConsumerGroup, wall: WallClock) -> Iterable[Change]:
        """Return the records that may have changed since the records of the group were written last, and tombstones."""
        return records.changed_records(group, wall)

    def from_records(
        self, group_id: str, entries: Sequence[tuple[Any, Any]], context: Context, wall: WallClock, now: float
    ) -> ConsumerGroup | None:
        """Return a group that is created from its records, or None if the record of the group itself is missing."""
        return records.group_from_records(group_id, entries, context, wall, now)

    # --- commit rules ---

    def commit_error(self, group: ConsumerGroup, event: Commit, now: float) -> ErrorCode:  # noqa: ARG002
        """Return the error of an OffsetCommit, or NONE.

        For the errors, see ``commit_rules.commit_error``.
        """
        return commit_rules.commit_error(group, event)

    def transactional_commit_error(self, group: ConsumerGroup, event: Commit) -> ErrorCode:
        """Return the error of a TxnOffsetCommit, or NONE.

        For the errors, see ``commit_rules.transactional_commit_error``.
        """
        return commit_rules.transactional_commit_error(group, event)

    def fetch_error(self, group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
        """Return the error of an OffsetFetch, or NONE.

        For the errors, see ``commit_rules.fetch_error``.
        """
        return commit_rules.fetch_error(group, member_id, epoch)

    def retention_start(self, group: ConsumerGroup) -> RetentionStart:
        """Return a function that computes the start of an offset's retention time, in seconds.

        The arguments of this function are the topic and the committed offset. The function returns the time of the
        commit, or None for an offset of a subscribed topic: such an offset does not expire. Source: Kafka's
        ConsumerGroup.offsetExpirationCondition.
        """

        def starts(topic: str, committed: Committed) -> float | None:
            return None if group.is_subscribed_to(topic) else committed.at

        return starts

    def subscribed_topics(self, group: ConsumerGroup) -> Container[str]:
        """Return the names of the subscribed topics, whose offsets OffsetDelete must not delete."""
        return group.subscribed_topics()

    # --- description ---

    def describe(self, group: ConsumerGroup, response: type[T], context: Context) -> T | None:
        """Return the group as an element of ConsumerGroupDescribeResponse.

        ``response``: class of the element; the result is None for the class of another API.
        """
        return cast("T", description.describe(group, context)) if response is description.Described else None

    def view(self, group: ConsumerGroup, context: Context) -> GroupView:
        return description.view(group, context)

    def to_json(self, group: ConsumerGroup, topics: TopicNames, settings: Settings) -> Mapping[str, Any]:
        return description.to_json(group, topics, settings)

    def summary(self, group: ConsumerGroup, context: Context) -> GroupSummary:
        return GroupSummary(protocol=effective_assignor(group, context.settings), epoch=group.epoch)

    def describe_members(
        self, group: ConsumerGroup, member_ids: Iterable[str], topics: TopicNames, context: Context
    ) -> list[MemberDescription]:
        timeout_ms = context.group_milliseconds(group.group_id, "consumer.session.timeout.ms")
        members = (group.members.get(member_id) for member_id in member_ids)
        return [description.member_description(member, topics, timeout_ms) for member in members if member is not None]


CONSUMER_TYPE = ConsumerType()
