"""The task assignor of streams groups, compared with Kafka's class."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest
from task_groups import groups_of

from kwire.assignors.sticky_tasks import NO_TASKS, SubtopologyTasks, TaskMember, Tasks, assign_tasks

FILE = Path(__file__).parents[3] / "fixtures" / "assignors" / "sticky-tasks-server-4.2.0.jsonl.gz"


with gzip.open(FILE, "rt") as lines:
    GROUPS = list(groups_of(lines))


def test_as_kafka() -> None:
    assert len(GROUPS) == 480
    assert [group.id for group in GROUPS if group.assigned() != group.expected] == []


def test_each_task_has_one_active_owner() -> None:
    for group in GROUPS:
        active = Counter(task for tasks in group.assigned().values() for task in tasks.active)
        every = {(name, number) for name, each in group.subtopologies.items() for number in range(each.count)}
        assert active == dict.fromkeys(every, 1), group.id


def test_standby_tasks_are_stateful_and_on_other_processes() -> None:
    for group in GROUPS:
        owners: dict[tuple[str, int], list[str]] = {}
        for member_id, tasks in group.assigned().items():
            for task in [*tasks.active, *tasks.standby]:
                owners.setdefault(task, []).append(group.members[member_id].process_id)
        processes = len({member.process_id for member in group.members.values()})
        for (name, number), processes_of_task in owners.items():
            assert len(set(processes_of_task)) == len(processes_of_task), (group.id, name, number)
            wanted = 1 + group.standby_replicas * group.subtopologies[name].stateful
            assert len(processes_of_task) == min(wanted, processes), (group.id, name, number)


@pytest.mark.parametrize("standby_replicas", [0, 1])
def test_a_stable_group_keeps_its_active_tasks(standby_replicas: int) -> None:
    subtopologies = {"0": SubtopologyTasks(8, True)}
    first = assign_tasks({name: TaskMember(name) for name in "abc"}, subtopologies, standby_replicas)
    again = assign_tasks({name: TaskMember(name, first[name]) for name in "abc"}, subtopologies, standby_replicas)
    assert {name: each.active for name, each in first.items()} == {name: each.active for name, each in again.items()}


def test_a_task_goes_to_its_standby_when_its_owner_left() -> None:
    subtopologies = {"0": SubtopologyTasks(2, True)}
    left = {
        "a": TaskMember("a", Tasks(frozenset({("0", 0)}))),
        "b": TaskMember("b", Tasks(NO_TASKS, frozenset({("0", 1)}))),
    }
    assert assign_tasks(left, subtopologies)["b"].active == {("0", 1)}


def test_no_members_no_assignment() -> None:
    assert assign_tasks({}, {"0": SubtopologyTasks(2, True)}) == {}
