"""Streams groups as Kafka's task assignor was given them, and the assignment that it gave: lines of StickyTasks.java."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kwire.assignors.sticky_tasks import SubtopologyTasks, TaskMember, Tasks, TaskSet, assign_tasks


@dataclass(frozen=True)
class TaskGroup:
    """One round of a group. ``expected``: the assignment of Kafka's class."""

    id: str
    members: Mapping[str, TaskMember]
    subtopologies: Mapping[str, SubtopologyTasks]
    standby_replicas: int
    expected: Mapping[str, Tasks]

    def assigned(self) -> dict[str, Tasks]:
        return assign_tasks(self.members, self.subtopologies, self.standby_replicas)


def groups_of(lines: Iterable[str]) -> Iterator[TaskGroup]:
    for line in map(json.loads, lines):
        yield TaskGroup(
            id=f"history {line['history']}, round {line['round']}",
            members={name: TaskMember(each["process"], _tasks(each)) for name, each in line["members"].items()},
            subtopologies={name: SubtopologyTasks(*each) for name, each in line["subtopologies"].items()},
            standby_replicas=line["standby_replicas"],
            expected={name: _tasks(each) for name, each in line["output"].items()},
        )


def _tasks(listed: Mapping[str, list[Any]]) -> Tasks:
    return Tasks(_task_set(listed["active"]), _task_set(listed["standby"]))


def _task_set(listed: list[Any]) -> TaskSet:
    return frozenset((name, number) for name, number in listed)
