"""The group against its invariants, under any sequence of requests and times; and mutants that must be caught."""

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
from mockbroker.groups.classic import heartbeat, membership, phases, rules, timers
from mockbroker.groups.classic import machine as classic
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.coordinated import session_of
from mockbroker.groups.events import Commit, Heartbeat, Join, Leave, Leaving, Sync

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
Given = dict[str, Any]  # what a JoinGroup says of its member
who = st.integers(0, 5)
joins = st.fixed_dictionaries(
    {
        "protocols": st.sampled_from(PROTOCOLS),
        "session": st.sampled_from(SESSIONS),
        "rebalance": st.sampled_from(REBALANCES),
        "protocol_type": st.sampled_from([*["consumer"] * 8, "connect", ""]),
    }
)
generations = st.sampled_from([0, 0, 0, -1, 1])  # beside the group's


class GroupMachine(RuleBasedStateMachine):
    """What every request must lead to is kept beside the group, in the plainest way.

    ``owed``: requests that wait for an answer, and of what kind and whose they are; ``dropped``: those that never get
    one, replaced by a newer one of the same member or the sync of a leaver; ``ends``: when each session, and each id
    that was given out, ends if nothing is heard.
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
        """A member, an id given out, one of lately, or one that nobody has."""
        group = self.group
        lately = [f"m{max(self.given - 1, 0)}", "made-up"]
        pool = [*group.members, *group.pending, *lately]
        return pool[number % len(pool)]

    # --- one event, and what it must lead to ---

    def tell(self, apply: Callable[[], Effects]) -> list[GroupRequest]:
        """Let the group do something, and hold what it answers against what is owed."""
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
            assert ask not in self.dropped, "answered though replaced"
            assert not ask.answers, "answered twice"
            ask.answers.append(effect.response)
            answered.append(ask)
        completed = sum(note.event in ("generation", "empty") for note in notes)
        assert group.generation == self.generation + completed, "one generation a join phase"
        self.generation = group.generation
        self._members_went(before, notes, now)
        for ask in answered:
            self._begin_session(ask, state, now, completed=completed > 0)
            self.owed.pop(ask, None)
        return answered

    def _members_went(self, before: Mapping[str, Member], notes: list[Note], now: float) -> None:
        gone = {note.member_id: note for note in notes if note.event in ("leave", "expire")}
        assert set(before) - set(self.group.members) <= set(gone)
        for member_id, note in gone.items():
            end = self.ends.pop(member_id)
            if note.reason.startswith(("no heartbeat", "member id was never")):
                assert end <= now, "removed before its time"

    def _begin_session(self, ask: GroupRequest, state: State, now: float, *, completed: bool) -> None:
        """Answers to parked requests, and those of a join phase that ended with this one, begin a session anew."""
        kind, member_id = self.asked[ask]
        member = self.group.members.get(member_id)
        if member is None or (kind == "join" and ask.error is not E.NONE):
            return
        waited = ask in self.owed or (kind == "join" and completed) or (kind == "sync" and state is State.COMPLETING)
        if waited and kind in ("join", "sync") and ask.error in (E.NONE, E.REBALANCE_IN_PROGRESS):
            self.ends[member_id] = now + member.session_timeout

    def request(self, ask: GroupRequest, event: Event, kind: str, member_id: str) -> None:
        """A request is answered now, or parked in place of an older one of the same kind and member."""
        self.asked[ask] = (kind, member_id)
        leaving = {m.member_id for m in event.members} if isinstance(event, Leave) else set()
        older = [known for known, owed in self.owed.items() if owed == (kind, member_id)]
        fresh = set(self.group.members)
        if ask not in self.tell(lambda: classic.receive(self.group, event, self.harness.now)):
            assert kind in ("join", "sync"), f"{kind} is never parked"
            self.owed[ask] = (kind, member_id)
            self._drop(known for known in older if known in self.owed)
            for new in set(self.group.members) - fresh:
                self.ends[new] = self.harness.now + rules.NEW_MEMBER_TIMEOUT
        self._drop(k for k, owed in list(self.owed.items()) if owed[0] == "sync" and owed[1] in leaving)

    def _drop(self, asks: Iterable[GroupRequest]) -> None:
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
    def ask_for_an_id(self, given: Given) -> None:
        self.given += 1
        fresh = f"m{self.given}"
        members = set(self.group.members)
        ask, event = self._join("", fresh, given, id_required=True)
        self.request(ask, event, "join", fresh)
        assert set(self.group.members) == members
        if ask.error is E.MEMBER_ID_REQUIRED:
            self.ends[fresh] = self.harness.now + given["session"]
        else:
            assert ask.error is E.INCONSISTENT_GROUP_PROTOCOL

    @rule(number=who, given=joins)
    def join_with_id(self, number: int, given: Given) -> None:
        member_id = self._id(number)
        stranger = member_id not in self.group.members and member_id not in self.group.pending
        ask, event = self._join(member_id, "", given, id_required=True)
        self.request(ask, event, "join", member_id)
        if stranger:
            assert ask.error in (E.UNKNOWN_MEMBER_ID, E.INCONSISTENT_GROUP_PROTOCOL)

    @rule(number=who)
    def join_the_same_again(self, number: int) -> None:
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

    @rule(number=who, beside=generations)
    def sync(self, number: int, beside: int) -> None:
        member_id, group = self._id(number), self.group
        served = group.state is State.STABLE or (group.state is State.COMPLETING and member_id == group.leader)
        served = served and beside == 0 and member_id in group.members
        ask = self.sync_as(member_id, beside)
        if served:
            assert ask.error is E.NONE
            assert ask.answer.assignment == group.members[member_id].assignment
            assert group.state is State.STABLE

    @rule(number=who, beside=generations)
    def heartbeat(self, number: int, beside: int) -> None:
        member_id = self._id(number)
        ask = self.harness._ask()
        event = Heartbeat(ticket=ask.ticket, member_id=member_id, generation=self.group.generation + beside)
        self.request(ask, event, "heartbeat", member_id)
        if member_id not in self.group.members:
            assert ask.error is E.UNKNOWN_MEMBER_ID
        elif beside == 0:
            assert ask.error is rules.HEARTBEAT[self.group.state]
            self.lives(member_id)

    @rule(number=who, beside=generations)
    def commit(self, number: int, beside: int) -> None:
        member_id = self._id(number)
        generation = self.group.generation + beside
        event = Commit(member_id=member_id, generation=generation)
        error = heartbeat.commit(self.group, event, self.harness.now)
        if error is E.NONE and member_id in self.group.members:
            self.lives(member_id)

    @rule(numbers=st.lists(who, min_size=1, max_size=3))
    def leave(self, numbers: list[int]) -> None:
        ask = self.harness._ask()
        members = [Leaving(member_id=self._id(number)) for number in numbers]
        event = Leave(ticket=ask.ticket, members=members)
        self.request(ask, event, "leave", "")
        for leaving in members:
            self.ends.pop(leaving.member_id, None)
            assert leaving.member_id not in self.group.members
            assert leaving.member_id not in self.group.pending

    @rule(seconds=st.sampled_from(STEPS))
    def let_time_pass(self, seconds: float) -> None:
        """From deadline to deadline, so that what one of them brings can be looked at by itself."""
        until = self.harness.now + seconds
        while (due := self.group.waits.next()) <= until:
            self.harness.now = max(self.harness.now, due)
            self.tick()
        self.harness.now = until
        self.tick()

    @rule(seconds=st.sampled_from(STEPS))
    def oversleep(self, seconds: float) -> None:
        """A timer task that comes late finds several things due."""
        self.harness.now += seconds
        self.tick()

    @precondition(lambda self: self.group.state is State.PREPARING)
    @rule()
    def everybody_rejoins(self) -> None:
        """What well-behaved clients do; random requests alone seldom end a join phase."""
        for member_id in list(self.group.members):
            member = self.group.members.get(member_id)
            if member and member.join is None and self.group.state is State.PREPARING:
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

    def sync_as(self, member_id: str, beside: int = 0) -> GroupRequest:
        ask = self.harness._ask()
        plan = {member: member.encode() for member in self.group.members}
        generation = self.group.generation + beside
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
            fresh_id=fresh_id,
            id_required=id_required,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=given["session"],
            rebalance_timeout=given["rebalance"],
            protocol_type=given["protocol_type"],
            protocols=given["protocols"],
        )
        return ask, event

    def lives(self, member_id: str) -> None:
        """A sign of life: from now on the member has its session timeout."""
        self.ends[member_id] = self.harness.now + self.group.members[member_id].session_timeout

    def tick(self) -> None:
        group, now = self.group, self.harness.now
        self.tell(lambda: timers.tick(group, 0.0, now))
        assert group.waits.next() > now, "after a tick the deadline lies ahead"
        assert set(self.ends) == set(group.members) | set(group.pending)
        for member_id, end in self.ends.items():
            member = group.members.get(member_id)
            waits = member and (member.join or member.sync) and not member.new
            assert waits or end > now, "silent for its session timeout, and still there"

    # --- invariants ---

    @invariant()
    def states_move_legally(self) -> None:
        """move_to refuses illegal moves; here that nothing goes round it."""
        if self.group.came_from is not None:
            assert (self.group.came_from, self.group.state) in LEGAL

    @invariant()
    def parked_is_owed_and_owed_is_parked(self) -> None:
        group = self.group
        parked = {member.join: ("join", member.member_id) for member in group.members.values() if member.join}
        parked |= {member.sync: ("sync", member.member_id) for member in group.members.values() if member.sync}
        assert parked == {ask.ticket: owed for ask, owed in self.owed.items()}
        for ask in self.dropped:
            assert not ask.answers
        answered = {ask for ask in self.harness.asks.values() if ask.answers}
        assert answered | set(self.owed) | set(self.dropped) == set(self.harness.asks.values())

    @invariant()
    def counts_agree_with_members(self) -> None:
        group = self.group
        members = group.members.values()
        assert group.parked_joins == sum(member.join is not None for member in members)
        names = [name for member in members for name in {name for name, _ in member.protocols}]
        assert {name: names.count(name) for name in names} == dict(group.offered)
        assert group.unsynced <= set(group.members)
        assert not set(group.pending) & set(group.members)
        assert all(member.member_id == member_id for member_id, member in group.members.items())

    @invariant()
    def one_leader_who_is_a_member(self) -> None:
        group = self.group
        assert (group.leader in group.members) if group.members else group.leader == ""

    @invariant()
    def state_and_data_agree(self) -> None:
        group = self.group
        members = group.members.values()
        if group.state is State.EMPTY:
            assert not group.members
            assert group.protocol is None
        if group.state in (State.COMPLETING, State.STABLE):
            assert group.members
            assert not group.parked_joins
            assert group.protocol is not None
            assert group.all_can(group.protocol)
            assert all(not member.new for member in members)
        if group.state is not State.COMPLETING:
            assert not any(member.sync for member in members)
        if group.state in (State.EMPTY, State.PREPARING):
            assert not group.unsynced

    @invariant()
    def waits_agree_with_state(self) -> None:
        group = self.group
        waits = group.waits
        phase = [("delay", "") in waits, ("join", "") in waits]
        assert sum(phase) == (group.state is State.PREPARING)
        assert (("sync", "") in waits) == bool(group.unsynced)
        for member in group.members.values():
            guarded = session_of(member.member_id) in waits
            assert guarded or member.join or member.sync, "nobody watches this member"
        kept = {key for key in waits._at if key[1]}
        allowed = {session_of(member_id) for member_id in group.members}
        allowed |= {("pending", member_id) for member_id in group.pending}
        assert kept <= allowed, "something waits for somebody who is gone"
        assert {("pending", member_id) for member_id in group.pending} <= kept

    def teardown(self) -> None:
        """When everybody has gone, nothing is left behind."""
        if not hasattr(self, "harness"):
            return
        for _ in range(6):
            self.harness.now += 1_000.0
            self.tick()
        group = self.group
        assert group.state is State.EMPTY
        assert not self.owed
        assert (group.members, group.pending, group.unsynced, dict(group.offered)) == ({}, {}, set(), {})
        assert len(group.waits) == 0
        assert (group.waits._heap, group.waits._queued) == ([], {})


QUICK = settings(
    max_examples=amount(80, 300),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_group_keeps_its_invariants():
    run_state_machine_as_test(GroupMachine, settings=QUICK)


# --- mutants: the machine can fail -------------------------------------------------------------------------------


def forget_parked_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "interrupt_syncs", lambda *_: [])


def answer_dropped_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parked join of somebody who is removed gets no answer."""

    def remove(group: ClassicGroup, member: Member, event: EventKind, reason: str) -> Effects:
        group.take_join(member)
        return real(group, member, event, reason)

    real = membership.remove
    monkeypatch.setattr(membership, "remove", remove)


def keep_generation_when_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(group: ClassicGroup, now: float) -> Effects:
        before = group.generation
        effects = real(group, now)
        if group.state is State.EMPTY:
            group.generation = before
        return effects

    real = phases.complete_join
    monkeypatch.setattr(phases, "complete_join", complete)


def heartbeat_does_not_renew(monkeypatch: pytest.MonkeyPatch) -> None:
    def renew(group: ClassicGroup, member: Member, now: float) -> None:
        if group.state is not State.PREPARING:
            real(group, member, now)

    real = membership.renew
    monkeypatch.setattr(membership, "renew", renew)


def miscount_parked_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    def park(group: ClassicGroup, member: Member, ticket: Ticket) -> None:
        group.parked_joins += 1
        member.join = ticket

    monkeypatch.setattr(ClassicGroup, "park_join", park)


def leader_may_be_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(group: ClassicGroup, member: Member, event: EventKind, reason: str) -> Effects:
        leader = group.leader
        effects = real(group, member, event, reason)
        group.leader = leader
        return effects

    real = membership.remove
    monkeypatch.setattr(membership, "remove", remove)


def sessions_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "_session_over", lambda *_: [])


def pending_ids_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(group: ClassicGroup, event: Join, now: float) -> Effects:
        answer = real(group, event, now)
        if event.member_id in group.members and event.member_id not in group.pending:
            group.pending[event.member_id] = 1.0
        return answer

    real = classic.join
    monkeypatch.setitem(classic.REQUESTS, Join, forget)


MUTANTS = [
    forget_parked_syncs,
    answer_dropped_joins,
    keep_generation_when_empty,
    heartbeat_does_not_renew,
    miscount_parked_joins,
    leader_may_be_gone,
    sessions_never_end,
    pending_ids_stay,
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
