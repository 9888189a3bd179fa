"""The reconciliation of one member with its target assignment, one step per heartbeat.

The member first revokes tasks, then gets free tasks, and finally gets tasks that other members have released. A process
has a task at most once, so that two stream threads never share the state of a task. Source: Kafka's
CurrentAssignmentBuilder (4.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kwire.assignors.sticky_tasks import Task, Tasks, TaskSet
from kwire.lazy_dataclass import dataclass
from mockbroker.groups.streams.state import MemberState, Owners, StreamsMember
from mockbroker.groups.streams.tasks import NOTHING, AssignedTasks

STABLE, UNREVOKED, UNRELEASED = MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciliationInput:
    """The data that determines the next reconciliation step of a member.

    Attributes:
        target_epoch: Epoch of the target assignment.
        target: Target assignment of the member.
        owners: The processes that own each task of the group.
        owned_tasks: Tasks that the member reports as owned; None if the member does not report them.
    """

    target_epoch: int
    target: Tasks
    owners: Owners
    owned_tasks: Tasks | None


def reconciled_member(member: StreamsMember, inputs: ReconciliationInput) -> StreamsMember:
    """Return the member after its next reconciliation step, or the same object if no step is possible.

    Args:
        member: The member.
        inputs: The data that determines the step.
    """
    if member.state is STABLE and member.epoch == inputs.target_epoch:
        return member
    if member.state is UNREVOKED:
        owned = inputs.owned_tasks
        if owned is None or member.pending_revocation.overlaps(owned):
            return member
        return _next_assignment(member, member.epoch + 1, inputs)
    return _next_assignment(member, member.epoch, inputs)


def _next_assignment(member: StreamsMember, epoch: int, inputs: ReconciliationInput) -> StreamsMember:
    """Return the member after its next reconciliation step towards the target assignment.

    Args:
        member: The member.
        epoch: Member epoch to set if the member still has tasks to revoke.
        inputs: The data that determines the step.
    """
    assigned, target, owners, process = member.assigned, inputs.target, inputs.owners, member.process_id
    keep = AssignedTasks(
        {task: since for task, since in assigned.active.items() if task in target.active},
        assigned.standby & target.standby,
        assigned.warmup & target.warmup,
    )
    revoke = AssignedTasks(
        {task: since for task, since in assigned.active.items() if task not in target.active},
        assigned.standby - keep.standby,
        assigned.warmup - keep.warmup,
    )
    if revoke and (inputs.owned_tasks is None or revoke.overlaps(inputs.owned_tasks)):
        return replace(
            member,
            state=UNREVOKED,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=keep,
            pending_revocation=revoke,
        )

    def has_other_owner(task: Task) -> bool:
        return task in owners.active or owners.replicates(task, process)

    def is_in_process(task: Task) -> bool:
        return owners.active.get(task) == process or owners.replicates(task, process)

    active, waits_for_active = _free(target.active.difference(keep.active), has_other_owner)
    standby, waits_for_standby = _free(target.standby - keep.standby, is_in_process)
    warmup, waits_for_warmup = _free(target.warmup - keep.warmup, is_in_process)
    return replace(
        member,
        state=UNRELEASED if waits_for_active or waits_for_standby or waits_for_warmup else STABLE,
        epoch=inputs.target_epoch,
        previous_epoch=member.epoch,
        assigned=AssignedTasks(
            {**keep.active, **dict.fromkeys(active, inputs.target_epoch)}, keep.standby | standby, keep.warmup | warmup
        ),
        pending_revocation=NOTHING,
    )


def _free(wanted: TaskSet, is_unreleased: Callable[[Task], bool]) -> tuple[TaskSet, bool]:
    """Return the wanted tasks that can be assigned now, and whether at least one wanted task cannot be assigned yet.

    Args:
        wanted: tasks to assign.
        is_unreleased: function that returns whether a task cannot be assigned yet, because its owner has not released
            it.
    """
    free = frozenset(task for task in wanted if not is_unreleased(task))
    return free, len(free) < len(wanted)
