"""The owners of tasks in a streams group: processes, not members (KIP-1071)."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kwire.assignors.sticky_tasks import Tasks
from mockbroker.groups.streams.state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    NOT_VALIDATED,
    STATIC_LEAVE_EPOCH,
    Endpoint,
    MemberState,
    Owners,
    StreamsGroup,
    StreamsMember,
    rebalance_timer,
)
from mockbroker.groups.streams.status import Status
from mockbroker.groups.streams.tasks import AssignedTasks
from mockbroker.groups.streams.topology import Subtopology, topology_of

TASK, OTHER = ("0", 0), ("0", 1)


def tasks(*kinds: str, task: tuple[str, int] = TASK) -> AssignedTasks:
    """Return the tasks of a member: ``task`` in each of the given kinds."""
    replicas = {kind: frozenset({task}) for kind in kinds if kind != "active"}
    return AssignedTasks(active={task: 1} if "active" in kinds else {}, **replicas)


REPLICAS = [  # tasks of the process, whether it replicates TASK
    (tasks("standby"), True),
    (tasks("warmup"), True),
    (tasks("standby", "warmup"), True),
    (tasks("active"), False),
    (tasks("standby", "warmup", task=OTHER), False),
]


@pytest.mark.parametrize(("owned", "replicates"), REPLICAS)
def test_process_replicates_its_standby_and_warm_up_tasks(owned: AssignedTasks, replicates: bool) -> None:
    owners = Owners()
    owners.add(owned, "p")
    assert (owners.replicates(TASK, "p"), owners.replicates(TASK, "q")) == (replicates, False)
    owners.remove(owned, "p")
    assert owners == Owners()


def test_task_remains_with_the_processes_that_own_it() -> None:
    owners = Owners()
    for process in ("p", "q"):
        owners.add(tasks("active", "standby"), process)
    owners.remove(tasks("active", "standby"), "p")
    assert (owners.active, owners.standby) == ({TASK: "q"}, {TASK: {"q"}})


# --- the group ----------------------------------------------------------------------------------------------------


def random_member(random: Random, number: int, epoch: int) -> StreamsMember:
    """Return a member whose tasks no other member has."""
    first, second = (("0", 10 * number + random.randrange(5)) for _ in range(2))
    return StreamsMember(
        member_id=f"m{number}",
        process_id=f"p{number % 2}",
        epoch=epoch,
        endpoint=random.choice([None, Endpoint("h", number)]),
        assigned=AssignedTasks({first: 1}, frozenset({("1", number)}), frozenset({("2", number)})),
        pending_revocation=AssignedTasks({second: 1} if second != first else {}, frozenset({("3", number)})),
    )


@pytest.mark.parametrize("seed", range(5))
def test_owners_follow_the_members(seed: int) -> None:
    random, group = Random(seed), StreamsGroup(group_id="g")
    largest = 0
    for step in range(100):
        number = random.randrange(5)
        if random.random() < 0.7:
            group.put_member(random_member(random, number, step))
            group.target[f"m{number}"] = Tasks()
        elif f"m{number}" in group.members:
            group.remove_member(group.members[f"m{number}"])
        largest = max(largest, len(group.members))
        expected = Owners()
        for each in group.members.values():
            expected.add(each.assigned, each.process_id)
            expected.add(each.pending_revocation, each.process_id)
        assert group.owners == expected
        assert set(group.with_endpoint) >= {name for name, each in group.members.items() if each.endpoint}
        assert set(group.with_endpoint) <= set(group.members)
        assert set(group.target) <= set(group.members)
        assert group.peak_member_count == largest


def test_shutdown_request_ends_with_the_last_member() -> None:
    group = StreamsGroup(group_id="g")
    for number in (0, 1):
        group.put_member(random_member(Random(1), number, 1))
    group.shutdown_by = "m0"
    group.remove_member(group.members["m0"])
    assert group.shutdown_by == "m0"
    group.remove_member(group.members["m1"])
    assert group.shutdown_by == ""


def test_new_member_epoch_ends_the_rebalance_deadline() -> None:
    group = StreamsGroup(group_id="g")
    group.put_member(random_member(Random(1), 0, 1))
    timer = rebalance_timer("m0")
    for epoch, kept in ((1, True), (2, False)):
        group.timers.set(timer, 9.0)
        group.put_member(random_member(Random(1), 0, epoch))
        assert (timer in group.timers) is kept


STATES = [  # validated topology epoch, group epoch, assignment epoch, member epoch, state of the member, name
    (-1, 2, 2, 2, MemberState.STABLE, "NotReady"),
    (0, 3, 2, 2, MemberState.STABLE, "Assigning"),
    (0, 2, 2, 2, MemberState.STABLE, "Stable"),
    (0, 2, 2, 1, MemberState.STABLE, "Reconciling"),
    (0, 2, 2, 2, MemberState.UNREVOKED_TASKS, "Reconciling"),
]


@pytest.mark.parametrize(("validated", "epoch", "assignment_epoch", "member_epoch", "state", "name"), STATES)
def test_state_depends_on_topology_and_epochs(
    validated: int, epoch: int, assignment_epoch: int, member_epoch: int, state: MemberState, name: str
) -> None:
    group = StreamsGroup(
        group_id="g", epoch=epoch, assignment_epoch=assignment_epoch, validated_topology_epoch=validated
    )
    assert (group.state_name, group.state_filter) == ("Empty", "empty")
    group.put_member(replace(random_member(Random(1), 0, member_epoch), state=state))
    assert (group.state_name, group.state_filter) == ("NotReady", "not_ready"), "without a topology"
    group.topology = topology_of(0, [Subtopology(subtopology_id="0", source_topics=["t"])])
    assert group.state_name == name
    assert [group.is_subscribed_to(topic) for topic in ("t", "u")] == [True, False]
    group.remove_member(group.members["m0"])
    assert not group.is_subscribed_to("t")


def test_new_group_has_no_epoch() -> None:
    group = StreamsGroup(group_id="g")
    epochs = (group.epoch, group.assignment_epoch, group.validated_topology_epoch, group.endpoint_epoch)
    assert epochs == (0, 0, 0, 0)
    assert (group.metadata_hash, group.metadata_version, group.peak_member_count) == (0, -1, 0)


@pytest.mark.parametrize("kinds", [(), ("active",), ("standby",), ("warmup",)])
def test_a_member_with_any_task_has_tasks(kinds: tuple[str, ...]) -> None:
    assert bool(tasks(*kinds)) is bool(kinds)


def test_numbers_of_states_and_statuses_are_kafkas() -> None:
    assert {state.name: state.value for state in MemberState} == {
        "STABLE": 1,
        "UNREVOKED_TASKS": 2,
        "UNRELEASED_TASKS": 3,
    }
    assert {status.name: status.value for status in Status} == {
        "STALE_TOPOLOGY": 0,
        "MISSING_SOURCE_TOPICS": 1,
        "INCORRECTLY_PARTITIONED_TOPICS": 2,
        "MISSING_INTERNAL_TOPICS": 3,
        "SHUTDOWN_APPLICATION": 4,
        "ASSIGNMENT_DELAYED": 5,
    }


TASKS = Tasks(frozenset({("0", 0)}), frozenset({("0", 1)}), frozenset({("0", 2)}))


@pytest.mark.parametrize("kind", ["active", "standby", "warmup"])
def test_assigned_tasks_contain_those_of_the_same_type(kind: str) -> None:
    assigned = AssignedTasks({("0", 0): 1}, TASKS.standby, TASKS.warmup)
    assert assigned.contains(TASKS)
    assert assigned.contains(Tasks())
    assert not assigned.contains(TASKS._replace(**{kind: frozenset({("0", 7)})}))


def test_special_epochs_are_those_of_kafka() -> None:
    assert (JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH, NOT_VALIDATED) == (0, -1, -2, -1)


def test_group_is_stable_once_all_members_are() -> None:
    group = StreamsGroup(group_id="g", epoch=3, assignment_epoch=3)
    group.topology = topology_of(0, [Subtopology(subtopology_id="0", source_topics=["t"])])
    group.put_member(StreamsMember(member_id="a", epoch=3))
    group.put_member(StreamsMember(member_id="b", epoch=2))
    assert group.state_name == "Reconciling"
    group.put_member(StreamsMember(member_id="b", epoch=3))
    assert group.state_name == "Stable"
