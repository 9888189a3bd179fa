"""The group type of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar, TypeAlias, TypeVar, cast
from uuid import UUID

from kwire import ErrorCode
from mockbroker.base.effects import Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, RegisterGroup
from mockbroker.groups.events import AlterShareOffsets, Commit, DeleteShareOffsets, ShareHeartbeat
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
from mockbroker.groups.records.image import Change, Record
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.groups.share import description, initialization, machine, offsets, records
from mockbroker.groups.share.declaration import EVENTS, RECORD_KEYS, SHARE, STATES
from mockbroker.groups.share.state import JOIN_EPOCH, ShareGroup, ShareMember
from mockbroker.groups.share.target import ASSIGNOR

T = TypeVar("T")
Event: TypeAlias = ShareHeartbeat | AlterShareOffsets | DeleteShareOffsets


class ShareType(EpochGroupType[ShareGroup]):
    """The group type whose members send ShareGroupHeartbeat."""

    name: ClassVar[str] = SHARE
    states: ClassVar[Sequence[str]] = STATES
    events: ClassVar[Sequence[type]] = EVENTS
    record_keys: ClassVar[Sequence[str]] = RECORD_KEYS

    # --- requests and time ---

    def new(self, group_id: str, context: Context, now: float) -> ShareGroup:  # noqa: ARG002
        return ShareGroup(group_id=group_id)

    def receive(self, group: ShareGroup, event: Event, context: Context, now: float) -> GroupEffects:
        """Handle a heartbeat, or a request that changes start offsets."""
        match event:
            case AlterShareOffsets():
                return [Reply(event.ticket, offsets.alter(group, event, context, now))]
            case DeleteShareOffsets():
                return [Reply(event.ticket, offsets.delete(group, event, context, now))]
            case ShareHeartbeat() if event.epoch < 0:
                return machine.leave(group, event, context, now)
            case ShareHeartbeat():
                return machine.heartbeat(group, event, context, now)

    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: Event, context: Context, now: float
    ) -> GroupEffects:
        """Handle a request for a group that does not exist, and create the group if possible.

        A member that joins creates the group. AlterShareOffsets creates the group if at least one offset is set. All
        other requests are rejected.

        If ``other`` exists, the request is rejected, even if ``other`` has no members.
        """
        if other is not None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        match event:
            case DeleteShareOffsets():
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            case ShareHeartbeat() if event.epoch != JOIN_EPOCH:
                kind = "Group" if event.epoch < JOIN_EPOCH else "Share group"
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        group = self.new(group_id, context, now)
        effects = self.receive(group, event, context, now)
        return [RegisterGroup(group), *effects] if group.members or group.initialized else effects

    def evict(self, group: ShareGroup, member: ShareMember, reason: str, context: Context, now: float) -> GroupEffects:
        """Remove a member, and start a new group epoch.

        Return the effects: responses, journal events, and new groups to register.

        Args:
            group: the group.
            member: the member.
            reason: reason of the removal, for the journal.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """
        return machine.fence(group, [member], EventKind.EXPIRE, reason, context, now)

    def tick(self, group: ShareGroup, context: Context, now: float) -> GroupEffects:
        return machine.tick(group, context, now)

    def delete_topics(self, group: ShareGroup, topic_ids: AbstractSet[UUID]) -> None:
        """Remove deleted topics from the share partitions of the group. ``topic_ids``: ids of the topics."""
        initialization.remove_topics(group, topic_ids)

    def share_partitions(self, group: ShareGroup) -> Mapping[UUID, Sequence[int]]:
        """Return the share partitions of the group whose share state is initialized: topic id -> partition indexes."""
        return {topic_id: sorted(shared.partitions) for topic_id, shared in group.initialized.items()}

    def prepare_deletion(self, group: ShareGroup, context: Context, now: float) -> ErrorCode:
        """Delete the share state of all partitions of the group.

        Returns: NONE, or COORDINATOR_NOT_AVAILABLE if a state cannot be deleted now.
        """
        return initialization.delete_states(group, context, now)

    # --- records ---

    def records(self, group: ShareGroup, wall: WallClock) -> Iterable[Record]:  # noqa: ARG002
        """Return all records that store the group: group, members, assignments and share partitions."""
        return records.records(group)

    def changed_records(self, group: ShareGroup, wall: WallClock) -> Iterable[Change]:  # noqa: ARG002
        """Return the records of all fields that were set since the last write, and tombstones for removed entries."""
        return records.changed_records(group)

    def from_records(
        self,
        group_id: str,
        entries: Sequence[tuple[Any, Any]],
        context: Context,
        wall: WallClock,  # noqa: ARG002
        now: float,
    ) -> ShareGroup | None:
        """Return a group that is created from its records.

        Returns: the group; None if there is neither a group record nor a record of share partitions.
        """
        return records.group_from_records(group_id, entries, context, now)

    # --- commit rules: share groups have no committed offsets ---

    def commit_error(self, group: ShareGroup, event: Commit, now: float) -> ErrorCode:  # noqa: ARG002
        """Return GROUP_ID_NOT_FOUND: share groups have no committed offsets.

        Source: Kafka's ShareGroup.validateOffsetCommit.
        """
        return ErrorCode.GROUP_ID_NOT_FOUND

    def transactional_commit_error(self, group: ShareGroup, event: Commit) -> ErrorCode:  # noqa: ARG002
        """Return GROUP_ID_NOT_FOUND: share groups have no committed offsets."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def retention_start(self, group: ShareGroup) -> RetentionStart:  # noqa: ARG002
        """Return a function that always returns None: share groups have no committed offsets."""
        return lambda _topic, _committed: None

    def offset_delete_error(self, group: ShareGroup) -> ErrorCode:  # noqa: ARG002
        """Return GROUP_ID_NOT_FOUND. Source: Kafka's ShareGroup.validateOffsetDelete."""
        return ErrorCode.GROUP_ID_NOT_FOUND

    def subscribed_topics(self, group: ShareGroup) -> Container[str] | None:  # noqa: ARG002
        """Return None: OffsetDelete is not allowed for share groups."""
        return None

    # --- description ---

    def describe(self, group: ShareGroup, response: type[T], context: Context) -> T | None:
        """Return the group as an element of ShareGroupDescribeResponse.

        ``response``: class of the element; the result is None for the class of another API.
        """
        return cast("T", description.describe(group, context)) if response is description.Described else None

    def view(self, group: ShareGroup, context: Context) -> GroupView:
        return description.view(group, context)

    def to_json(self, group: ShareGroup, topics: TopicNames, settings: Settings) -> Mapping[str, Any]:  # noqa: ARG002
        return description.to_json(group, topics)

    def summary(self, group: ShareGroup, context: Context) -> GroupSummary:  # noqa: ARG002
        return GroupSummary(protocol=ASSIGNOR, epoch=group.epoch)

    def describe_members(
        self, group: ShareGroup, member_ids: Iterable[str], topics: TopicNames, context: Context
    ) -> list[MemberDescription]:
        timeout_ms = context.group_milliseconds(group.group_id, "share.session.timeout.ms")
        members = (group.members.get(member_id) for member_id in member_ids)
        return [description.member_description(member, topics, timeout_ms) for member in members if member is not None]


SHARE_TYPE = ShareType()
