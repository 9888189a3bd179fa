"""The group type of the classic rebalance protocol."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from kwire import ErrorCode
from kwire.blobs.offsets_topic import GroupMetadataKey, GroupMetadataValue
from mockbroker.base.effects import Effects, Reply
from mockbroker.base.settings import Settings
from mockbroker.groups.classic import (
    administration,
    description,
    heartbeat,
    machine,
    phases,
    records,
    replies,
    rules,
    timers,
)
from mockbroker.groups.classic.declaration import CLASSIC, EVENTS, RECORD_KEYS, STATES
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.classic.subscription import CONSUMER, subscribed_topics
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, RegisterGroup
from mockbroker.groups.events import AdminEvent, Commit, Event, Join
from mockbroker.groups.group_type import (
    ALL_TOPICS,
    Context,
    GroupSummary,
    GroupType,
    GroupView,
    MemberDescription,
    RetentionStart,
    TopicNames,
)
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.image import Change, Image, Record
from mockbroker.groups.records.wall_time import WallClock

T = TypeVar("T")


class ClassicType(GroupType[ClassicGroup]):
    """The group type whose members send JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

    name: ClassVar[str] = CLASSIC
    states: ClassVar[Sequence[str]] = STATES
    events: ClassVar[Sequence[type]] = EVENTS
    record_keys: ClassVar[Sequence[str]] = RECORD_KEYS

    # --- requests and time ---

    def new(self, group_id: str, context: Context, now: float) -> ClassicGroup:
        return ClassicGroup.from_settings(group_id, context.settings, now, context.quirks)

    def receive(self, group: ClassicGroup, event: Event, context: Context, now: float) -> GroupEffects:
        if isinstance(event, Join) and _exceeds_pending_members(event, context):
            return [_join_refused(event)]
        return machine.receive(group, event, now)

    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: Event, context: Context, now: float
    ) -> GroupEffects:
        """Create the group for a JoinGroup without member id, and reject other requests.

        If ``other`` is empty and its type allows this (``is_replaced_by``), the new group replaces ``other`` and keeps
        the committed offsets. If ``other`` cannot be replaced, the JoinGroup gets the error
        INCONSISTENT_GROUP_PROTOCOL. A JoinGroup that would exceed the maximum number of pending members is rejected
        too.
        """
        if not isinstance(event, Join):
            return machine.receive_without_group(event)
        if other is not None and not other.is_replaced_by(CLASSIC):
            return [replies.join_error(event.ticket, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")]
        if event.member_id:
            return machine.receive_without_group(event)
        if _exceeds_pending_members(event, context):
            return [_join_refused(event)]
        group = self.new(group_id, context, now)
        if other is not None:
            group.offsets = other.offsets
        group.has_record = not (context.quirks.group_written_when_stable or other is not None)
        return [RegisterGroup(group), *machine.receive(group, event, now)]

    def administer(self, group: ClassicGroup, event: AdminEvent, context: Context, now: float) -> GroupEffects:  # noqa: ARG002
        """Evict a member or start a rebalance."""
        return administration.administer(group, event, now)

    def tick(self, group: ClassicGroup, context: Context, now: float) -> GroupEffects:
        return timers.tick(group, context.join_settle, now)

    # --- failover ---

    def unload(self, group: ClassicGroup) -> Effects:
        """Answer pending JoinGroups and SyncGroups with NOT_COORDINATOR, and return the responses.

        Source: Kafka's GroupMetadataManager.onUnloaded.
        """
        return phases.fail_pending_requests(group, ErrorCode.NOT_COORDINATOR)

    def load(self, group: ClassicGroup, now: float) -> Effects:
        """Start a rebalance if the group has more members than group.max.size."""
        if len(group.members) <= group.max_size:
            return []
        return phases.prepare_rebalance(
            group, f"{len(group.members)} members are more than group.max.size {group.max_size}", now
        )

    # --- records ---

    def group_id_of(self, key: GroupMetadataKey) -> str:
        return key.group

    def records(self, group: ClassicGroup, wall: WallClock) -> Iterable[Record]:
        """Return a list with the record of the group.

        The list is empty during a rebalance, or if the group has no record.
        """
        record = records.group_record(group, wall)
        return [] if record is None else [record]

    def changed_records(self, group: ClassicGroup, wall: WallClock) -> Iterable[Change]:
        """Return the record of the group if it may have changed, or an empty iterable if it has not changed."""
        return records.changed_records(group, wall)

    def keys_to_delete(self, group: ClassicGroup, image: Image) -> Iterable[bytes]:
        """Return the encoded keys for which tombstones are written when a group is deleted.

        This is the key of the group record, if the record was written. Kafka 4 writes the tombstone even if the group
        has only offsets, and therefore no group record.
        """
        return image if group.quirks.no_tombstone_for_offsets_alone else [records.encode_key(group.group_id)]

    def from_records(
        self,
        group_id: str,
        entries: Sequence[tuple[GroupMetadataKey, GroupMetadataValue]],
        context: Context,
        wall: WallClock,
        now: float,
    ) -> ClassicGroup | None:
        """Create a group from its latest record, without offsets; never return None. Sessions restart at ``now``."""
        return records.group_from_record(group_id, entries[-1][1], context, wall, now)

    # --- commit rules ---

    def commit_error(self, group: ClassicGroup, event: Commit, now: float) -> ErrorCode:
        """Return the error of an OffsetCommit, or NONE. An accepted commit renews the session of the member.

        For the errors, see ``rules.commit_error``.
        """
        return heartbeat.commit(group, event, now)

    def transactional_commit_error(self, group: ClassicGroup, event: Commit) -> ErrorCode:
        """Return the error of a TxnOffsetCommit, or NONE.

        For the errors, see ``rules.member_error``.
        """
        return rules.transactional_commit_error(group, event)

    def retention_start(self, group: ClassicGroup) -> RetentionStart:
        """Return a function that computes the start of an offset's retention time, in seconds.

        The arguments of this function are the topic and the committed offset. The function returns None for an offset
        that does not expire in the current state of the group. Source: Kafka's ClassicGroup.offsetExpirationCondition.
        """
        subscribed = subscribed_topics(group) if group.state is State.STABLE else None

        def starts(topic: str, committed: Committed) -> float | None:
            if not group.protocol_type:
                return committed.at  # no member ever joined: the offsets of a simple consumer
            if group.state is State.EMPTY:
                return max(group.state_since, committed.at)
            if group.protocol_type == CONSUMER and subscribed is not None:  # only in a stable group
                return None if topic in subscribed else committed.at
            return None

        return starts

    def subscribed_topics(self, group: ClassicGroup) -> Container[str] | None:
        """Return the topics whose offsets OffsetDelete must not delete, because members subscribe to them.

        If no protocol is selected, or a subscription cannot be decoded, the result contains every topic. The result is
        None if the members are not consumers (protocol type other than ``consumer``).
        """
        if not (group.empty or group.protocol_type == CONSUMER):
            return None
        if not group.members:
            return ()
        topics = subscribed_topics(group)
        return ALL_TOPICS if topics is None else topics

    # --- description ---

    def describe(self, group: ClassicGroup, response: type[T], context: Context) -> T | None:  # noqa: ARG002
        """Return the group as an element of DescribeGroupsResponse.

        ``response``: class of the element; the result is None for the class of another API.
        """
        from kwire.messages.describe_groups import DescribeGroupsResponse  # on demand, as in ``description``

        return cast("T", description.describe(group)) if response is DescribeGroupsResponse.Group else None

    def view(self, group: ClassicGroup, context: Context) -> GroupView:  # noqa: ARG002
        return description.view(group)

    def to_json(self, group: ClassicGroup, topics: TopicNames, settings: Settings) -> Mapping[str, Any]:  # noqa: ARG002
        return description.to_json(group)

    def summary(self, group: ClassicGroup, context: Context) -> GroupSummary:  # noqa: ARG002
        return GroupSummary(protocol=group.protocol, leader=group.leader)

    def describe_members(
        self,
        group: ClassicGroup,
        member_ids: Iterable[str],
        topics: TopicNames,  # noqa: ARG002
        context: Context,  # noqa: ARG002
    ) -> list[MemberDescription]:
        members = (group.members.get(member_id) for member_id in member_ids)
        return [description.member_description(group, member) for member in members if member is not None]


def _exceeds_pending_members(event: Join, context: Context) -> bool:
    return rules.exceeds_pending_members(
        event, context.pending_member_count, context.settings.mockbroker_max_pending_members
    )


def _join_refused(event: Join) -> Reply:
    return replies.join_error(event.ticket, ErrorCode.GROUP_MAX_SIZE_REACHED, "")


CLASSIC_TYPE = ClassicType()
