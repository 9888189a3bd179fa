"""The members of a classic group, its states, and the valid transitions between states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from enum import Enum
from typing import ClassVar, Self

from kwire.java import map_order
from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.effects import Ticket
from mockbroker.base.release import SINCE_4_0, Quirks
from mockbroker.base.settings import Settings
from mockbroker.groups.changes import Changes, Recorded, set_field
from mockbroker.groups.classic.declaration import CLASSIC
from mockbroker.groups.coordinated import CoordinatedGroup, Timer
from mockbroker.groups.offsets import Offsets


class State(Enum):
    """The state of a classic group, with the name that DescribeGroups reports. Source: Kafka's ClassicGroupState.

    Attributes:
        EMPTY: the group has no members.
        PREPARING: a rebalance has begun, and waits for the JoinGroup requests of the members.
        COMPLETING: the JoinGroup responses are sent, and the group waits for the SyncGroup of the leader.
        STABLE: the leader has assigned the partitions.
    """

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"

    __hash__ = object.__hash__  # by identity, for fast lookups at every heartbeat


EMPTY, PREPARING, COMPLETING, STABLE = State  # reading a module name is five times as fast as reading an enum member
VALID_PREVIOUS_STATES = {
    EMPTY: {PREPARING},
    PREPARING: {STABLE, COMPLETING, EMPTY},
    COMPLETING: {PREPARING},
    STABLE: {COMPLETING},
}

# Timers: kind, and member id or "". "delay" is the initial rebalance delay, "join" ends the join phase, "sync" ends the
# wait for pending syncs, "session" is the session timeout of a member, "pending" that of a pending member.
INITIAL_DELAY_TIMER: Timer = ("delay", "")
JOIN_TIMER: Timer = ("join", "")
SYNC_TIMER: Timer = ("sync", "")


def pending_member_timer(member_id: str) -> Timer:
    """Return the timer key for the timeout of an assigned member id.

    A client must send JoinGroup with the member id before this timeout.
    """
    return ("pending", member_id)


@dataclass(slots=True, kw_only=True, init=False)
class Member(Recorded):
    """A member of a classic group.

    Attributes:
        member_id: member id.
        instance_id: ``group.instance.id`` of a static member; None for a dynamic member.
        client_id: the ``client.id`` of the request header.
        client_host: address of the client.
        session_timeout: session timeout in seconds.
        rebalance_timeout: rebalance timeout in seconds.
        protocols: names and metadata of the supported protocols, in order of preference.
        assignment: encoded assignment in the current generation; empty before the leader's SyncGroup.
        is_new: whether the first JoinGroup of the member has not been answered yet.
        pending_join: ticket of the pending JoinGroup; None if no JoinGroup is pending.
        pending_sync: ticket of the pending SyncGroup; None if no SyncGroup is pending.
    """

    TRANSIENT: ClassVar[frozenset[str]] = frozenset({"is_new", "pending_join", "pending_sync"})

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Sequence[tuple[str, bytes]]
    assignment: bytes
    is_new: bool
    pending_join: Ticket | None
    pending_sync: Ticket | None

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None = None,
        client_id: str,
        client_host: str,
        session_timeout: float,
        rebalance_timeout: float,
        protocols: Sequence[tuple[str, bytes]],
        assignment: bytes = b"",
        is_new: bool = True,
    ) -> None:
        """Set the fields without recording each change: ``ClassicGroup.add_member`` records the whole member."""
        set_field(self, "member_id", member_id)
        set_field(self, "instance_id", instance_id)
        set_field(self, "client_id", client_id)
        set_field(self, "client_host", client_host)
        set_field(self, "session_timeout", session_timeout)
        set_field(self, "rebalance_timeout", rebalance_timeout)
        set_field(self, "protocols", protocols)
        set_field(self, "assignment", assignment)
        set_field(self, "is_new", is_new)
        set_field(self, "pending_join", None)
        set_field(self, "pending_sync", None)

    def metadata(self, protocol: str) -> bytes:
        """Return the member's metadata for a protocol.

        If the member listed the protocol name twice, the metadata of the first entry is returned.

        ``protocol``: name of a protocol that the member supports.
        """
        return next(metadata for name, metadata in self.protocols if name == protocol)


@dataclass(slots=True, kw_only=True)
class ClassicGroup(CoordinatedGroup):
    """The state of a classic group.

    Attributes:
        group_id: group id.
        initial_delay: initial rebalance delay (``group.initial.rebalance.delay.ms``), in seconds.
        max_size: maximum number of members (``group.max.size``).
        quirks: differences of the emulated release's coordinator (release.py).
        state: state of the group.
        previous_state: state before the latest transition; None before the first transition.
        state_since: time in seconds when the state was entered.
        has_record: whether a record is written even before the first member has joined, because a JoinGroup created the
            group or it was loaded from a record.
        generation: number of the current generation; 0 before the first.
        protocol_type: protocol type, such as ``consumer``; "" before the first member joins.
        protocol: name of the selected protocol; None if none is selected.
        leader: member id of the leader; "" if the group has no leader.
        members: members by member id.
        static_members: member ids by instance id.
        peak_member_count: largest number of members so far, which determines the iteration order of Kafka's hash map.
        supported_protocols: number of members that support each protocol.
        pending_join_count: number of members with a pending JoinGroup.
        pending_members: client ids by pending member id: ids that were assigned with MEMBER_ID_REQUIRED and not yet
            used to join.
        pending_sync_members: ids of the members that have not sent SyncGroup in this generation.
        remaining_delay: maximum time in seconds by which the initial rebalance delay may still be extended.
        new_member_added: whether a member joined during the initial rebalance delay, so that the delay is extended.
        last_join_at: time in seconds of the last JoinGroup.
        timers: deadlines of the group and its members.
        offsets: committed offsets.
    """

    type_name: ClassVar[str] = CLASSIC
    replaced_by: ClassVar[frozenset[str]] = frozenset({"consumer", "streams"})
    TRANSIENT: ClassVar[frozenset[str]] = frozenset(
        {
            "initial_delay",
            "max_size",
            "quirks",
            "previous_state",
            "static_members",
            "peak_member_count",
            "supported_protocols",
            "pending_join_count",
            "pending_members",
            "pending_sync_members",
            "remaining_delay",
            "new_member_added",
            "last_join_at",
            "timers",
            "offsets",
        }
    )
    group_id: str
    initial_delay: float
    max_size: int = 2**31 - 1
    quirks: Quirks = SINCE_4_0
    state: State = State.EMPTY
    previous_state: State | None = None
    state_since: float = 0.0
    has_record: bool = False
    generation: int = 0  # pyright: ignore[reportIncompatibleMethodOverride]
    protocol_type: str = ""  # pyright: ignore[reportIncompatibleMethodOverride]
    protocol: str | None = None
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)  # pyright: ignore[reportIncompatibleMethodOverride]
    static_members: dict[str, str] = field(default_factory=dict)
    peak_member_count: int = 0
    supported_protocols: Counter[str] = field(default_factory=Counter)
    pending_join_count: int = 0
    pending_members: dict[str, str] = field(default_factory=dict)
    pending_sync_members: set[str] = field(default_factory=set)
    remaining_delay: float = 0.0
    new_member_added: bool = False
    last_join_at: float = 0.0
    timers: Deadlines[Timer] = field(default_factory=Deadlines)
    offsets: Offsets = field(default_factory=Offsets)

    @classmethod
    def from_settings(cls, group_id: str, settings: Settings, now: float, quirks: Quirks = SINCE_4_0) -> Self:
        """Create a group without members, in state Empty since ``now``.

        Args:
            group_id: The group id.
            settings: The settings of the brokers.
            now: The current time in seconds.
            quirks: Differences of the emulated release.
        """
        return cls(
            group_id=group_id,
            state_since=now,
            initial_delay=settings.group_initial_rebalance_delay_ms / 1000,
            max_size=settings.group_max_size,
            quirks=quirks,
        )

    @property
    def state_name(self) -> str:
        """The name of the state, as ListGroups reports it."""
        return self.state.value

    @property
    def empty(self) -> bool:
        """Whether the group is in state Empty."""
        return self.state is EMPTY

    @property
    def is_persisted_state(self) -> bool:
        """Whether the record of the group is written in its current state."""
        return self.state is STABLE or self.state is EMPTY

    @property
    def has_unwritten_changes(self) -> bool:
        """Whether the group's record or offsets must be written.

        During a rebalance, a record is written only for a group that has none yet. All other changes are written when
        the rebalance ends.
        """
        changes, offsets = self.changes, self.offsets
        if changes and (self.is_persisted_state or "has_record" in changes):
            return True
        return bool(offsets.unwritten or offsets.unwritten_transactional)

    @property
    def pending_member_count(self) -> int:
        """The number of pending members.

        A pending member is a client that got a member id but has not sent a JoinGroup with this id yet.
        """
        return len(self.pending_members)

    def transition_to(self, state: State, now: float) -> None:
        """Change the state at ``now``, in seconds. Raises: AssertionError for an invalid transition, which is a bug."""
        assert self.state in VALID_PREVIOUS_STATES[state], f"{self.group_id}: {self.state} -> {state}"
        self.previous_state, self.state, self.state_since = self.state, state, now

    def rebalance_timeout(self) -> float:
        """Return the longest rebalance timeout of the members, in seconds."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    def add_member(self, member: Member) -> None:
        """Add a member to the group, and update the static member ids and the counts of members and protocols."""
        self.members[member.member_id] = member
        member.record_in(self.changes)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.peak_member_count = max(self.peak_member_count, len(self.members))
        self._add_protocols(member.protocols)

    def remove_member(self, member: Member) -> None:
        """Remove a member that has no pending join.

        The static member ids and the counts of protocols are updated. The caller updates everything else, such as the
        leader and the timers.
        """
        assert member.pending_join is None
        del self.members[member.member_id]
        member.record_in(Changes())
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        self._remove_protocols(member)

    def static_member_id(self, instance_id: str | None) -> str | None:
        """Return the member id of a static member, or None if the instance id is unknown or None."""
        return None if instance_id is None else self.static_members.get(instance_id)

    def replace_static_member(self, member: Member, member_id: str) -> None:
        """Change the member id of a static member to ``member_id``.

        The leader, ``static_members`` and ``pending_sync_members`` of the group are updated. The caller updates the
        timers.
        """
        assert member.instance_id is not None
        if self.leader == member.member_id:
            self.leader = member_id
        if member.member_id in self.pending_sync_members:
            self.pending_sync_members.remove(member.member_id)
            self.pending_sync_members.add(member_id)
        del self.members[member.member_id]
        member.member_id = member_id
        self.members[member_id] = member
        self.static_members[member.instance_id] = member_id

    def update_protocols(self, member: Member, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Replace the protocols that a member supports.

        The number of members that support each protocol is updated.
        """
        self._remove_protocols(member)
        self._add_protocols(protocols)
        member.protocols = protocols

    def _add_protocols(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        for name in {name for name, _ in protocols}:
            self.supported_protocols[name] += 1

    def _remove_protocols(self, member: Member) -> None:
        for name in {name for name, _ in member.protocols}:
            self.supported_protocols[name] -= 1
            if not self.supported_protocols[name]:
                del self.supported_protocols[name]

    def all_support(self, protocol: str) -> bool:
        """Return whether all members support a protocol."""
        return self.supported_protocols[protocol] == len(self.members)

    def set_pending_join(self, member: Member, ticket: Ticket) -> None:
        """Store the ticket of a member's pending JoinGroup.

        If the member has an older pending JoinGroup, it is never answered.

        Args:
            member: The member.
            ticket: Ticket of the request, with which its response is sent.
        """
        if member.pending_join is None:
            set_field(self, "pending_join_count", self.pending_join_count + 1)
        set_field(member, "pending_join", ticket)

    def pop_pending_join(self, member: Member) -> Ticket | None:
        """Remove and return the ticket of a member's pending JoinGroup; return None if none is pending."""
        ticket = member.pending_join
        if ticket is not None:
            set_field(self, "pending_join_count", self.pending_join_count - 1)
            set_field(member, "pending_join", None)
        return ticket

    def all_members_joined(self) -> bool:
        """Return whether every member has a pending JoinGroup, and every assigned member id has been used to join."""
        return not self.pending_members and self.pending_join_count == len(self.members)

    def in_map_order(self) -> list[Member]:
        """Return the members in the iteration order of Kafka's hash map."""
        return [self.members[member_id] for member_id in map_order(self.members, self.peak_member_count)]
