"""Groups of the classic rebalance protocol, as one type of groups."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from kwire import ErrorCode
from kwire.blobs.offsets_topic import GroupMetadataKey, GroupMetadataValue
from mockbroker.base.effects import Effects, Reply
from mockbroker.base.settings import Settings
from mockbroker.groups.classic import description, heartbeat, machine, phases, records, replies, rules, timers
from mockbroker.groups.classic.state import CLASSIC, ClassicGroup, State
from mockbroker.groups.classic.subscription import CONSUMER, subscribed_topics
from mockbroker.groups.coordinated import Becomes, CoordinatedGroup, Turn
from mockbroker.groups.events import Commit, Event, Heartbeat, Join, Leave, Sync
from mockbroker.groups.group_type import (
    EVERYTHING,
    Context,
    GroupType,
    GroupView,
    RetentionStart,
    Topics,
)
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records.image import Change, Image, Record
from mockbroker.groups.records.wall_time import Wall

T = TypeVar("T")


class ClassicType(GroupType[ClassicGroup]):
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

    name: ClassVar[str] = CLASSIC
    states: ClassVar[Sequence[str]] = [state.value for state in State]
    events: ClassVar[Sequence[type]] = [Join, Sync, Heartbeat, Leave]
    record_keys: ClassVar[Sequence[type]] = [GroupMetadataKey]

    # --- requests and time ---

    def new(self, group_id: str, context: Context, now: float) -> ClassicGroup:
        """Return a group without members, Empty since ``now``."""
        return ClassicGroup.configured(group_id, context.settings, now, context.quirks)

    def receive(self, group: ClassicGroup, event: Event, context: Context, now: float) -> Turn:
        """Return what a request does to a group."""
        if isinstance(event, Join) and _exhausts_ids(event, context):
            return [_refused(event)]
        return machine.receive(group, event, now)

    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: Event, context: Context, now: float
    ) -> Turn:
        """A JoinGroup without member id makes the group, also in the place of an empty one of another type."""
        if not isinstance(event, Join) or event.member_id or (other is not None and not other.empty):
            return machine.absent(event)
        if _exhausts_ids(event, context):
            return [_refused(event)]
        group = self.new(group_id, context, now)
        if other is not None:
            group.offsets = other.offsets
        group.begun = not (context.quirks.group_written_when_stable or other is not None)
        return [Becomes(group), *machine.receive(group, event, now)]

    def tick(self, group: ClassicGroup, context: Context, now: float) -> Turn:
        """Return everything that is due."""
        return timers.tick(group, context.settle, now)

    # --- failover ---

    def unload(self, group: ClassicGroup) -> Effects:
        """Answer pending JoinGroups and SyncGroups. Source: Kafka's GroupMetadataManager.onUnloaded."""
        return phases.turn_away(group, ErrorCode.NOT_COORDINATOR)

    def load(self, group: ClassicGroup, now: float) -> Effects:
        """Begin a rebalance if the group has more members than it may have by now."""
        if len(group.members) <= group.max_size:
            return []
        return phases.prepare(group, "more members than a group may have now", now)

    # --- records ---

    def group_id_of(self, key: GroupMetadataKey) -> str:
        """Return the id of the group."""
        return key.group

    def records(self, group: ClassicGroup, wall: Wall) -> Iterable[Record]:
        """Return the one record; nothing during a rebalance, or if no member ever joined."""
        record = records.record(group, wall)
        return [] if record is None else [record]

    def changed(self, group: ClassicGroup, wall: Wall) -> Iterable[Change]:
        """Return the record, if it may have changed."""
        return records.changed(group, wall)

    def keys_to_delete(self, group: ClassicGroup, image: Image) -> Iterable[bytes]:
        """Kafka makes a classic group of an offset alone, and has it until it is deleted by name."""
        if image or group.quirks.no_tombstone_for_offsets_alone:
            return image
        return [records.encoded_key(group.group_id)]

    def rebuilt(
        self,
        group_id: str,
        found: Sequence[tuple[GroupMetadataKey, GroupMetadataValue]],
        context: Context,
        wall: Wall,
        now: float,
    ) -> ClassicGroup | None:
        """Return the group of its record."""
        return records.rebuilt(group_id, found[-1][1], context, wall, now)

    # --- commit rules ---

    def commit_error(self, group: ClassicGroup, event: Commit, now: float) -> ErrorCode:
        """Return why an OffsetCommit is refused, or NONE; a member that may commit has shown a sign of life."""
        return heartbeat.commit(group, event, now)

    def transactional_commit_error(self, group: ClassicGroup, event: Commit) -> ErrorCode:
        """Return why a TxnOffsetCommit is refused, or NONE."""
        return rules.transactional_commit_error(group, event)

    def retention_starts(self, group: ClassicGroup) -> RetentionStart:
        """Source: Kafka's ClassicGroup.offsetExpirationCondition."""
        subscribed = subscribed_topics(group) if group.state is State.STABLE else None

        def starts(topic: str, committed: Committed) -> float | None:
            if not group.protocol_type:
                return committed.at  # no member ever joined: offsets of a simple consumer
            if group.state is State.EMPTY:
                return max(group.since, committed.at)
            if group.state is State.STABLE and group.protocol_type == CONSUMER and subscribed is not None:
                return None if topic in subscribed else committed.at
            return None

        return starts

    def subscribed(self, group: ClassicGroup) -> Container[str] | None:
        """Return what members read, as far as the group is empty or of consumers. A subscription that cannot be read
        counts as one to everything."""
        if not (group.empty or group.protocol_type == CONSUMER):
            return None
        if not group.members:
            return ()
        topics = subscribed_topics(group)
        return EVERYTHING if topics is None else topics

    # --- description ---

    def described(self, group: ClassicGroup, response: type[T], context: Context) -> T | None:  # noqa: ARG002
        """Return the group as DescribeGroups has it."""
        return cast("T", description.described(group)) if response is description.Described else None

    def view(self, group: ClassicGroup, context: Context) -> GroupView:  # noqa: ARG002
        """Return what snapshots show."""
        return description.view(group)

    def to_json(self, group: ClassicGroup, topics: Topics, settings: Settings) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the group as ``mockbroker import`` prints it."""
        return description.to_json(group)


def _exhausts_ids(event: Join, context: Context) -> bool:
    return rules.exhausts_ids(event, context.unused_ids, context.settings.mockbroker_max_pending_members)


def _refused(event: Join) -> Reply:
    return replies.join_error(event.ticket, ErrorCode.GROUP_MAX_SIZE_REACHED, "")


CLASSIC_TYPE = ClassicType()
