"""A third group type, only for tests. Its members join and send heartbeats.

It uses the records of share groups, so it takes the place of that type.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, cast

from kwire import ErrorCode
from kwire.blobs import encode_stored
from kwire.blobs.offsets_topic import (
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kwire.messages.describe_groups import DescribeGroupsResponse
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Effect, Effects, Note, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.settings import Settings
from mockbroker.groups.changes import Recorded
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, RegisterGroup, Timer, session_timer
from mockbroker.groups.events import AdminEvent, Commit, Evict
from mockbroker.groups.group_type import (
    Context,
    GroupSummary,
    GroupType,
    GroupTypes,
    GroupView,
    MemberDescription,
    RetentionStart,
    TopicNames,
)
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.offsets import Offsets
from mockbroker.groups.records.image import Change, Record, encode
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.groups.share.declaration import (
    SHARE,
)

TOY = "toy"
SESSION = 10.0  # seconds
T = TypeVar("T")


# --- events and state ---------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Hello:
    """A request that joins or renews the session. ``wait``: it is pending until another member joins."""

    ticket: Ticket
    member_id: str
    client_id: str = "client"
    wait: bool = False


@dataclass(slots=True)
class Welcome:
    """The response."""

    epoch: int
    error_code: int = 0


@dataclass(slots=True, kw_only=True)
class ToyMember(Recorded):
    TRANSIENT: ClassVar[frozenset[str]] = frozenset({"pending"})
    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str = "/127.0.0.1"
    pending: Ticket | None = None


@dataclass(slots=True, kw_only=True)
class ToyGroup(CoordinatedGroup):
    type_name: ClassVar[str] = TOY
    TRANSIENT: ClassVar[frozenset[str]] = frozenset({"timers", "offsets"})
    group_id: str
    epoch: int = 0
    members: dict[str, ToyMember] = field(default_factory=dict)
    timers: Deadlines[Timer] = field(default_factory=Deadlines)
    offsets: Offsets = field(default_factory=Offsets)

    @property
    def state_name(self) -> str:
        return "Playing" if self.members else "Empty"

    @property
    def generation(self) -> int:
        return self.epoch

    @property
    def protocol_type(self) -> str:
        return "play"


# --- behavior -----------------------------------------------------------------------------------------------------


class ToyType(GroupType[ToyGroup]):
    name: ClassVar[str] = TOY
    states: ClassVar[Sequence[str]] = ["Playing", "Empty"]
    events: ClassVar[Sequence[type]] = [Hello]
    record_keys: ClassVar[Sequence[str]] = ["ShareGroupMetadataKey", "ShareGroupMemberMetadataKey"]

    def new(self, group_id: str, context: Context, now: float) -> ToyGroup:
        return ToyGroup(group_id=group_id)

    def receive(self, group: ToyGroup, event: Hello, context: Context, now: float) -> GroupEffects:
        effects: list[Effect | RegisterGroup] = []
        member = group.members.get(event.member_id)
        if member is None:
            member = group.members[event.member_id] = ToyMember(member_id=event.member_id, client_id=event.client_id)
            group.epoch += 1
            effects.append(
                Note(event=EventKind.JOIN, group=group.group_id, member_id=event.member_id, generation=group.epoch)
            )
            effects += self._answer_pending(group, ErrorCode.NONE)
        member.client_id = event.client_id
        group.timers.set(session_timer(event.member_id), now + SESSION)
        if event.wait:
            member.pending = event.ticket
            return effects
        return [*effects, Reply(event.ticket, Welcome(group.epoch))]

    def receive_without_group(
        self, group_id: str, other: CoordinatedGroup | None, event: Hello, context: Context, now: float
    ) -> GroupEffects:
        if other is not None and not other.empty:
            return [Reply(event.ticket, Welcome(-1, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))]
        group = self.new(group_id, context, now)
        if other is not None:
            group.offsets = other.offsets
        return [RegisterGroup(group), *self.receive(group, event, context, now)]

    def administer(self, group: ToyGroup, event: AdminEvent, context: Context, now: float) -> GroupEffects:
        if isinstance(event, Evict):
            if event.member_id not in group.members:
                return []
            del group.members[event.member_id]
            group.timers.forget(session_timer(event.member_id))
        group.epoch += 1
        kind = EventKind.EXPIRE if isinstance(event, Evict) else EventKind.REBALANCE
        return [Note(event=kind, group=group.group_id, generation=group.epoch, reason=event.reason)]

    def tick(self, group: ToyGroup, context: Context, now: float) -> GroupEffects:
        effects: list[Effect | RegisterGroup] = []
        while timer := group.timers.pop_due(now):
            del group.members[timer[1]]
            group.epoch += 1
            effects.append(
                Note(event=EventKind.EXPIRE, group=group.group_id, member_id=timer[1], generation=group.epoch)
            )
        return effects

    def unload(self, group: ToyGroup) -> Effects:
        return self._answer_pending(group, ErrorCode.NOT_COORDINATOR)

    def _answer_pending(self, group: ToyGroup, error: ErrorCode) -> Effects:
        answers: Effects = []
        for member in group.members.values():
            if member.pending is not None:
                answers.append(Reply(member.pending, Welcome(group.epoch, error)))
                member.pending = None
        return answers

    # --- records ---

    def records(self, group: ToyGroup, wall: WallClock) -> Iterable[Record]:
        yield self._epoch(group)
        for member in group.members.values():
            yield self._member(group, member)

    def changed_records(self, group: ToyGroup, wall: WallClock) -> Iterable[Change]:
        if "epoch" in group.changes:
            yield encode(*self._epoch(group))
        for member_id in filter(None, group.changes.get("members", {})):
            if member_id in group.members:
                yield encode(*self._member(group, group.members[member_id]))
            else:
                yield encode_stored(ShareGroupMemberMetadataKey(group_id=group.group_id, member_id=member_id), 0), None

    def _epoch(self, group: ToyGroup) -> Record:
        return ShareGroupMetadataKey(group_id=group.group_id), ShareGroupMetadataValue(epoch=group.epoch), 0

    def _member(self, group: ToyGroup, member: ToyMember) -> Record:
        key = ShareGroupMemberMetadataKey(group_id=group.group_id, member_id=member.member_id)
        return key, ShareGroupMemberMetadataValue(client_id=member.client_id, client_host=member.client_host), 0

    def from_records(
        self, group_id: str, found: Sequence[tuple[Any, Any]], context: Context, wall: WallClock, now: float
    ) -> ToyGroup | None:
        group, epoch = self.new(group_id, context, now), None
        for key, value in found:
            if isinstance(value, ShareGroupMetadataValue):
                epoch = value.epoch
            else:
                group.members[key.member_id] = ToyMember(member_id=key.member_id, client_id=value.client_id)
                group.timers.set(session_timer(key.member_id), now + SESSION)
        if epoch is None:
            return None
        group.epoch = epoch
        return group

    # --- commit rules ---

    def commit_error(self, group: ToyGroup, event: Commit, now: float) -> ErrorCode:
        if event.member_id not in group.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if event.generation == group.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def transactional_commit_error(self, group: ToyGroup, event: Commit) -> ErrorCode:
        return ErrorCode.UNKNOWN_MEMBER_ID

    def fetch_error(self, group: ToyGroup, member_id: str | None, epoch: int) -> ErrorCode:
        return ErrorCode.NONE if member_id is None or epoch == group.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def retention_start(self, group: ToyGroup) -> RetentionStart:
        return lambda _, committed: None if group.members else committed.at

    def subscribed_topics(self, group: ToyGroup) -> Container[str]:
        return {"t"} if group.members else ()

    # --- description ---

    def describe(self, group: ToyGroup, response: type[T], context: Context) -> T | None:
        if response is not DescribeGroupsResponse.Group:
            return None
        kind = DescribeGroupsResponse.Group
        members = [kind.Member(member_id=each.member_id, client_id=each.client_id) for each in group.members.values()]
        return cast("T", kind(group_id=group.group_id, group_state=group.state_name, members=members))

    def view(self, group: ToyGroup, context: Context) -> GroupView:
        return GroupView(protocol="toss", assignments={member_id: {"t": [0]} for member_id in group.members})

    def to_json(self, group: ToyGroup, topics: TopicNames, settings: Settings) -> dict[str, Any]:
        return {"type": TOY, "epoch": group.epoch}

    def summary(self, group: ToyGroup, context: Context) -> GroupSummary:
        return GroupSummary(protocol="toss", epoch=group.epoch)

    def describe_members(
        self, group: ToyGroup, member_ids: Iterable[str], topics: TopicNames, context: Context
    ) -> list[MemberDescription]:
        return []


TOY_TYPES = GroupTypes([*(each for each in GROUP_TYPES.types if each.name != SHARE), ToyType()])
