"""The task assignor ``sticky`` for a streams group in which one member has joined since the last target assignment.

The result equals the result of ``sticky_tasks.assign_tasks``, which processes all members and tasks at each change. The
condition is that each process has one member, and that each member has an equal share of the tasks or one task more. A
new member then takes tasks only from members that have one task more. Source: StickyTaskAssignor of Kafka 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.assignors.sticky_tasks import SubtopologyTasks, Task, Tasks
from kwire.java import utf16


class BalancedTasks:
    """A balanced target assignment without standby tasks, to which a member can be added.

    Args:
        target: target assignment by member id.
        process_ids: process of each member by member id, in the order in which the members joined.
        subtopologies: tasks by id of the subtopology.
    """

    def __init__(
        self,
        target: Mapping[str, Tasks],
        process_ids: Mapping[str, str],
        subtopologies: Mapping[str, SubtopologyTasks],
    ) -> None:
        self._subtopologies = subtopologies
        self._rank = {name: rank for rank, name in enumerate(sorted(subtopologies, key=utf16))}
        self._task_count = _task_count(subtopologies)
        self._share = self._task_count // len(target)
        self._processes = set(process_ids.values())
        self._numbers = {member_id: number for number, member_id in enumerate(process_ids)}
        self._joined: str | None = None
        larger = ((member_id, tasks.active) for member_id, tasks in target.items() if len(tasks.active) > self._share)
        self._larger = sorted((max(map(self._position, active)), member_id) for member_id, active in larger)

    @classmethod
    def of(
        cls,
        target: Mapping[str, Tasks],
        process_ids: Mapping[str, str],
        subtopologies: Mapping[str, SubtopologyTasks],
    ) -> BalancedTasks | None:
        """Return a BalancedTasks for a target assignment; None if the target assignment must be computed for all
        members.

        The result is None if the group has no members, if a process has two members, if a standby or warm-up task
        exists, if the tasks are not balanced, or if a task is unassigned or assigned twice. For the arguments, see the
        class.
        """
        if not target or len(set(process_ids.values())) < len(target):
            return None
        share = _task_count(subtopologies) // len(target)
        for active, standby, warmup in target.values():
            if standby or warmup or not share <= len(active) <= share + 1:
                return None
        assigned = {task for tasks in target.values() for task in tasks.active}
        if len(assigned) != sum(len(tasks.active) for tasks in target.values()):
            return None
        return cls(target, process_ids, subtopologies) if len(assigned) == _task_count(subtopologies) else None

    def join(self, member_id: str, process_id: str) -> bool:
        """Record that a member joins; return whether the target assignment can still be updated incrementally.

        Only one member with a new member id and a new process can join before the next ``update``. If the result is
        False, nothing is recorded.
        """
        if self._joined is not None or process_id in self._processes or member_id in self._numbers:
            return False
        self._joined = member_id
        self._numbers[member_id] = len(self._numbers)
        self._processes.add(process_id)
        return True

    def is_for(self, subtopologies: Mapping[str, SubtopologyTasks]) -> bool:
        """Return whether the target assignment can be updated: the tasks and the size of the shares are unchanged."""
        return subtopologies == self._subtopologies and self._task_count // len(self._numbers) == self._share

    def update(self, target: Mapping[str, Tasks]) -> dict[str, Tasks]:
        """Return the target assignments that change, by member id, in the order in which the members joined.

        Call this method only if ``is_for`` returns True. After the call, the next member can join. ``target``: the
        target assignment before the change.
        """
        larger = self._task_count - self._share * len(self._numbers)
        changed: dict[str, Tasks] = {}
        moved: list[Task] = []
        for (number, rank), member_id in self._larger[larger:]:
            task = next(each for each in target[member_id].active if self._position(each) == (number, rank))
            moved.append(task)
            changed[member_id] = Tasks(target[member_id].active - {task})
        del self._larger[larger:]
        if self._joined is not None:
            changed[self._joined] = Tasks(frozenset(moved))
            self._joined = None
        return dict(sorted(changed.items(), key=lambda each: self._numbers[each[0]]))

    def _position(self, task: Task) -> tuple[int, int]:
        """Return the sort key of a task: its position in the order in which a member keeps its tasks."""
        return task[1], self._rank[task[0]]


def _task_count(subtopologies: Mapping[str, SubtopologyTasks]) -> int:
    return sum(each.count for each in subtopologies.values())
