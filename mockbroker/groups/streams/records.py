"""The records of a streams group: group, topology, members, target and current assignments (KIP-1071).

Source: Kafka's StreamsCoordinatorRecordHelpers (4.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.assignors.sticky_tasks import Task, Tasks
from kwire.blobs import encode_stored
from kwire.blobs.offsets_topic import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from kwire.errors import DecodeError
from mockbroker.groups.coordinated import session_timer
from mockbroker.groups.group_type import Context
from mockbroker.groups.records.image import Change, Record, encode, encoded_keys, tombstones
from mockbroker.groups.records.stored import StoredRecords
from mockbroker.groups.streams.group_settings import group_settings
from mockbroker.groups.streams.state import Endpoint, MemberState, StreamsGroup, StreamsMember, rebalance_timer
from mockbroker.groups.streams.tasks import AssignedTasks, by_subtopology, task_ids, task_set
from mockbroker.groups.streams.topology import topology_of

Current = StreamsGroupCurrentMemberAssignmentValue
Metadata = StreamsGroupMemberMetadataValue
Target = StreamsGroupTargetAssignmentMemberValue


def records(group: StreamsGroup) -> Iterator[Record]:
    """Yield key, value and value version of each record of a group, except the records of its offsets."""
    for member in group.members.values():
        yield member_record(group, member)
    yield from topology_records(group)
    yield group_epoch_record(group)
    for member_id in group.target:
        yield target_record(group, member_id)
    if group.assignment_epoch:
        yield assignment_epoch_record(group)
    for member in group.members.values():
        yield current_assignment_record(group, member)


def changed_records(group: StreamsGroup) -> Iterator[Change]:
    """Yield the records of all fields that were set since the last write, and tombstones.

    The order is that of Kafka's heartbeat: members, topology, group, target assignments, current assignments.
    """
    changes = group.changes
    members, targets = changes.get("members", {}), changes.get("target", {})
    present = [group.members[member_id] for member_id in members if member_id in group.members]
    for member in present:
        yield encode(*member_record(group, member))
    for member_id in members:
        if member_id is not None and member_id not in group.members:
            yield from tombstones(member_keys(group.group_id, member_id))
    if "topology" in changes:
        for record in topology_records(group):
            yield encode(*record)
    if not changes.keys().isdisjoint(("epoch", "metadata_hash", "validated_topology_epoch", "assignment_configs")):
        yield encode(*group_epoch_record(group))
    for member_id in targets:
        if member_id in group.target:
            yield encode(*target_record(group, member_id))
        elif member_id is not None:
            yield encode_stored(target_key(group.group_id, member_id), 0), None
    if "assignment_epoch" in changes and group.assignment_epoch:
        yield encode(*assignment_epoch_record(group))
    for member in present:
        yield encode(*current_assignment_record(group, member))


def member_record(group: StreamsGroup, member: StreamsMember) -> Record:
    """Return the record with the metadata of a member."""
    endpoint = member.endpoint
    value = Metadata(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=round(member.rebalance_timeout * 1000),
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Metadata.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[Metadata.KeyValue(key=key, value=text) for key, text in sorted(member.client_tags.items())],
    )
    return StreamsGroupMemberMetadataKey(group_id=group.group_id, member_id=member.member_id), value, 0


def topology_records(group: StreamsGroup) -> list[Record]:
    """Return the record of the topology in a list, or an empty list without a topology."""
    if group.topology is None:
        return []
    return [(StreamsGroupTopologyKey(group_id=group.group_id), group.topology.value, 0)]


def group_epoch_record(group: StreamsGroup) -> Record:
    """Return the record of the group epoch."""
    kind = StreamsGroupMetadataValue.Config
    value = StreamsGroupMetadataValue(
        epoch=group.epoch,
        metadata_hash=group.metadata_hash,
        validated_topology_epoch=group.validated_topology_epoch,
        last_assignment_configs=[kind(key=key, value=value) for key, value in group.assignment_configs.items()],
    )
    return StreamsGroupMetadataKey(group_id=group.group_id), value, 0


def target_record(group: StreamsGroup, member_id: str) -> Record:
    """Return the record of the target assignment of a member.

    Args:
        group: The group.
        member_id: The member id.
    """
    tasks = group.target[member_id]
    value = Target(
        active_tasks=task_ids(Target.TaskIds, tasks.active),
        standby_tasks=task_ids(Target.TaskIds, tasks.standby),
        warmup_tasks=task_ids(Target.TaskIds, tasks.warmup),
    )
    return target_key(group.group_id, member_id), value, 0


def target_key(group_id: str, member_id: str) -> StreamsGroupTargetAssignmentMemberKey:
    return StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)


def assignment_epoch_record(group: StreamsGroup) -> Record:
    """Return the record with the epoch of the target assignment."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=group.assignment_epoch)
    return StreamsGroupTargetAssignmentMetadataKey(group_id=group.group_id), value, 0


def current_assignment_record(group: StreamsGroup, member: StreamsMember) -> Record:
    """Return the record with the current assignment of a member.

    The assignment consists of the assigned tasks, and of the tasks that the member still has to revoke.
    """
    assigned, pending = member.assigned, member.pending_revocation
    value = Current(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state.value,
        active_tasks=_with_epochs(assigned),
        standby_tasks=task_ids(Current.TaskIds, assigned.standby),
        warmup_tasks=task_ids(Current.TaskIds, assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(pending),
        standby_tasks_pending_revocation=task_ids(Current.TaskIds, pending.standby),
        warmup_tasks_pending_revocation=task_ids(Current.TaskIds, pending.warmup),
    )
    return StreamsGroupCurrentMemberAssignmentKey(group_id=group.group_id, member_id=member.member_id), value, 0


def _with_epochs(tasks: AssignedTasks) -> list[Current.TaskIds]:
    return [
        Current.TaskIds(
            subtopology_id=name,
            partitions=numbers,
            assignment_epochs=[tasks.active[name, number] for number in numbers],
        )
        for name, numbers in by_subtopology(tasks.active).items()
    ]


def member_keys(group_id: str, member_id: str) -> list[bytes]:
    """Return the keys of all records of a member, in the order in which Kafka writes their tombstones.

    Args:
        group_id: The group id.
        member_id: The member id.
    """
    kinds = (
        StreamsGroupCurrentMemberAssignmentKey,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupMemberMetadataKey,
    )
    return encoded_keys(kinds, group_id=group_id, member_id=member_id)


def group_keys(group_id: str) -> list[bytes]:
    """Return the keys of the group's records, except the records of its members, in the order of Kafka's tombstones."""
    kinds = (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupMetadataKey, StreamsGroupTopologyKey)
    return encoded_keys(kinds, group_id=group_id)


# --- loading a group from records ---------------------------------------------------------------------------------


def group_from_records(
    group_id: str, entries: Iterable[tuple[object, object]], context: Context, now: float
) -> StreamsGroup | None:
    """Create a group from its records.

    The sessions of all members start at ``now``. The initial rebalance delay does not start again.

    Args:
        group_id: group id.
        entries: decoded keys and latest values of the group's records, without deleted keys; at least one.
        context: data and functions shared by all groups.
        now: the broker's time in seconds.

    Returns:
        The group; None if the record of the group itself is missing.

    Raises:
        DecodeError: The topology, or the state or tasks of a member, are not valid.
    """
    stored = StoredRecords(entries)
    stored_group, topology = stored.value(StreamsGroupMetadataValue), stored.value(StreamsGroupTopologyValue)
    if stored_group is None:
        return None
    kind = StreamsGroupTargetAssignmentMetadataValue
    current = stored.values(Current)
    group = StreamsGroup(
        group_id=group_id,
        epoch=stored_group.epoch,
        assignment_epoch=(stored.value(kind) or kind()).assignment_epoch,
        validated_topology_epoch=stored_group.validated_topology_epoch,
        metadata_hash=stored_group.metadata_hash,
        assignment_configs={each.key: each.value for each in stored_group.last_assignment_configs or ()},
    )
    if topology is not None:
        try:
            group.topology = topology_of(topology.epoch, topology.subtopologies)
        except ValueError as error:
            raise DecodeError(str(error), message=StreamsGroupTopologyValue.__name__) from None
    session_timeout = group_settings(group_id, context).session_timeout
    for member_id, metadata in stored.values(Metadata).items():
        member = _build_member(member_id, metadata, current.get(member_id))
        group.put_member(member)
        group.timers.set(session_timer(member_id), now + session_timeout)
        if member.state is MemberState.UNREVOKED_TASKS and member.rebalance_timeout >= 0:
            group.timers.set(rebalance_timer(member_id), now + member.rebalance_timeout)
    for member_id, target in stored.values(Target).items():
        group.target[member_id] = Tasks(
            task_set(target.active_tasks), task_set(target.standby_tasks), task_set(target.warmup_tasks)
        )
    return group


def _build_member(member_id: str, metadata: Metadata, current: Current | None) -> StreamsMember:
    endpoint = metadata.user_endpoint
    current = current or Current(state=MemberState.STABLE.value)
    return StreamsMember(
        member_id=member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout=metadata.rebalance_timeout_ms / 1000,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags={each.key: each.value for each in metadata.client_tags},
        epoch=current.member_epoch,
        previous_epoch=current.previous_member_epoch,
        state=_member_state(member_id, current.state),
        assigned=AssignedTasks(
            _active_tasks(current.active_tasks, current.member_epoch),
            task_set(current.standby_tasks),
            task_set(current.warmup_tasks),
        ),
        pending_revocation=AssignedTasks(
            _active_tasks(current.active_tasks_pending_revocation, current.member_epoch),
            task_set(current.standby_tasks_pending_revocation),
            task_set(current.warmup_tasks_pending_revocation),
        ),
    )


def _member_state(member_id: str, number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        text = f"member {member_id} has the unknown state {number} (1-3)"
        raise DecodeError(text, message=Current.__name__) from None


def _active_tasks(elements: Iterable[Current.TaskIds], member_epoch: int) -> dict[Task, int]:
    """Return the assignment epoch of each task in a record.

    If the record has no assignment epochs, each task has the member epoch.

    Args:
        elements: Elements of the record, each with the tasks of a subtopology.
        member_epoch: Epoch of the member.

    Raises: DecodeError if the numbers of tasks and epochs differ.
    """
    tasks: dict[Task, int] = {}
    for each in elements:
        epochs = each.assignment_epochs or [member_epoch] * len(each.partitions)
        if len(epochs) != len(each.partitions):
            text = f"subtopology {each.subtopology_id} has {len(each.partitions)} partitions, but {len(epochs)} epochs"
            raise DecodeError(text, message=Current.__name__)
        tasks |= {(each.subtopology_id, number): epoch for number, epoch in zip(each.partitions, epochs, strict=True)}
    return tasks
