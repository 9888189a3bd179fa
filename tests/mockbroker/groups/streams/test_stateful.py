"""Invariants of a streams group under random requests, lost responses and delays, and planted bugs to be caught.

No two members run the same active task, no process has a task twice, and in the end every task is run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from effort import amount
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tools.streams_group_harness import (
    NOTHING,
    WORD_COUNT,
    StreamsGroupHarness,
    owned_fields,
    received,
)

from kwire import ErrorCode as E
from kwire.assignors.sticky_tasks import Tasks
from mockbroker.groups.events import Evict, Rebalance
from mockbroker.groups.streams import machine as streams
from mockbroker.groups.streams import reconcile
from mockbroker.groups.streams.state import (
    MemberState,
    Owners,
    StreamsGroup,
)

NAMES = ["a", "b", "c", "d"]
PROCESSES = {"a": "one", "b": "one", "c": "two", "d": "three"}
TIMES = [0.0, 0.5, 2.0, 5.0, 7.0]

who = st.sampled_from(NAMES)


class StreamsMachine(RuleBasedStateMachine):
    """Random requests of members that close tasks at a random time, and start new ones only afterwards.

    Attributes:
        runs: Tasks that each member runs.
        assigned: Latest assignment that each member received.
        epochs: Member epochs.
        last_epoch: Last group epoch that was seen.
    """

    @initialize(standby=st.integers(0, 2), delay=st.sampled_from([0, 3_000]))
    def begin(self, standby: int, delay: int) -> None:
        config = {
            "group.streams.session.timeout.ms": 6_000,
            "group.streams.num.standby.replicas": standby,
            "group.streams.initial.rebalance.delay.ms": delay,
        }
        self.harness = StreamsGroupHarness(config=config)
        self.runs: dict[str, Tasks] = {}
        self.assigned: dict[str, Tasks] = {}
        self.epochs: dict[str, int] = {}
        self.last_epoch = 0

    @rule(name=who, timeout=st.sampled_from([1_000, 60_000]))
    def join(self, name: str, timeout: int) -> None:
        """Start or restart a member, which runs nothing."""
        client = self.harness.join(name, WORD_COUNT, process_id=PROCESSES[name], rebalance_timeout_ms=timeout)
        assert client.answer.error_code == E.NONE
        self.runs[name] = NOTHING
        self._receive(name, client.answer)

    @rule(name=who, arrives=st.booleans(), reports=st.booleans())
    def beat(self, name: str, arrives: bool, reports: bool) -> None:
        """Send a heartbeat, whose response may be lost; then the member joins again.

        Kafka 4.2 does not repeat an assignment in the response to a later heartbeat.
        """
        if name in self.runs:
            self._ask(name, arrives=arrives, **(owned_fields(self.runs[name]) if reports else {}))

    @rule(name=who)
    def close_tasks(self, name: str) -> None:
        """Close tasks that are not assigned any more, and start new ones."""
        if name in self.runs:
            self.runs[name] = self.assigned[name]

    @rule(name=who)
    def leave(self, name: str) -> None:
        if name in self.runs:
            self.harness.leave(name)
            self._forget(name)

    @rule(name=who)
    def evict(self, name: str) -> None:
        self.harness.administer("g", Evict(name, "evicted by an administrator"))
        if name in self.runs:
            self._forget(name)  # the broker does not control the tasks that the member runs until the member notices

    @rule()
    def rebalance(self) -> None:
        self.harness.administer("g", Rebalance("on request"))

    @rule(seconds=st.sampled_from(TIMES))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)
        for name in set(self.runs) - set(self._group().members):
            self._forget(name)

    @rule()
    def fail_over(self) -> None:
        """Rebuild the group from its records alone."""
        if "g" in self.harness.broker.groups:
            index = self.harness.broker.offsets_partition("g")[1]
            self.harness.broker.unload_group("g")
            self.harness.broker.load_groups(index, self.harness.now)

    def _ask(self, name: str, *, arrives: bool, **fields: Any) -> None:
        answer = self.harness.beat(name, member_epoch=self.epochs[name], **fields)
        if not arrives:
            self.join(name, 60_000)
            return
        if answer.error_code == E.NONE:
            self._receive(name, answer)
        elif answer.error_code == E.FENCED_MEMBER_EPOCH:
            self.join(name, 60_000)  # as clients do: close all tasks and rejoin

    def _receive(self, name: str, answer: Any) -> None:
        self.epochs[name] = answer.member_epoch
        self.assigned[name] = received(answer, self.assigned.get(name, NOTHING))
        kept, given = self.runs[name], self.assigned[name]
        if all(mine <= theirs for mine, theirs in zip(kept, given, strict=True)):
            self.runs[name] = given  # nothing to close

    def _forget(self, name: str) -> None:
        del self.runs[name], self.assigned[name], self.epochs[name]
        self.harness.clients.pop(name, None)

    def _group(self) -> Any:
        return self.harness.broker.groups.get("g", StreamsGroup(group_id="g"))

    @invariant()
    def no_task_runs_twice(self) -> None:
        if hasattr(self, "harness"):
            active = [task for runs in self.runs.values() for task in runs.active]
            assert len(active) == len(set(active)), self.runs
            for process in set(PROCESSES.values()):
                mine = [runs for name, runs in self.runs.items() if PROCESSES[name] == process]
                tasks = [task for runs in mine for task in (*runs.active, *runs.standby)]
                assert len(tasks) == len(set(tasks)), (process, self.runs)

    @invariant()
    def state_agrees_with_members(self) -> None:
        if not hasattr(self, "harness"):
            return
        group = self._group()
        held = [task for m in group.members.values() for task in (*m.assigned.active, *m.pending_revocation.active)]
        assert len(held) == len(set(held))
        assert set(held) == set(group.owners.active)
        assert group.epoch >= self.last_epoch, "epochs do not go back"
        self.last_epoch = group.epoch
        assert group.assignment_epoch <= group.epoch
        for member in group.members.values():
            assert member.epoch <= max(1, group.epoch)
            assert (member.state is MemberState.UNREVOKED_TASKS) == bool(member.pending_revocation)
            assert ("session", member.member_id) in group.timers
        if group.state_name in ("Reconciling", "Stable"):
            every = {(name, number) for name in "01" for number in range(3)}
            target = [task for tasks in group.target.values() for task in tasks.active]
            assert set(target) == every, "every task is in the target"
            assert len(target) == len(every)

    def teardown(self) -> None:
        """Check that all members reconcile: the group becomes Stable, and every task is run."""
        if not hasattr(self, "harness"):
            return
        for _ in range(4):
            self._beat_all()
            self.wait(1.0)
        for _ in range(3 * len(NAMES)):
            self._beat_all()
            self.no_task_runs_twice()
        assert self._group().state_name == ("Stable" if self.runs else "Empty")
        active = {task for runs in self.runs.values() for task in runs.active}
        assert active == ({(name, number) for name in "01" for number in range(3)} if self.runs else set())

    def _beat_all(self) -> None:
        for name in list(self.runs):
            self._ask(name, arrives=True, **owned_fields(self.runs[name]))
            self.runs[name] = self.assigned[name]


QUICK = settings(
    max_examples=amount(40, 150), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_machine():
    run_state_machine_as_test(StreamsMachine, settings=QUICK)


# --- planted bugs -------------------------------------------------------------------------------------------------


def owned_tasks_are_assigned(patch: Any) -> None:
    real = reconcile._next_assignment
    patch.setattr(
        reconcile, "_next_assignment", lambda member, epoch, goal: real(member, epoch, replace(goal, owners=Owners()))
    )


def null_means_no_owned_tasks(patch: Any) -> None:
    real = reconcile.reconciled_member
    patch.setattr(
        streams,
        "reconciled_member",
        lambda m, goal: real(m, replace(goal, owned_tasks=NOTHING if goal.owned_tasks is None else goal.owned_tasks)),
    )


def revocation_is_not_awaited(patch: Any) -> None:
    real = reconcile._next_assignment
    patch.setattr(
        reconcile, "_next_assignment", lambda m, epoch, goal: real(m, epoch, replace(goal, owned_tasks=NOTHING))
    )


def owners_are_not_removed(patch: Any) -> None:
    patch.setattr(Owners, "remove", lambda *_: None)


def processes_share_tasks(patch: Any) -> None:
    patch.setattr(Owners, "replicates", lambda *_: False)


def sessions_do_not_start(patch: Any) -> None:
    patch.setattr(streams, "session_timer", lambda member_id: ("other", member_id))


def epoch_starts_again(patch: Any) -> None:
    real = StreamsGroup.remove_member

    def remove(group: Any, member: Any) -> None:
        real(group, member)
        if group.empty:
            group.epoch = 0

    patch.setattr(StreamsGroup, "remove_member", remove)


def target_misses_a_task(patch: Any) -> None:
    real = streams.compute_target

    def compute(group: Any, *more: Any, **named: Any) -> Any:
        note = real(group, *more, **named)
        first = next(iter(group.target))
        tasks = group.target[first]
        group.target[first] = tasks._replace(active=frozenset(sorted(tasks.active)[1:]))
        return note

    patch.setattr(streams, "compute_target", compute)


MUTANTS = [
    owned_tasks_are_assigned,
    null_means_no_owned_tasks,
    revocation_is_not_awaited,
    owners_are_not_removed,
    processes_share_tasks,
    sessions_do_not_start,
    epoch_starts_again,
    target_misses_a_task,
]
HUNT = settings(
    QUICK, max_examples=5_000, derandomize=True, database=None, phases=[Phase.generate], report_multiple_bugs=False
)


@pytest.mark.long
@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_machine_catches(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        run_state_machine_as_test(StreamsMachine, settings=HUNT)
