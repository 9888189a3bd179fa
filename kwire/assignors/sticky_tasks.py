"""The task assignor ``sticky`` of streams groups (KIP-1071): active and standby tasks, balanced over the members.

An active task goes to the member that had it before, else to a member that had it as a standby task, else to the
process with the lowest load. A standby task never goes to the process that has its active task. Warm-up tasks are never
assigned. Source: StickyTaskAssignor and ProcessState of Kafka 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeAlias

from kwire.assignors.priority_queue import PriorityQueue
from kwire.java import bucket_of, map_order, string_hash, utf16
from kwire.lazy_dataclass import dataclass

Task: TypeAlias = tuple[str, int]  # id of the subtopology, and partition
TaskSet: TypeAlias = frozenset[Task]
NO_TASKS: TaskSet = frozenset()


class Tasks(NamedTuple):
    """The tasks of one member, by type of task.

    Attributes:
        active: tasks that the member processes.
        standby: tasks whose state the member replicates.
        warmup: tasks whose state the member restores in order to take them over.
    """

    active: TaskSet = NO_TASKS
    standby: TaskSet = NO_TASKS
    warmup: TaskSet = NO_TASKS


class TaskMember(NamedTuple):
    """A member of a streams group, the input of the assignor.

    Attributes:
        process_id: id of the process that the member runs in.
        target: current target assignment.
    """

    process_id: str
    target: Tasks = Tasks()


@dataclass(frozen=True, slots=True)
class SubtopologyTasks:
    """The tasks of a subtopology.

    Attributes:
        count: number of tasks.
        stateful: whether the subtopology has state in changelog topics. Only stateful subtopologies have standby tasks.
    """

    count: int
    stateful: bool


def assign_tasks(
    members: Mapping[str, TaskMember], subtopologies: Mapping[str, SubtopologyTasks], standby_replicas: int = 0
) -> dict[str, Tasks]:
    """Return the target assignment of each member, by member id.

    Args:
        members: members by member id; their order decides ties (in a broker, the order of a HashMap).
        subtopologies: tasks by id of the subtopology.
        standby_replicas: number of standby tasks of each task of a stateful subtopology.
    """
    if not members:
        return {}
    assignment = _Assignment(members, subtopologies, standby_replicas)
    assignment.assign_active()
    if standby_replicas:
        assignment.assign_standby(standby_replicas)
    return assignment.result()


class _Member:
    """A member with the tasks that were assigned to it so far.

    Attributes:
        process: process of the member.
        target: target assignment of the member before this run of the assignor.
        count: number of assigned tasks.
        kept: number of assigned active tasks that the member already had in ``target``.
        active: assigned active tasks.
        standby: assigned standby tasks.
    """

    __slots__ = ("active", "count", "kept", "process", "standby", "target")

    def __init__(self, process: _Process, target: Tasks) -> None:
        self.process = process
        self.target = target
        self.count = 0
        self.kept = 0
        self.active: list[Task] = []
        self.standby: list[Task] = []

    def tasks(self) -> Tasks:
        """Return the assigned tasks as a target assignment. If they have not changed, return the object ``target``
        itself.
        """
        before = self.target
        is_kept = self.kept == len(self.active) == len(before.active)
        if is_kept and not (self.standby or before.standby or before.warmup):
            return before
        return Tasks(before.active if is_kept else frozenset(self.active), frozenset(self.standby))


class _Process:
    """A process with its members and the number of their tasks.

    Attributes:
        members: members by member id.
        tasks: tasks of the members; always empty if there are no standby tasks.
        task_count: number of tasks of the members.
        by_load: queue of the members by number of tasks; None until it is needed.
    """

    __slots__ = ("by_load", "members", "task_count", "tasks")

    def __init__(self) -> None:
        self.members: dict[str, _Member] = {}
        self.tasks: set[Task] = set()
        self.task_count = 0
        self.by_load: PriorityQueue[_Member] | None = None

    @property
    def load(self) -> float:
        """The average number of tasks of the members."""
        return self.task_count / len(self.members)

    def least_loaded(self) -> _Member:
        """Return the member with the fewest tasks; the caller must add a task to it and call ``put_back``.

        If the process has several members, the member is removed from the queue until ``put_back``.
        """
        if len(self.members) == 1:
            return next(iter(self.members.values()))
        if self.by_load is None:
            ordered = [self.members[member_id] for member_id in map_order(self.members)]
            self.by_load = PriorityQueue(ordered, attrgetter("count"))
        return self.by_load.poll()

    def put_back(self, member: _Member) -> None:
        """Put back a member that ``least_loaded`` returned."""
        if self.by_load is not None:
            self.by_load.add(member)


class _Quota:
    """The maximum number of tasks of a member.

    Each time a member reaches the quota, the quota of the remaining members is recomputed from the remaining tasks.

    Args:
        tasks: number of all tasks to divide.
        members: number of members.

    Attributes:
        limit: the quota.
    """

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.limit = _share(tasks, members)

    def reach(self) -> None:
        """Record that a member has reached the quota; recompute the quota of the remaining members."""
        self._tasks -= self.limit
        self._members -= 1
        self.limit = _share(self._tasks, self._members)


class _Assignment:
    """The state of a task assignment in progress.

    Args:
        members, subtopologies, standby_replicas: arguments of ``assign_tasks``.
    """

    def __init__(
        self, members: Mapping[str, TaskMember], subtopologies: Mapping[str, SubtopologyTasks], standby_replicas: int
    ) -> None:
        self._subtopologies = {name: subtopologies[name] for name in sorted(subtopologies, key=utf16)}
        self._rank = {name: rank for rank, name in enumerate(self._subtopologies)}
        self._keeps_tasks = standby_replicas > 0
        self._members: dict[str, _Member] = {}
        self._former_owner: dict[Task, _Member] = {}
        self._former_standbys: dict[Task, list[_Member]] = {}
        processes: dict[str, _Process] = {}
        for member_id, spec in members.items():
            process = processes.get(spec.process_id)
            if process is None:
                process = processes[spec.process_id] = _Process()
            member = process.members[member_id] = self._members[member_id] = _Member(process, spec.target)
            for task in spec.target.active:
                self._former_owner[task] = member
            for task in spec.target.standby:
                self._former_standbys.setdefault(task, []).append(member)
        self._processes = [processes[each] for each in _sized_map_order(processes, len(members))]
        active = sum(each.count for each in subtopologies.values())
        standby = sum(each.count for each in subtopologies.values() if each.stateful) * standby_replicas
        self._active_quota = _Quota(active, len(members))
        self._total_quota = _Quota(active + standby, len(members))

    def assign_active(self) -> None:
        """Assign all active tasks."""
        tasks = self._keep_former_owners(sorted(_tasks(self._subtopologies), key=itemgetter(1)))
        if self._former_standbys:
            tasks = [task for task in tasks if not self._promote_standby(task)]
        if len(self._members) == 1:
            (only,) = self._members.values()
            for task in tasks:
                self._add_active(only, task)
            return
        if not tasks:
            return
        by_load = self._by_load()
        for task in sorted(tasks, key=self._by_subtopology):
            process = by_load.poll()
            member = process.least_loaded()
            self._add_active(member, task)
            process.put_back(member)
            by_load.add(process)

    def _keep_former_owners(self, tasks: list[Task]) -> list[Task]:
        """Assign active tasks to the members that had them before, up to the quota. Return the tasks that were not
        assigned.
        """
        others: list[Task] = []
        owner_of, quota = self._former_owner, self._active_quota
        for task in tasks:
            member = owner_of.get(task)
            if member is None or member.count >= quota.limit:
                others.append(task)
            else:
                member.kept += 1
                self._add_active(member, task)
        return others

    def _promote_standby(self, task: Task) -> bool:
        """Assign an active task to a member that had it as a standby task before.

        Return False if there is no such member, or if the member has reached the quota.
        """
        member = _least_loaded(self._former_standbys.get(task), None)
        if member is None or member.count >= self._active_quota.limit:
            return False
        member.process.by_load = None
        self._add_active(member, task)
        return True

    def _add_active(self, member: _Member, task: Task) -> None:
        member.active.append(task)
        self._count(member, task)
        if member.count == self._active_quota.limit:
            self._active_quota.reach()

    def _add_standby_task(self, member: _Member, task: Task) -> None:
        member.standby.append(task)
        self._count(member, task)

    def _count(self, member: _Member, task: Task) -> None:
        """Count a newly assigned task for its member and for the member's process."""
        member.count += 1
        process = member.process
        process.task_count += 1
        if self._keeps_tasks:
            process.tasks.add(task)
        if member.count == self._total_quota.limit:
            self._total_quota.reach()

    def assign_standby(self, replicas: int) -> None:
        """Assign the standby tasks, after the active tasks. ``replicas``: standby tasks of each task."""
        stateful = {name: each for name, each in self._subtopologies.items() if each.stateful}
        remaining: list[tuple[Task, int]] = []
        for task in sorted(_tasks(stateful), key=self._by_partition, reverse=True):
            for kept in range(replicas):
                if not (
                    self._keep_standby(task, self._former_owner.get(task))
                    or self._keep_standby(task, _least_loaded(self._former_standbys.get(task), task))
                ):
                    remaining.append((task, replicas - kept))
                    break
        remaining.sort(key=lambda each: self._by_subtopology(each[0]), reverse=True)
        by_load = self._by_load()
        for task, count in remaining:
            for _ in range(count):
                if not self._add_standby(by_load, task):
                    break

    def _keep_standby(self, task: Task, member: _Member | None) -> bool:
        """Assign a standby task to a member that had the task before; return whether the task was assigned.

        The task is not assigned if ``member`` is None, if a member of the same process has the task, or if the member
        has reached the quota.
        """
        if member is None or task in member.process.tasks or member.count >= self._total_quota.limit:
            return False
        member.process.by_load = None
        self._add_standby_task(member, task)
        return True

    def _add_standby(self, by_load: PriorityQueue[_Process], task: Task) -> bool:
        """Assign a standby task to the process with the lowest load, except processes that have the task already.

        Return False if all processes have the task.
        """
        skipped: list[_Process] = []
        is_assigned = False
        while by_load and not is_assigned:
            process = by_load.poll()
            skipped.append(process)
            if task not in process.tasks:
                member = process.least_loaded()
                self._add_standby_task(member, task)
                process.put_back(member)
                is_assigned = True
        for process in reversed(skipped):
            by_load.add(process)
        return is_assigned

    def _by_partition(self, task: Task) -> tuple[int, int]:
        return task[1], self._rank[task[0]]

    def _by_subtopology(self, task: Task) -> tuple[int, int]:
        return self._rank[task[0]], task[1]

    def _by_load(self) -> PriorityQueue[_Process]:
        return PriorityQueue(self._processes, attrgetter("load"))

    def result(self) -> dict[str, Tasks]:
        """Return the assignment of each member."""
        return {member_id: member.tasks() for member_id, member in self._members.items()}


def _least_loaded(members: list[_Member] | None, task: Task | None) -> _Member | None:
    """Return the least loaded of the members that had a task before; None if none of them can get the task.

    The result follows Kafka in two details. A later member replaces the candidate only if both the load of its process
    and its own load are lower. And the result is None if the process of the first member has the task, even if the
    processes of the other members do not have it.

    Args:
        members: the members that had the task; None if no member had it.
        task: a task that the process of the result must not have yet; None for any process.
    """
    if not members:
        return None
    first = candidate = members[0]
    load, count = first.process.load, first.count
    for member in members[1:]:
        process = member.process
        if process.load < load and (task is None or task not in process.tasks) and member.count < count:
            load, count, candidate = process.load, member.count, member
    return candidate if task is None or task not in first.process.tasks else None


def _tasks(subtopologies: Mapping[str, SubtopologyTasks]) -> list[Task]:
    return [(name, number) for name, each in subtopologies.items() for number in range(each.count)]


def _share(tasks: int, members: int) -> int:
    return -(-tasks // members) if members else 0


def _sized_map_order(keys: Iterable[str], capacity: int) -> list[str]:
    """Return strings in the order of a Java HashMap that was created with this initial capacity."""
    listed = list(keys)
    size = 1
    while size < capacity or len(listed) > size * 3 // 4:
        size *= 2
    return sorted(listed, key=lambda key: bucket_of(string_hash(key), size))
