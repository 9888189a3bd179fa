"""The reconciliation of one member of a streams group, step by step: Kafka's CurrentAssignmentBuilder (KIP-1071)."""

from __future__ import annotations

import pytest

from kwire.assignors.sticky_tasks import Tasks
from mockbroker.groups.streams.reconcile import ReconciliationInput, reconciled_member
from mockbroker.groups.streams.state import MemberState, Owners, StreamsMember
from mockbroker.groups.streams.tasks import NOTHING, AssignedTasks

STABLE, UNREVOKED, UNRELEASED = MemberState
A, B, C = ("0", 0), ("0", 1), ("0", 2)


def assigned(active: dict[tuple[str, int], int], standby: str = "", warmup: str = "") -> AssignedTasks:
    return AssignedTasks(active, numbered(standby), numbered(warmup))


def numbered(numbers: str) -> frozenset[tuple[str, int]]:
    return frozenset(("0", int(number)) for number in numbers)


def tasks(active: str = "", standby: str = "", warmup: str = "") -> Tasks:
    return Tasks(numbered(active), numbered(standby), numbered(warmup))


def member(state: MemberState = STABLE, epoch: int = 5, pending: AssignedTasks = NOTHING) -> StreamsMember:
    """Return a member of process ``p`` that has been assigned A since epoch 3, and standby task 1."""
    return StreamsMember(
        member_id="m",
        process_id="p",
        epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned=assigned({A: 3}, "1"),
        pending_revocation=pending,
    )


def step(
    of: StreamsMember, target: Tasks, owned: Tasks | None, owners: Owners | None = None, epoch: int = 7
) -> StreamsMember:
    if owners is None:
        owners = Owners()
        owners.add(of.assigned, "p")
    return reconciled_member(
        of, ReconciliationInput(target_epoch=epoch, target=target, owners=owners, owned_tasks=owned)
    )


def test_member_at_the_target_epoch_is_unchanged() -> None:
    stable = member(epoch=7)
    assert step(stable, tasks("2"), tasks("2")) is stable
    waiting = member(UNRELEASED, epoch=7)
    assert step(waiting, tasks("02", "1"), None).assigned.active == {A: 3, C: 7}


def test_new_tasks_are_assigned_since_the_target_epoch() -> None:
    after = step(member(), tasks("02", "1", "2"), None)
    assert (after.state, after.epoch, after.previous_epoch) == (STABLE, 7, 5)
    assert after.assigned == assigned({A: 3, C: 7}, "1", "2")
    assert after.pending_revocation == NOTHING


@pytest.mark.parametrize(
    ("target", "keeps", "revokes"),
    [
        (tasks("2", "1"), assigned({}, "1"), assigned({A: 3})),
        (tasks("0", "2"), assigned({A: 3}), assigned({}, "1")),
        (tasks(), assigned({}), assigned({A: 3}, "1")),
    ],
)
@pytest.mark.parametrize("reported", [True, False])
def test_tasks_outside_of_the_target_are_revoked_first(
    target: Tasks, keeps: AssignedTasks, revokes: AssignedTasks, reported: bool
) -> None:
    after = step(member(), target, tasks("0", "1") if reported else None)
    assert (after.state, after.epoch, after.previous_epoch) == (UNREVOKED, 5, 5)
    assert (after.assigned, after.pending_revocation) == (keeps, revokes)


def test_tasks_that_are_no_longer_owned_need_no_revocation() -> None:
    after = step(member(), tasks("", "1"), tasks("", "1"))
    assert (after.state, after.epoch, after.assigned) == (STABLE, 7, assigned({}, "1"))


PENDING = assigned({C: 2}, "", "2")


@pytest.mark.parametrize(
    ("owned", "done"),
    [(None, False), (tasks("02"), False), (tasks("0", "", "2"), False), (tasks("0", "1"), True), (tasks(), True)],
)
def test_member_revokes_before_it_goes_on(owned: Tasks | None, done: bool) -> None:
    revoking = member(UNREVOKED, pending=PENDING)
    after = step(revoking, tasks("0", "1"), owned)
    assert (after is not revoking) is done
    if done:
        assert (after.state, after.epoch, after.pending_revocation) == (STABLE, 7, NOTHING)


def test_member_that_revoked_may_have_to_revoke_more() -> None:
    after = step(member(UNREVOKED, pending=PENDING), tasks("", "1"), tasks("0", "1"))
    assert (after.state, after.epoch, after.previous_epoch) == (UNREVOKED, 6, 5)
    assert after.pending_revocation == assigned({A: 3})


OWNERS = [  # tasks of another process or of the member's own process, target, assigned tasks, state
    ("q", assigned({C: 1}), tasks("02", "1"), assigned({A: 3}, "1"), UNRELEASED),
    ("p", assigned({}, "2"), tasks("02", "1"), assigned({A: 3}, "1"), UNRELEASED),
    ("q", assigned({}, "2"), tasks("02", "1"), assigned({A: 3, C: 7}, "1"), STABLE),
    ("q", assigned({C: 1}), tasks("0", "12"), assigned({A: 3}, "12"), STABLE),
    ("p", assigned({C: 1}), tasks("0", "12"), assigned({A: 3}, "1"), UNRELEASED),
    ("p", assigned({}, "", "2"), tasks("0", "12"), assigned({A: 3}, "1"), UNRELEASED),
    ("p", assigned({C: 1}), tasks("0", "1", "2"), assigned({A: 3}, "1"), UNRELEASED),
    ("q", assigned({C: 1}), tasks("0", "1", "2"), assigned({A: 3}, "1", "2"), STABLE),
]


@pytest.mark.parametrize(("process", "theirs", "target", "expected", "state"), OWNERS)
def test_tasks_of_other_owners_are_waited_for(
    process: str, theirs: AssignedTasks, target: Tasks, expected: AssignedTasks, state: MemberState
) -> None:
    """An active task has only one owner, and a process has each task only once."""
    owners = Owners()
    owners.add(member().assigned, "p")
    owners.add(theirs, process)
    after = step(member(), target, None, owners)
    assert (after.assigned, after.state, after.epoch) == (expected, state, 7)
