"""The group type of Kafka Streams applications (KIP-1071)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from kwire import ErrorCode
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, RegisterGroup
from mockbroker.groups.events import Commit, StreamsHeartbeat
from mockbroker.groups.group_type import Context, GroupSummary, GroupView, MemberDescription, RetentionStart, TopicNames
from mockbroker.groups.modern_group import EpochGroupType
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.image import Change, Image, Record
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.groups.streams import commit_rules, description, machine, records
from mockbroker.groups.streams.declaration import EVENTS, RECORD_KEYS, STATES, STREAMS
from mockbroker.groups.streams.group_settings import group_settings
from mockbroker.groups.streams.state import StreamsGroup, StreamsMember
from mockbroker.groups.streams.target import ASSIGNOR

T = TypeVar("T")


class StreamsType(EpochGroupType[StreamsGroup]):
    """The group type whose members send StreamsGroupHeartbeat."""

    name: ClassVar[str] = STREAMS
    states: ClassVar[Sequence[str]] = STATES
    events: ClassVar[Sequence[type]] = EVENTS
    record_keys: ClassVar[Sequence[str]] = RECORD_KEYS

    # --- requests and time ---

    def new(self, group_id: str, context: Context, now: float) -> StreamsGroup:  # noqa: ARG002
        return StreamsGroup(group_id=group_id)

    def receive(self, group: StreamsGroup, event: StreamsHeartbeat, context: Context, now: float) -> GroupEffects:
        """Handle a heartbeat."""
        if event.epoch < 0:
            return machine.leave(group, event)
        return machine.heartbeat(group, event, context, now)

    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: StreamsHeartbeat, context: Context, now: float
    ) -> GroupEffects:
        """Create the group for a member that joins, and reject other heartbeats.

        An empty classic group with this id is replaced, and its committed offsets are kept.
        """
        machine.check_may_create(group_id, other, event)
        group = self.new(group_id, context, now)
        if other is not None:
            group.offsets = other.offsets
        return [RegisterGroup(group), *machine.heartbeat(group, event, context, now, is_new=True)]

    def evict(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        reason: str,
        context: Context,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> GroupEffects:
        """Remove a member, and start a new group epoch.

        Return the effects: responses, journal events, and new groups to register.

        Args:
            group: the group.
            member: the member.
            reason: reason of the removal, for the journal.
            context: data and functions shared by all groups.
            now: the current time in seconds.
        """
        return machine.fence(group, member, EventKind.EXPIRE, reason)

    def tick(self, group: StreamsGroup, context: Context, now: float) -> GroupEffects:  # noqa: ARG002
        return machine.tick(group, now)

    # --- records ---

    def records(self, group: StreamsGroup, wall: WallClock) -> Iterable[Record]:  # noqa: ARG002
        """Return the records of the group, its topology, members and target assignments."""
        return records.records(group)

    def changed_records(self, group: StreamsGroup, wall: WallClock) -> Iterable[Change]:  # noqa: ARG002
        """Return the records of all fields that were set since the last write, and tombstones for removed entries."""
        return records.changed_records(group)

    def keys_to_delete(self, group: StreamsGroup, image: Image) -> Iterable[bytes]:
        """Return the keys for which tombstones are written when a group is deleted, in Kafka's order.

        As in Kafka, the keys of the group itself are returned even if a record is missing, such as the target
        assignment of a group that was empty before its initial rebalance delay had passed.
        """
        last = records.group_keys(group.group_id)
        return [*(key for key in image if key not in last), *last]

    def from_records(
        self,
        group_id: str,
        entries: Sequence[tuple[Any, Any]],
        context: Context,
        wall: WallClock,  # noqa: ARG002
        now: float,
    ) -> StreamsGroup | None:
        """Return a group that is created from its records, or None if the record of the group itself is missing."""
        return records.group_from_records(group_id, entries, context, now)

    # --- commit rules ---

    def commit_error(self, group: StreamsGroup, event: Commit, now: float) -> ErrorCode:  # noqa: ARG002
        """Return the error of an OffsetCommit, or NONE.

        For the errors, see ``commit_rules.commit_error``.
        """
        return commit_rules.commit_error(group, event)

    def transactional_commit_error(self, group: StreamsGroup, event: Commit) -> ErrorCode:
        """Return the error of a TxnOffsetCommit, or NONE.

        For the errors, see ``commit_rules.transactional_commit_error``.
        """
        return commit_rules.transactional_commit_error(group, event)

    def fetch_error(self, group: StreamsGroup, member_id: str | None, epoch: int) -> ErrorCode:
        return commit_rules.fetch_error(group, member_id, epoch)

    def retention_start(self, group: StreamsGroup) -> RetentionStart:
        """Return a function that computes the start of an offset's retention time, in seconds.

        The arguments of this function are the topic and the committed offset. The function returns the time of the
        commit, or None for an offset of a source or repartition topic: such an offset does not expire. Source: Kafka's
        StreamsGroup.offsetExpirationCondition.
        """

        def starts(topic: str, committed: Committed) -> float | None:
            return None if group.is_subscribed_to(topic) else committed.at

        return starts

    def subscribed_topics(self, group: StreamsGroup) -> Container[str]:
        """Return the names of the source and repartition topics, or an empty collection if the group has no members."""
        return group.topology.subtopology_of if group.members and group.topology is not None else ()

    # --- description ---

    def describe(self, group: StreamsGroup, response: type[T], context: Context) -> T | None:  # noqa: ARG002
        """Return the group as an element of StreamsGroupDescribeResponse.

        ``response``: class of the element; the result is None for the class of another API.
        """
        return cast("T", description.describe(group)) if response is description.Described else None

    def view(self, group: StreamsGroup, context: Context) -> GroupView:  # noqa: ARG002
        return description.view(group)

    def to_json(self, group: StreamsGroup, topics: TopicNames, settings: Settings) -> Mapping[str, Any]:  # noqa: ARG002
        return description.to_json(group)

    def summary(self, group: StreamsGroup, context: Context) -> GroupSummary:  # noqa: ARG002
        return GroupSummary(protocol=ASSIGNOR, epoch=group.epoch)

    def describe_members(
        self,
        group: StreamsGroup,
        member_ids: Iterable[str],
        topics: TopicNames,  # noqa: ARG002
        context: Context,
    ) -> list[MemberDescription]:
        timeout_ms = round(group_settings(group.group_id, context).session_timeout * 1000)
        members = (group.members.get(member_id) for member_id in member_ids)
        return [description.member_description(group, member, timeout_ms) for member in members if member is not None]


STREAMS_TYPE = StreamsType()
