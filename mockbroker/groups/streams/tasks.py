"""The tasks of a member of a streams group, by type, with the epoch in which each active task was assigned.

Source: Kafka's TasksTuple and TasksTupleWithEpochs (4.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Protocol, TypeVar

from kwire.assignors.server import numbers_by_key
from kwire.assignors.sticky_tasks import NO_TASKS, Task, Tasks, TaskSet
from kwire.java import map_order
from kwire.lazy_dataclass import dataclass


class TaskIds(Protocol):
    """The element of a message that contains the tasks of one subtopology."""

    subtopology_id: str
    partitions: list[int]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AssignedTasks:
    """The tasks of a member.

    Attributes:
        active: Active task -> epoch in which it was assigned.
        standby: Standby tasks.
        warmup: Warm-up tasks.
    """

    active: Mapping[Task, int] = field(default_factory=dict)
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS

    def __bool__(self) -> bool:
        return bool(self.active or self.standby or self.warmup)

    def overlaps(self, tasks: Tasks) -> bool:
        """Return whether at least one of ``tasks`` is assigned, with the same type."""
        return not (
            self.active.keys().isdisjoint(tasks.active)
            and self.standby.isdisjoint(tasks.standby)
            and self.warmup.isdisjoint(tasks.warmup)
        )

    def contains(self, tasks: Tasks) -> bool:
        """Return whether all of ``tasks`` are assigned, with the same type."""
        return tasks.active <= self.active.keys() and tasks.standby <= self.standby and tasks.warmup <= self.warmup


NOTHING = AssignedTasks()


def by_subtopology(tasks: Iterable[Task]) -> dict[str, list[int]]:
    """Return the partition indexes of tasks, by subtopology id. Ids and indexes are sorted."""
    return numbers_by_key(tasks)


def task_ids(kind: type[T], tasks: Iterable[Task], *, in_map_order: bool = False) -> list[T]:
    """Return tasks as the elements of a message.

    Args:
        kind: Class of the element, such as ``StreamsGroupHeartbeatResponse.TaskIds``.
        tasks: The tasks.
        in_map_order: True to order subtopologies as a Java HashMap does, as in heartbeat responses; False to order them
            by id.
    """
    numbers = by_subtopology(tasks)
    names = map_order(numbers) if in_map_order else list(numbers)
    return [kind(subtopology_id=name, partitions=numbers[name]) for name in names]  # type: ignore[call-arg]


def task_set(elements: Iterable[TaskIds]) -> TaskSet:
    """Return the tasks in the elements of a message."""
    return frozenset((each.subtopology_id, number) for each in elements for number in each.partitions)
