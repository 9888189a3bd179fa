"""The target assignment of a streams group, computed by the task assignor ``sticky`` (KIP-1071).

Source: Kafka's TargetAssignmentBuilder (4.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.assignors.sticky_tasks import SubtopologyTasks, TaskMember, Tasks, assign_tasks
from kwire.assignors.sticky_tasks_incremental import BalancedTasks
from kwire.java import map_order, timeline_map_order
from mockbroker.base.effects import Note
from mockbroker.groups.coordinated import generation_note
from mockbroker.groups.streams.configured import ConfiguredTopology
from mockbroker.groups.streams.state import StreamsGroup

ASSIGNOR = "sticky"
STANDBY_REPLICAS = "num.standby.replicas"  # setting of the assignor
NO_TASKS_YET = Tasks()


def compute_target(
    group: StreamsGroup, configured: ConfiguredTopology, configs: Mapping[str, str], joined: str | None = None
) -> Note:
    """Compute the target assignment of all members for the group epoch, and return the journal event.

    Args:
        group: The group.
        configured: The configured topology; if it is not ready, no tasks are assigned.
        configs: Settings of the task assignor.
        joined: Id of the member that joins with this heartbeat; None if no member joins. As in Kafka, the assignor
            handles this member last.
    """
    if configured.is_ready:
        assert configured.subtopologies is not None
        subtopologies = {
            name: SubtopologyTasks(each.task_count, bool(each.changelog_topics))
            for name, each in configured.subtopologies.items()
        }
        replicas = int(configs.get(STANDBY_REPLICAS, "0"))
        if replicas or not _update(group, subtopologies, joined):
            _compute_for_all(group, subtopologies, replicas, joined)
    else:
        group.target = dict.fromkeys(_in_map_order(group, group.members, joined), NO_TASKS_YET)
        group.balanced_tasks = None
    group.assignment_epoch = group.epoch
    return generation_note(group, ASSIGNOR)


def _update(group: StreamsGroup, subtopologies: Mapping[str, SubtopologyTasks], joined: str | None) -> bool:
    """Add one new member to the target assignment without computing the targets of all members again.

    Return True, or False if this is not possible; in this case, the target assignment is unchanged.

    Args:
        group: The group.
        subtopologies: The subtopologies by id.
        joined: Id of the new member; None if no member joins.
    """
    balanced = group.balanced_tasks
    if balanced is None or not balanced.is_for(subtopologies):
        return False
    changed = balanced.update(group.target)
    for member_id in _in_map_order(group, changed, joined):
        group.target[member_id] = changed[member_id]
    return True


def _compute_for_all(
    group: StreamsGroup, subtopologies: Mapping[str, SubtopologyTasks], replicas: int, joined: str | None
) -> None:
    """Compute the target assignment of all members from their processes and their current targets.

    Args:
        group: The group.
        subtopologies: The subtopologies by id.
        replicas: Number of standby tasks of each stateful task.
        joined: Id of the member that joins; None if no member joins.
    """
    members = {
        member_id: TaskMember(group.members[member_id].process_id, group.target.get(member_id, NO_TASKS_YET))
        for member_id in _in_map_order(group, group.members, joined)
    }
    group.target = assign_tasks(members, subtopologies, replicas)
    process_ids = {member.member_id: member.process_id for member in group.members.values()}
    group.balanced_tasks = None if replicas else BalancedTasks.of(group.target, process_ids, subtopologies)


def _in_map_order(group: StreamsGroup, member_ids: Iterable[str], joined: str | None) -> list[str]:
    """Return member ids in the order in which Kafka's assignor iterates over them.

    Args:
        group: The group.
        member_ids: Ids of members, in the order in which they joined.
        joined: Id of the member that joins; it is last in the result. None if no member joins.
    """
    listed = timeline_map_order((each for each in member_ids if each != joined), group.peak_member_count)
    return map_order(listed if joined is None else [*listed, joined], len(group.members))
