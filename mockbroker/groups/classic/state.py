"""A classic group and its members: data, and the moves between states that are legal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Self

from kwire.java import map_order
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Ticket
from mockbroker.base.release import SINCE_4_0, Quirks
from mockbroker.base.settings import Settings
from mockbroker.groups.changes import Changes, Recorded
from mockbroker.groups.coordinated import CoordinatedGroup, Wait
from mockbroker.groups.offsets import Offsets

CLASSIC = "classic"


class State(Enum):
    """States by the names that tools know. Source: Kafka's ClassicGroupState."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"

    __hash__ = object.__hash__  # each is there once; tables are asked for every heartbeat


EMPTY, PREPARING, COMPLETING, STABLE = State  # a name is read in a fifth of the time that an enum takes
COMES_FROM = {
    EMPTY: {PREPARING},
    PREPARING: {STABLE, COMPLETING, EMPTY},
    COMPLETING: {PREPARING},
    STABLE: {COMPLETING},
}

# What a group waits for: (kind, member id or ""). "delay" is the initial rebalance delay, "join" and "sync" bound the
# two phases of a rebalance, "session" is a member's, "pending" that of a member id nobody has used yet.
DELAY: Wait = ("delay", "")
JOIN: Wait = ("join", "")
SYNC: Wait = ("sync", "")


def pending_of(member_id: str) -> Wait:
    return ("pending", member_id)


@dataclass(slots=True, kw_only=True)
class Member(Recorded):
    """``join`` and ``sync``: tickets of parked requests. ``new``: its first join is not answered yet."""

    TRANSIENT: ClassVar[frozenset[str]] = frozenset({"new", "join", "sync"})

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Sequence[tuple[str, bytes]]
    assignment: bytes = b""
    new: bool = True
    join: Ticket | None = None
    sync: Ticket | None = None

    def metadata(self, protocol: str) -> bytes:
        """What the member said under this protocol name; the first counts if it said it twice."""
        return next(metadata for name, metadata in self.protocols if name == protocol)


@dataclass(slots=True, kw_only=True)
class ClassicGroup(CoordinatedGroup):
    """``quirks``: where the coordinator of the release differs (release.py).
    ``static``: instance id to member id. ``since``: when the state was entered.
    ``pending``: member ids given out by MEMBER_ID_REQUIRED, and to which client. ``unsynced``: members whose SyncGroup
    is due.
    ``offered``: how many members offer each protocol. ``most_members``: the most there ever were at a time.
    ``begun``: it is written though nobody is in it yet, as a JoinGroup made it.

    ``delay``, ``delay_left``, ``joined_in_delay``: the initial rebalance delay in force, how much longer it may be
    stretched, and whether it has to be.
    """

    type_name: ClassVar[str] = CLASSIC
    TRANSIENT: ClassVar[frozenset[str]] = frozenset(
        {
            "initial_delay",
            "max_size",
            "quirks",
            "came_from",
            "static",
            "most_members",
            "offered",
            "parked_joins",
            "pending",
            "unsynced",
            "delay",
            "delay_left",
            "joined_in_delay",
            "last_join",
            "waits",
            "offsets",
        }
    )
    group_id: str
    initial_delay: float
    max_size: int = 2**31 - 1
    quirks: Quirks = SINCE_4_0
    state: State = State.EMPTY
    came_from: State | None = None
    since: float = 0.0
    begun: bool = False
    generation: int = 0  # pyright: ignore[reportIncompatibleMethodOverride]
    protocol_type: str = ""  # pyright: ignore[reportIncompatibleMethodOverride]
    protocol: str | None = None
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)  # pyright: ignore[reportIncompatibleMethodOverride]
    static: dict[str, str] = field(default_factory=dict)
    most_members: int = 0
    offered: Counter[str] = field(default_factory=Counter)
    parked_joins: int = 0
    pending: dict[str, str] = field(default_factory=dict)
    unsynced: set[str] = field(default_factory=set)
    delay: float = 0.0
    delay_left: float = 0.0
    joined_in_delay: bool = False
    last_join: float = 0.0
    waits: Deadlines[Wait] = field(default_factory=Deadlines)
    offsets: Offsets = field(default_factory=Offsets)

    @classmethod
    def configured(cls, group_id: str, settings: Settings, now: float, quirks: Quirks = SINCE_4_0) -> Self:
        """A new group of a broker with these settings, Empty since ``now``."""
        return cls(
            group_id=group_id,
            since=now,
            initial_delay=settings.group_initial_rebalance_delay_ms / 1000,
            max_size=settings.group_max_size,
            quirks=quirks,
        )

    @property
    def state_name(self) -> str:
        """As tools know it."""
        return self.state.value

    @property
    def empty(self) -> bool:
        """True in the state Empty."""
        return self.state is EMPTY

    @property
    def unused_ids(self) -> int:
        """How many member ids were given out by MEMBER_ID_REQUIRED and not used yet."""
        return len(self.pending)

    def move_to(self, state: State, now: float) -> None:
        """Change state; an illegal move is a bug of ours."""
        assert self.state in COMES_FROM[state], f"{self.group_id}: {self.state} -> {state}"
        self.came_from, self.state, self.since = self.state, state, now

    def rebalance_timeout(self) -> float:
        """The longest that any member asked for."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        member.record_in(self.changes)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.most_members = max(self.most_members, len(self.members))
        self.offered.update({name for name, _ in member.protocols})

    def remove(self, member: Member) -> None:
        """Take out a member that has no parked join."""
        assert member.join is None
        del self.members[member.member_id]
        member.record_in(Changes())
        if member.instance_id is not None:
            del self.static[member.instance_id]
        self._withdraw(member)

    def holder(self, instance_id: str | None) -> str | None:
        """The member id that a static member has now."""
        return None if instance_id is None else self.static.get(instance_id)

    def rename(self, member: Member, member_id: str) -> None:
        """A static member is back under another id; what it had stays its own."""
        assert member.instance_id is not None
        if self.leader == member.member_id:
            self.leader = member_id
        if member.member_id in self.unsynced:
            self.unsynced.remove(member.member_id)
            self.unsynced.add(member_id)
        del self.members[member.member_id]
        member.member_id = member_id
        self.members[member_id] = member
        self.static[member.instance_id] = member_id

    def offer(self, member: Member, protocols: Sequence[tuple[str, bytes]]) -> None:
        """A member's protocols from now on."""
        self._withdraw(member)
        self.offered.update({name for name, _ in protocols})
        member.protocols = protocols

    def _withdraw(self, member: Member) -> None:
        for name in {name for name, _ in member.protocols}:
            self.offered[name] -= 1
            if not self.offered[name]:
                del self.offered[name]

    def all_can(self, protocol: str) -> bool:
        """True if every member offers this protocol."""
        return self.offered[protocol] == len(self.members)

    def park_join(self, member: Member, ticket: Ticket) -> None:
        """The member's JoinGroup waits; one that waited already is forgotten, as Kafka does."""
        self.parked_joins += member.join is None
        member.join = ticket

    def take_join(self, member: Member) -> Ticket | None:
        """The member's parked JoinGroup, to be answered now."""
        ticket, member.join = member.join, None
        self.parked_joins -= ticket is not None
        return ticket

    def all_joined(self) -> bool:
        """True if nobody who could still join is missing; ids given out and not yet used count as missing."""
        return not self.pending and self.parked_joins == len(self.members)

    def in_map_order(self) -> list[Member]:
        """Members as Kafka's coordinator iterates them."""
        return [self.members[member_id] for member_id in map_order(self.members, self.most_members)]
