"""A harness of the classic state machine without a broker: members with fixed ids, and virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from kwire import ErrorCode
from mockbroker.base.effects import Note, Reply, Ticket
from mockbroker.groups.classic import administration, heartbeat, timers
from mockbroker.groups.classic import machine as classic
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.events import AdminEvent, Commit, Heartbeat, Join, Leave, LeavingMember, Sync

Protocols = Sequence[tuple[str, bytes]]
RANGE: Protocols = (("range", b"m"),)


class GroupRequest:
    """A request of a member, with its response, the time of the response, and the number of responses."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.answers: list[object] = []
        self.at: float | None = None

    @property
    def parked(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"{len(self.answers)} answers"
        return self.answers[0]

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.answer.error_code)

    @property
    def listed(self) -> list[str]:
        """Return the member ids in a JoinGroup response."""
        return [member.member_id for member in self.answer.members]


class GroupHarness:
    """A classic group in virtual time. The clock begins at 0, and only ``wait`` advances it.

    ``delay``: the initial rebalance delay in seconds; ``how``: further settings of the group, such as ``max_size``.
    """

    def __init__(self, delay: float = 0.0, **how: Any) -> None:
        self.now = 0.0
        self.group = ClassicGroup(group_id="g", initial_delay=delay, **how)
        self.asks: dict[Ticket, GroupRequest] = {}
        self.notes: list[Note] = []
        self._numbers = count(1)

    # --- requests ---

    def join(
        self,
        member_id: str,
        protocols: Protocols = RANGE,
        *,
        session: float = 10.0,
        rebalance: float = 60.0,
        protocol_type: str = "consumer",
    ) -> GroupRequest:
        """Send JoinGroup v0-3 of a new member, which gets the id ``member_id``, or of a member or pending member id."""
        known = member_id in self.group.members or member_id in self.group.pending_members
        return self.join_as(
            member_id if known else "",
            member_id,
            protocols,
            session=session,
            rebalance=rebalance,
            protocol_type=protocol_type,
        )

    def ask_id(
        self, member_id: str, protocols: Protocols = RANGE, *, session: float = 10.0, rebalance: float = 60.0
    ) -> GroupRequest:
        """Send JoinGroup v4+ without a member id. ``member_id``: the pending member id that the response assigns."""
        return self.join_as("", member_id, protocols, session=session, rebalance=rebalance, id_required=True)

    def join_as(
        self,
        member_id: str,
        fresh_id: str = "",
        protocols: Protocols = RANGE,
        *,
        session: float = 10.0,
        rebalance: float = 60.0,
        protocol_type: str = "consumer",
        id_required: bool = False,
        instance_id: str | None = None,
        can_skip: bool = False,
    ) -> GroupRequest:
        ask = self._ask()
        event = Join(
            ticket=ask.ticket,
            member_id=member_id,
            new_member_id=fresh_id,
            require_member_id=id_required,
            instance_id=instance_id,
            supports_skipping_assignment=can_skip,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=session,
            rebalance_timeout=rebalance,
            protocol_type=protocol_type,
            protocols=tuple(protocols),
        )
        return self._tell(ask, event)

    def join_static(self, instance_id: str, fresh_id: str, protocols: Protocols = RANGE, **how: Any) -> GroupRequest:
        """Send JoinGroup of a static member without a member id, which gets the id ``fresh_id``."""
        return self.join_as("", fresh_id, protocols, instance_id=instance_id, id_required=True, **how)

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        generation: int | None = None,
        **given: Any,
    ) -> GroupRequest:
        ask = self._ask()
        number = self.group.generation if generation is None else generation
        return self._tell(
            ask,
            Sync(
                ticket=ask.ticket,
                member_id=member_id,
                generation=number,
                assignments=assignments or {},
                **given,
            ),
        )

    def heartbeat(self, member_id: str, generation: int | None = None, **given: Any) -> ErrorCode:
        ask = self._ask()
        number = self.group.generation if generation is None else generation
        return self._tell(ask, Heartbeat(ticket=ask.ticket, member_id=member_id, generation=number, **given)).error

    def leave(self, *member_ids: str, instance_id: str | None = None) -> list[ErrorCode]:
        ask = self._ask()
        members = [LeavingMember(member_id=member_id, instance_id=instance_id) for member_id in member_ids]
        answer = self._tell(ask, Leave(ticket=ask.ticket, members=members)).answer
        assert answer.error_code == ErrorCode.NONE
        assert [member.member_id for member in answer.members] == list(member_ids)
        return [ErrorCode(member.error_code) for member in answer.members]

    def administer(self, event: AdminEvent) -> None:
        self._take(administration.administer(self.group, event, self.now))

    def commit(self, member_id: str = "", generation: int = -1, instance_id: str | None = None) -> ErrorCode:
        return heartbeat.commit(
            self.group, Commit(member_id=member_id, instance_id=instance_id, generation=generation), self.now
        )

    # --- time ---

    def wait(self, seconds: float) -> None:
        """Advance virtual time, from one deadline to the next."""
        until = self.now + seconds
        while (due := self.group.timers.earliest) <= until:
            self.now = max(self.now, due)
            self._take(timers.tick(self.group, 0.0, self.now))
            assert self.group.timers.earliest > self.now
        self.now = until

    # --- groups in a state ---

    @property
    def state(self) -> State:
        return self.group.state

    def completing(self, *member_ids: str, **how: Any) -> None:
        """Let these members join: the group is CompletingRebalance, and the first member is the leader."""
        delay, self.group.initial_delay = self.group.initial_delay, 1.0
        for member_id in member_ids:
            self.join(member_id, **how)
        self.wait(2.0)
        self.group.initial_delay = delay
        assert self.state is State.COMPLETING, self.state
        assert set(self.group.members) == set(member_ids)

    def stable(self, *member_ids: str, **how: Any) -> None:
        """Let these members join and sync. The first is the leader."""
        self.completing(*member_ids, **how)
        self.sync_all()

    def sync_all(self) -> None:
        """Let all members sync, the leader last."""
        plan = {member_id: f"of {member_id}".encode() for member_id in self.group.members}
        for member_id in sorted(self.group.members, key=lambda member_id: member_id == self.group.leader):
            self.sync(member_id, plan if member_id == self.group.leader else None)
        assert self.state is State.STABLE

    def in_state(self, state: State) -> None:
        """Bring the group into a state, with the leader a and the member b.

        In PreparingRebalance, the JoinGroup of c is pending, and a and b have not rejoined.
        """
        if state is State.EMPTY:
            return
        self.completing("a", "b")
        if state is State.COMPLETING:
            return
        self.sync_all()
        if state is State.PREPARING:
            self.join("c")
        assert self.state is state

    # --- the state machine ---

    def _ask(self) -> GroupRequest:
        ask = GroupRequest(Ticket(connection=next(self._numbers), correlation_id=0, api_key=0, version=0))
        self.asks[ask.ticket] = ask
        return ask

    def _tell(self, ask: GroupRequest, event: Any) -> GroupRequest:
        self._take(classic.receive(self.group, event, self.now))
        self.wait(0.0)  # process deadlines that are already due, such as an initial delay of 0
        return ask

    def _take(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Note):
                self.notes.append(effect)
                continue
            assert isinstance(effect, Reply)
            ask = self.asks[effect.ticket]
            assert not ask.answers, "answered twice"
            ask.answers.append(effect.response)
            ask.at = self.now
