"""Invariants of a classic group under random requests and delays, and planted bugs that the machine must catch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from effort import amount
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tools.group_harness import GroupHarness, GroupRequest

from kwire import ErrorCode as E
from mockbroker.base.effects import Effects, Note, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import administration, heartbeat, membership, phases, rules, timers
from mockbroker.groups.classic import machine as classic
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.coordinated import session_timer
from mockbroker.groups.events import Commit, Evict, Heartbeat, Join, Leave, LeavingMember, Rebalance, Sync

LEGAL = {
    (State.EMPTY, State.PREPARING),
    (State.PREPARING, State.EMPTY),
    (State.PREPARING, State.COMPLETING),
    (State.COMPLETING, State.STABLE),
    (State.COMPLETING, State.PREPARING),
    (State.STABLE, State.PREPARING),
}
PROTOCOLS = [
    (("range", b"1"),),
    (("range", b"1"),),
    (("range", b"1"),),
    (("range", b"1"),),
    (("range", b"2"),),
    (("range", b"1"), ("sticky", b"1")),
    (("sticky", b"1"), ("range", b"1")),
    (("sticky", b"1"),),
    (("range", b"1"), ("range", b"2")),
    (),
]
SESSIONS = [1.0, 2.0, 5.0]
REBALANCES = [0.0, 3.0, 8.0, 8.0]
STEPS = [0.0, 0.4, 0.7, 1.0, 1.5, 2.0, 4.0, 310.0]

Event = Join | Sync | Heartbeat | Leave
Given = dict[str, Any]  # fields of a JoinGroup
who = st.integers(0, 5)
joins = st.fixed_dictionaries(
    {
        "protocols": st.sampled_from(PROTOCOLS),
        "session": st.sampled_from(SESSIONS),
        "rebalance": st.sampled_from(REBALANCES),
        "protocol_type": st.sampled_from([*["consumer"] * 8, "connect", ""]),
    }
)
generations = st.sampled_from([0, 0, 0, -1, 1])  # difference to the generation of the group


class GroupMachine(RuleBasedStateMachine):
    """Random requests, with a simple model of the expected effects of each.

    Attributes:
        asked: Kind and member id of each request.
        owed: Kind and member id of each pending request.
        dropped: Requests that are never answered: replaced by a newer one, or the SyncGroup of a member that left.
        ends: When the session of each member, and each pending member id, expires.
    """

    @initialize(delay=st.sampled_from([0.0, 1.0, 3.0]))
    def begin(self, delay: float) -> None:
        self.harness = GroupHarness(delay)
        self.given = 0
        self.asked: dict[GroupRequest, tuple[str, str]] = {}
        self.owed: dict[GroupRequest, tuple[str, str]] = {}
        self.dropped: list[GroupRequest] = []
        self.ends: dict[str, float] = {}
        self.generation = 0

    @property
    def group(self) -> ClassicGroup:
        return self.harness.group

    def _id(self, number: int) -> str:
        """Return the id of a member, a pending member id, a recent id or an unknown one."""
        group = self.group
        others = [f"m{max(self.given - 1, 0)}", "unknown"]
        pool = [*group.members, *group.pending_members, *others]
        return pool[number % len(pool)]

    # --- one event and its expected effects ---

    def apply_and_check(self, apply: Callable[[], Effects]) -> list[GroupRequest]:
        """Apply a request or a tick, and compare its effects with the model; return the answered requests."""
        group, now = self.group, self.harness.now
        before, state = dict(group.members), group.state
        notes: list[Note] = []
        answered: list[GroupRequest] = []
        for effect in apply():
            if isinstance(effect, Note):
                notes.append(effect)
                continue
            assert isinstance(effect, Reply)
            ask = self.harness.asks[effect.ticket]
            assert ask not in self.dropped, "answered although replaced"
            assert not ask.answers, "answered twice"
            ask.answers.append(effect.response)
            answered.append(ask)
        completed = sum(note.event in ("generation", "empty") for note in notes)
        assert group.generation == self.generation + completed, "one generation for each join phase"
        self.generation = group.generation
        self._check_removed_members(before, notes, now)
        for ask in answered:
            self._restart_session(ask, state, now, completed=completed > 0)
            self.owed.pop(ask, None)
        return answered

    def _check_removed_members(self, before: Mapping[str, Member], notes: list[Note], now: float) -> None:
        removed = {note.member_id: note for note in notes if note.event in ("leave", "expire")}
        assert set(before) - set(self.group.members) <= set(removed)
        for member_id, note in removed.items():
            end = self.ends.pop(member_id)
            if note.reason.startswith(("no heartbeat", "member id was never")):
                assert end <= now, "removed before its session expired"

    def _restart_session(self, ask: GroupRequest, state: State, now: float, *, completed: bool) -> None:
        """Restart the session of a member whose pending request was answered, or whose join ended the join phase."""
        kind, member_id = self.asked[ask]
        member = self.group.members.get(member_id)
        if member is None or (kind == "join" and ask.error is not E.NONE):
            return
        waited = ask in self.owed or (kind == "join" and completed) or (kind == "sync" and state is State.COMPLETING)
        if waited and kind in ("join", "sync") and ask.error in (E.NONE, E.REBALANCE_IN_PROGRESS):
            self.ends[member_id] = now + member.session_timeout

    def request(self, ask: GroupRequest, event: Event, kind: str, member_id: str) -> None:
        """Send a request; it is answered now, or pending and replaces a pending one of the same kind and member."""
        self.asked[ask] = (kind, member_id)
        leaving = {m.member_id for m in event.members} if isinstance(event, Leave) else set()
        older = [known for known, owed in self.owed.items() if owed == (kind, member_id)]
        new_id = set(self.group.members)
        if ask not in self.apply_and_check(lambda: classic.receive(self.group, event, self.harness.now)):
            assert kind in ("join", "sync"), f"{kind} is never pending"
            self.owed[ask] = (kind, member_id)
            self._mark_dropped(known for known in older if known in self.owed)
            for new in set(self.group.members) - new_id:
                self.ends[new] = self.harness.now + rules.NEW_MEMBER_TIMEOUT
        self._mark_dropped(k for k, owed in list(self.owed.items()) if owed[0] == "sync" and owed[1] in leaving)

    def _mark_dropped(self, asks: Iterable[GroupRequest]) -> None:
        for ask in list(asks):
            del self.owed[ask]
            self.dropped.append(ask)

    # --- rules ---

    @rule(given=joins)
    def join_without_id(self, given: Given) -> None:
        self.given += 1
        ask, event = self._join("", f"m{self.given}", given, id_required=False)
        self.request(ask, event, "join", f"m{self.given}")
        assert ask.parked or ask.error is E.INCONSISTENT_GROUP_PROTOCOL

    @rule(given=joins)
    def join_and_require_id(self, given: Given) -> None:
        self.given += 1
        new_id = f"m{self.given}"
        members = set(self.group.members)
        ask, event = self._join("", new_id, given, id_required=True)
        self.request(ask, event, "join", new_id)
        assert set(self.group.members) == members
        if ask.error is E.MEMBER_ID_REQUIRED:
            self.ends[new_id] = self.harness.now + given["session"]
        else:
            assert ask.error is E.INCONSISTENT_GROUP_PROTOCOL

    @rule(number=who, given=joins)
    def join_with_id(self, number: int, given: Given) -> None:
        member_id = self._id(number)
        unknown = member_id not in self.group.members and member_id not in self.group.pending_members
        ask, event = self._join(member_id, "", given, id_required=True)
        self.request(ask, event, "join", member_id)
        if unknown:
            assert ask.error in (E.UNKNOWN_MEMBER_ID, E.INCONSISTENT_GROUP_PROTOCOL)

    @rule(number=who)
    def rejoin_unchanged(self, number: int) -> None:
        member = self.group.members.get(self._id(number))
        if member is None:
            return
        before, leads = self.group.state, member.member_id == self.group.leader
        ask, event = self._join(member.member_id, "", self._as_before(member), id_required=True)
        self.request(ask, event, "join", member.member_id)
        if before is State.COMPLETING or (before is State.STABLE and not leads):
            assert ask.error is E.NONE
            assert self.group.state is before
        else:
            assert ask.parked or ask.error is E.NONE

    @rule(number=who, generation_delta=generations)
    def sync(self, number: int, generation_delta: int) -> None:
        member_id, group = self._id(number), self.group
        served = group.state is State.STABLE or (group.state is State.COMPLETING and member_id == group.leader)
        served = served and generation_delta == 0 and member_id in group.members
        ask = self.sync_as(member_id, generation_delta)
        if served:
            assert ask.error is E.NONE
            assert ask.answer.assignment == group.members[member_id].assignment
            assert group.state is State.STABLE

    @rule(number=who, generation_delta=generations)
    def heartbeat(self, number: int, generation_delta: int) -> None:
        member_id = self._id(number)
        ask = self.harness._ask()
        event = Heartbeat(ticket=ask.ticket, member_id=member_id, generation=self.group.generation + generation_delta)
        self.request(ask, event, "heartbeat", member_id)
        if member_id not in self.group.members:
            assert ask.error is E.UNKNOWN_MEMBER_ID
        elif generation_delta == 0:
            assert ask.error is rules.HEARTBEAT_ERRORS[self.group.state]
            self.renew_session(member_id)

    @rule(number=who, generation_delta=generations)
    def commit(self, number: int, generation_delta: int) -> None:
        member_id = self._id(number)
        generation = self.group.generation + generation_delta
        event = Commit(member_id=member_id, generation=generation)
        error = heartbeat.commit(self.group, event, self.harness.now)
        if error is E.NONE and member_id in self.group.members:
            self.renew_session(member_id)

    @rule(numbers=st.lists(who, min_size=1, max_size=3))
    def leave(self, numbers: list[int]) -> None:
        ask = self.harness._ask()
        members = [LeavingMember(member_id=self._id(number)) for number in numbers]
        event = Leave(ticket=ask.ticket, members=members)
        self.request(ask, event, "leave", "")
        for leaving in members:
            self.ends.pop(leaving.member_id, None)
            assert leaving.member_id not in self.group.members
            assert leaving.member_id not in self.group.pending_members

    @rule(number=who)
    def evict(self, number: int) -> None:
        """Evict a member as an administrator: its pending requests are answered."""
        event = Evict(self._id(number), "evicted by an administrator")
        owed = [ask for ask, (_, member_id) in self.owed.items() if member_id == event.member_id]
        now = self.harness.now
        answered = self.apply_and_check(lambda: administration.administer(self.group, event, now))
        assert set(owed) <= set(answered)
        assert all(ask.error is E.UNKNOWN_MEMBER_ID for ask in owed)
        assert event.member_id not in self.group.members
        assert event.member_id not in self.group.pending_members

    @rule()
    def rebalance(self) -> None:
        before, now = self.group.state, self.harness.now
        self.apply_and_check(lambda: administration.administer(self.group, Rebalance("on request"), now))
        assert (self.group.state is State.EMPTY) == (before is State.EMPTY)
        assert self.group.state is not State.STABLE

    @rule(seconds=st.sampled_from(STEPS))
    def advance_by_deadlines(self, seconds: float) -> None:
        """Advance the time from deadline to deadline, so that the effects of each are checked separately."""
        until = self.harness.now + seconds
        while (due := self.group.timers.earliest) <= until:
            self.harness.now = max(self.harness.now, due)
            self.tick()
        self.harness.now = until
        self.tick()

    @rule(seconds=st.sampled_from(STEPS))
    def advance_at_once(self, seconds: float) -> None:
        """Advance the time at once, as if the timer were late, so that several deadlines are due."""
        self.harness.now += seconds
        self.tick()

    @precondition(lambda self: self.group.state is State.PREPARING)
    @rule()
    def all_members_rejoin(self) -> None:
        """Let all members rejoin, because random requests seldom end a join phase."""
        for member_id in list(self.group.members):
            member = self.group.members.get(member_id)
            if member and member.pending_join is None and self.group.state is State.PREPARING:
                ask, event = self._join(member_id, "", self._as_before(member), id_required=True)
                self.request(ask, event, "join", member_id)

    @precondition(lambda self: self.group.state is State.COMPLETING)
    @rule()
    def followers_sync(self) -> None:
        for member_id in list(self.group.members):
            if member_id != self.group.leader:
                self.sync_as(member_id)

    @precondition(lambda self: self.group.state is State.COMPLETING)
    @rule()
    def leader_syncs(self) -> None:
        self.sync_as(self.group.leader)
        assert self.group.state is State.STABLE

    # --- helpers ---

    def sync_as(self, member_id: str, generation_delta: int = 0) -> GroupRequest:
        ask = self.harness._ask()
        plan = {member: member.encode() for member in self.group.members}
        generation = self.group.generation + generation_delta
        event = Sync(ticket=ask.ticket, member_id=member_id, generation=generation, assignments=plan)
        self.request(ask, event, "sync", member_id)
        return ask

    def _as_before(self, member: Member) -> Given:
        return {
            "protocols": member.protocols,
            "session": member.session_timeout,
            "rebalance": member.rebalance_timeout,
            "protocol_type": self.group.protocol_type,
        }

    def _join(self, member_id: str, fresh_id: str, given: Given, id_required: bool) -> tuple[GroupRequest, Join]:
        ask = self.harness._ask()
        event = Join(
            ticket=ask.ticket,
            member_id=member_id,
            new_member_id=fresh_id,
            require_member_id=id_required,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=given["session"],
            rebalance_timeout=given["rebalance"],
            protocol_type=given["protocol_type"],
            protocols=given["protocols"],
        )
        return ask, event

    def renew_session(self, member_id: str) -> None:
        """Restart the session of a member in the model."""
        self.ends[member_id] = self.harness.now + self.group.members[member_id].session_timeout

    def tick(self) -> None:
        group, now = self.group, self.harness.now
        self.apply_and_check(lambda: timers.tick(group, 0.0, now))
        assert group.timers.earliest > now, "after a tick no deadline is due"
        assert set(self.ends) == set(group.members) | set(group.pending_members)
        for member_id, end in self.ends.items():
            member = group.members.get(member_id)
            waits = member and (member.pending_join or member.pending_sync) and not member.is_new
            assert waits or end > now, "silent for its session timeout, but not removed"

    # --- invariants ---

    @invariant()
    def transitions_are_valid(self) -> None:
        """Check the transition here too, because code may set the state without ``transition_to``."""
        if self.group.previous_state is not None:
            assert (self.group.previous_state, self.group.state) in LEGAL

    @invariant()
    def pending_requests_are_those_of_the_model(self) -> None:
        group = self.group
        pending = {
            member.pending_join: ("join", member.member_id) for member in group.members.values() if member.pending_join
        }
        pending |= {
            member.pending_sync: ("sync", member.member_id) for member in group.members.values() if member.pending_sync
        }
        assert pending == {ask.ticket: owed for ask, owed in self.owed.items()}
        for ask in self.dropped:
            assert not ask.answers
        answered = {ask for ask in self.harness.asks.values() if ask.answers}
        assert answered | set(self.owed) | set(self.dropped) == set(self.harness.asks.values())

    @invariant()
    def counts_agree_with_members(self) -> None:
        group = self.group
        members = group.members.values()
        assert group.pending_join_count == sum(member.pending_join is not None for member in members)
        names = [name for member in members for name in {name for name, _ in member.protocols}]
        assert {name: names.count(name) for name in names} == dict(group.supported_protocols)
        assert group.pending_sync_members <= set(group.members)
        assert not set(group.pending_members) & set(group.members)
        assert all(member.member_id == member_id for member_id, member in group.members.items())

    @invariant()
    def the_leader_is_a_member(self) -> None:
        group = self.group
        assert (group.leader in group.members) if group.members else group.leader == ""

    @invariant()
    def state_agrees_with_members(self) -> None:
        group = self.group
        members = group.members.values()
        if group.state is State.EMPTY:
            assert not group.members
            assert group.protocol is None
        if group.state in (State.COMPLETING, State.STABLE):
            assert group.members
            assert not group.pending_join_count
            assert group.protocol is not None
            assert group.all_support(group.protocol)
            assert all(not member.is_new for member in members)
        if group.state is not State.COMPLETING:
            assert not any(member.pending_sync for member in members)
        if group.state in (State.EMPTY, State.PREPARING):
            assert not group.pending_sync_members

    @invariant()
    def timers_agree_with_state(self) -> None:
        group = self.group
        waits = group.timers
        phase = [("delay", "") in waits, ("join", "") in waits]
        assert sum(phase) == (group.state is State.PREPARING)
        assert (("sync", "") in waits) == bool(group.pending_sync_members)
        for member in group.members.values():
            guarded = session_timer(member.member_id) in waits
            assert guarded or member.pending_join or member.pending_sync, "the member has no session timeout"
        kept = {key for key in waits._at if key[1]}
        allowed = {session_timer(member_id) for member_id in group.members}
        allowed |= {("pending", member_id) for member_id in group.pending_members}
        assert kept <= allowed, "a timer of a member that was removed"
        assert {("pending", member_id) for member_id in group.pending_members} <= kept

    def teardown(self) -> None:
        """Check that no state remains when all members have expired."""
        if not hasattr(self, "harness"):
            return
        for _ in range(6):
            self.harness.now += 1_000.0
            self.tick()
        group = self.group
        assert group.state is State.EMPTY
        assert not self.owed
        assert (group.members, group.pending_members, group.pending_sync_members, dict(group.supported_protocols)) == (
            {},
            {},
            set(),
            {},
        )
        assert len(group.timers) == 0
        assert (group.timers._heap, group.timers._queued) == ([], {})


QUICK = settings(
    max_examples=amount(80, 300),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_group_keeps_its_invariants():
    run_state_machine_as_test(GroupMachine, settings=QUICK)


# --- planted bugs -------------------------------------------------------------------------------------------------


def pending_syncs_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "fail_pending_syncs", lambda *_: [])


def joins_of_removed_members_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pending join of a removed member is not answered."""

    def remove(group: ClassicGroup, member: Member, event: EventKind, reason: str) -> Effects:
        group.pop_pending_join(member)
        return real(group, member, event, reason)

    real = membership.remove
    monkeypatch.setattr(membership, "remove", remove)


def generation_is_kept_when_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(group: ClassicGroup, now: float) -> Effects:
        before = group.generation
        effects = real(group, now)
        if group.state is State.EMPTY:
            group.generation = before
        return effects

    real = phases.complete_join_phase
    monkeypatch.setattr(phases, "complete_join_phase", complete)


def heartbeats_do_not_renew(monkeypatch: pytest.MonkeyPatch) -> None:
    def renew(group: ClassicGroup, member: Member, now: float) -> None:
        if group.state is not State.PREPARING:
            real(group, member, now)

    real = membership.renew_session
    monkeypatch.setattr(membership, "renew_session", renew)


def pending_joins_are_miscounted(monkeypatch: pytest.MonkeyPatch) -> None:
    def park(group: ClassicGroup, member: Member, ticket: Ticket) -> None:
        group.pending_join_count += 1
        member.pending_join = ticket

    monkeypatch.setattr(ClassicGroup, "set_pending_join", park)


def removed_leader_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(group: ClassicGroup, member: Member, event: EventKind, reason: str) -> Effects:
        leader = group.leader
        effects = real(group, member, event, reason)
        group.leader = leader
        return effects

    real = membership.remove
    monkeypatch.setattr(membership, "remove", remove)


def sessions_do_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "_session_expired", lambda *_: [])


def pending_members_do_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(group: ClassicGroup, event: Join, now: float) -> Effects:
        answer = real(group, event, now)
        if event.member_id in group.members and event.member_id not in group.pending_members:
            group.pending_members[event.member_id] = 1.0
        return answer

    real = classic.join
    monkeypatch.setitem(classic.REQUESTS, Join, forget)


MUTANTS = [
    pending_syncs_are_lost,
    joins_of_removed_members_are_not_answered,
    generation_is_kept_when_empty,
    heartbeats_do_not_renew,
    pending_joins_are_miscounted,
    removed_leader_is_not_replaced,
    sessions_do_not_expire,
    pending_members_do_not_expire,
]
HUNT = settings(
    QUICK,
    max_examples=1_500,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)


@pytest.mark.long
@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_machine_catches(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError, StopIteration)):
        run_state_machine_as_test(GroupMachine, settings=HUNT)
