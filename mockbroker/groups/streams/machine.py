"""The state machine of a streams group (KIP-1071): heartbeats, leaving and timers.

Each heartbeat gets its response immediately, with the next step of the member's reconciliation. Times are in seconds.
Source: Kafka's GroupMetadataManager (4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kwire import ErrorCode
from kwire.assignors.sticky_tasks import Tasks
from kwire.lazy_dataclass import dataclass
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from mockbroker.base.effects import Effect, Effects, Note, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, RegisterGroup, member_note, session_timer
from mockbroker.groups.events import StreamsHeartbeat
from mockbroker.groups.group_type import Context, Refused
from mockbroker.groups.modern_group import check_size, fenced_epoch, find_member
from mockbroker.groups.partition_sets import METADATA_REFRESH_INTERVAL
from mockbroker.groups.streams.configured import ConfiguredTopology, configure
from mockbroker.groups.streams.declaration import STREAMS
from mockbroker.groups.streams.endpoints import partitions_by_endpoint
from mockbroker.groups.streams.group_settings import StreamsGroupSettings, group_settings
from mockbroker.groups.streams.reconcile import ReconciliationInput, reconciled_member
from mockbroker.groups.streams.state import (
    INITIAL_REBALANCE_TIMER,
    JOIN_EPOCH,
    NOT_VALIDATED,
    Endpoint,
    MemberState,
    StreamsGroup,
    StreamsMember,
    rebalance_timer,
)
from mockbroker.groups.streams.status import Status
from mockbroker.groups.streams.target import NO_TASKS_YET, compute_target
from mockbroker.groups.streams.tasks import by_subtopology, task_ids
from mockbroker.groups.streams.topology import Topology, topology_of_request

Response = StreamsGroupHeartbeatResponse
NAMED_ERRORS = 3  # topics that could not be created that a status names
DELAYED = "Assignment delayed due to the configured initial rebalance delay."


def heartbeat_error(ticket: Ticket, refused: Refused) -> Reply:
    """Return the error response to a heartbeat, without member id and epoch.

    Args:
        ticket: Ticket of the request, with which its response is sent.
        refused: The error.
    """
    return Reply(ticket, Response(error_code=refused.error, error_message=refused.message))


def check_may_create(group_id: str, other: CoordinatedGroup | None, event: StreamsHeartbeat) -> None:
    """Check that a heartbeat may create a streams group.

    The member must join (member epoch 0). If ``other`` exists, it must be empty, and its type must allow the
    replacement by a streams group (``is_replaced_by``).

    Args:
        group_id: Group id.
        other: The group of another type with this id; None if no group exists.
        event: The heartbeat.

    Raises:
        Refused: The heartbeat may not create the group.
    """
    if other is not None and not (event.epoch == JOIN_EPOCH and other.is_replaced_by(STREAMS)):
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
    if event.epoch != JOIN_EPOCH:
        kind = "Group" if event.epoch < JOIN_EPOCH else "Streams group"
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")


# --- heartbeats ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Update:
    """The changes that a valid heartbeat makes to a group, before they are applied.

    Attributes:
        before: The member before the heartbeat.
        after: The member after the heartbeat.
        topology: Topology of the group.
        configured: The topology, configured for the topics that exist.
        metadata_hash: Hash of the metadata of the topology's topics.
        validated: Epoch of the topology if tasks can be assigned, else -1.
    """

    before: StreamsMember
    after: StreamsMember
    topology: Topology
    configured: ConfiguredTopology
    metadata_hash: int
    validated: int


def heartbeat(
    group: StreamsGroup, event: StreamsHeartbeat, context: Context, now: float, *, is_new: bool = False
) -> Effects:
    """Handle a heartbeat with epoch 0 or more: add or update the member, and reconcile it.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        event: the heartbeat.
        context: data and functions shared by all groups.
        now: the current time in seconds.
        is_new: whether the heartbeat creates the group.

    Raises:
        Refused: The heartbeat is not valid.
    """
    settings = group_settings(group.group_id, context)
    update = _update(group, event, context, now)
    stale = _stale_status(group, update.after)
    was_empty, joins = group.empty, update.after.member_id not in group.members
    effects = _apply(group, update, settings, context, now)
    if was_empty and settings.initial_rebalance_delay > 0 and INITIAL_REBALANCE_TIMER not in group.timers:
        group.timers.set(INITIAL_REBALANCE_TIMER, now + settings.initial_rebalance_delay)
    target_epoch, target, delayed, target_effects = _target(group, update, settings, joins=joins)
    member, reconcile_effects = _reconcile(group, event, target_epoch, target, now)
    group.timers.set(session_timer(member.member_id), now + settings.session_timeout)
    if event.shutdown_application and not group.shutdown_by:
        group.shutdown_by = member.member_id
    response = _response(group, event, update, member, context, is_new=is_new)
    response.heartbeat_interval_ms = settings.heartbeat_interval_ms
    topics = _topic_status(update.configured, settings, context, now, event.may_create)
    response.status = [*stale, *delayed, *topics, *_shutdown_status(group)]
    if is_new:  # as in Kafka, where the new group is built from its records, without what is in memory only
        group.configured, group.endpoint_epoch, group.shutdown_by = None, 0, ""
    return [*effects, *target_effects, *reconcile_effects, Reply(event.ticket, response)]


def _update(group: StreamsGroup, event: StreamsHeartbeat, context: Context, now: float) -> _Update:
    """Validate a heartbeat and return its changes, which are not applied yet.

    Args:
        group: The group.
        event: The heartbeat.
        context: Data and functions shared by all groups.
        now: The current time in seconds.

    Raises: Refused if the heartbeat is not valid.
    """
    joins = event.epoch == JOIN_EPOCH
    if joins:
        check_size(group, context.settings.group_streams_max_size)  # as in Kafka, a member that rejoins is rejected too
    before = group.members.get(event.member_id)
    if before is None:
        before = StreamsMember(member_id=event.member_id) if joins else get_member(group, event.member_id)
    _check_epoch(before, event)
    after = _updated_member(before, event)
    topology = _updated_topology(group, event)
    configured, metadata_hash = _configured(group, topology, context, now)
    if configured.is_ready and event.owned_tasks is not None:
        _check_tasks(event.owned_tasks, configured)
    _check_endpoints(group, after, event, configured)
    validated = topology.epoch if configured.is_ready else NOT_VALIDATED
    return _Update(before, after, topology, configured, metadata_hash, validated)


def get_member(group: StreamsGroup, member_id: str) -> StreamsMember:
    """Return the member with a given member id. Raises: Refused if the group has no such member."""
    return find_member(group.members, group.group_id, member_id)


def _check_epoch(member: StreamsMember, event: StreamsHeartbeat) -> None:
    """Check the member epoch of a heartbeat.

    Epoch 0 and the current epoch are valid. The previous epoch is valid if the member reports its owned tasks, and all
    reported tasks are assigned to the member. Such a report shows that the member did not receive the last response.

    Raises:
        Refused: The epoch is not valid.
    """
    if event.epoch in (JOIN_EPOCH, member.epoch):
        return
    is_previous = event.epoch == member.previous_epoch < member.epoch
    if is_previous and event.owned_tasks is not None and member.assigned.contains(event.owned_tasks):
        return
    raise fenced_epoch(STREAMS, event.epoch, member.epoch)


def _updated_member(member: StreamsMember, event: StreamsHeartbeat) -> StreamsMember:
    return replace(
        member,
        rack_id=member.rack_id if event.rack_id is None else event.rack_id,
        rebalance_timeout=member.rebalance_timeout if event.rebalance_timeout is None else event.rebalance_timeout,
        topology_epoch=member.topology_epoch if event.topology is None else event.topology.epoch,
        client_id=event.client_id,
        client_host=event.client_host,
        process_id=member.process_id if event.process_id is None else event.process_id,
        client_tags=member.client_tags if event.client_tags is None else event.client_tags,
        endpoint=member.endpoint if event.endpoint is None else Endpoint(*event.endpoint),
    )


def _updated_topology(group: StreamsGroup, event: StreamsHeartbeat) -> Topology:
    """Return the topology of the group after a heartbeat.

    The topology of the first member becomes the group's topology. A topology with an older epoch is ignored.

    Raises: Refused if the topology in the heartbeat is not valid, or if it differs from the group's topology and does
        not have an older epoch.
    """
    known = group.topology
    if event.topology is None:
        assert known is not None
        return known
    try:
        sent = topology_of_request(event.topology)
    except ValueError as error:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None) from error
    if known is None:
        return sent
    if known.epoch <= sent.epoch and known != sent:
        raise Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _configured(
    group: StreamsGroup, topology: Topology, context: Context, now: float
) -> tuple[ConfiguredTopology, int]:
    """Return the topology, configured for the existing topics, and the hash of the metadata of its topics.

    The stored result is returned unless the cluster metadata has changed, or the time ``metadata_refresh_at`` is
    reached.

    ``now``: the current time in seconds.

    Raises: Refused if the topology is not valid.
    """
    known, cluster = group.configured, context.cluster
    if known is not None and group.metadata_version == cluster.epoch and now < group.metadata_refresh_at:
        return known, group.metadata_hash
    metadata_hash = group.read_metadata(topology, cluster)
    if known is None or metadata_hash != group.metadata_hash:
        known = configure(topology, cluster)
    return known, metadata_hash


def _check_tasks(owned: Tasks, configured: ConfiguredTopology) -> None:
    """Check that the tasks that a member reports as owned exist in the configured topology.

    Args:
        owned: Active, standby and warm-up tasks that the member reports.
        configured: The configured topology.

    Raises: Refused if a task does not exist.
    """
    assert configured.subtopologies is not None
    for tasks in owned:
        for name, number in sorted(tasks):
            subtopology = configured.subtopologies.get(name)
            if subtopology is None:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Subtopology {name} does not exist in the topology.")
            if not 0 <= number < subtopology.task_count:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"Task {number} for subtopology {name} is invalid. Number of tasks for this subtopology: "
                    f"{subtopology.task_count}",
                )


def _check_endpoints(
    group: StreamsGroup, member: StreamsMember, event: StreamsHeartbeat, configured: ConfiguredTopology
) -> None:
    """Reject a heartbeat if source topics are missing and the response would have to contain endpoint information.

    Kafka 4.2 fails in this case, because it cannot compute the endpoint information without the source topics.

    Args:
        group: The group.
        member: The member that sent the heartbeat.
        event: The heartbeat.
        configured: The configured topology.

    Raises: Refused (UNKNOWN_SERVER_ERROR) if the heartbeat is rejected.
    """
    if configured.subtopologies is not None or not (group.with_endpoint or member.endpoint):
        return
    is_bumped = event.epoch == JOIN_EPOCH and member.endpoint is not None
    if group.endpoint_epoch + is_bumped != event.endpoint_epoch:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _apply(
    group: StreamsGroup, update: _Update, settings: StreamsGroupSettings, context: Context, now: float
) -> Effects:
    """Apply the changes of a heartbeat to the group, and start a new epoch if necessary.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        update: the changes.
        settings: the settings of the group.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    effects: Effects = []
    reason = _epoch_bump_reason(group, update, settings)
    if update.after.member_id not in group.members:
        effects.append(note(group, EventKind.JOIN, update.after))
    if update.after != update.before or update.after.member_id not in group.members:
        group.put_member(update.after)
    if group.topology is None:
        group.topology = update.topology
    group.configured = update.configured
    group.metadata_version, group.metadata_refresh_at = context.cluster.epoch, now + METADATA_REFRESH_INTERVAL
    if reason:
        group.metadata_hash = update.metadata_hash
        group.validated_topology_epoch = update.validated
        group.assignment_configs = settings.assignment_configs
        effects.append(group.bump_epoch(reason))
    return effects


def _epoch_bump_reason(group: StreamsGroup, update: _Update, settings: StreamsGroupSettings) -> str:
    """Return the reason why a heartbeat starts a new epoch, or "" if the heartbeat starts no epoch.

    Args:
        group: The group.
        update: The changes that the heartbeat makes.
        settings: The settings of the group.
    """
    member_id = update.after.member_id
    if member_id not in group.members:
        return f"{member_id} joined"
    if update.after != update.before:
        return f"{member_id} changed"
    if update.metadata_hash != group.metadata_hash:
        return "topics of the topology changed"
    if update.validated != group.validated_topology_epoch:
        return "topology validated" if update.configured.is_ready else "topology not valid any more"
    if settings.assignment_configs != group.assignment_configs:
        return "settings of the assignor changed"
    return ""


def _target(
    group: StreamsGroup, update: _Update, settings: StreamsGroupSettings, *, joins: bool
) -> tuple[int, Tasks, list[Response.Status], Effects]:
    """Return the target assignment of the member that sent a heartbeat.

    Compute the target assignment first if it is outdated.

    During the initial rebalance delay, the member has no tasks.

    Args:
        group: The group.
        update: The changes that the heartbeat makes.
        settings: The settings of the group.
        joins: Whether the member joins with this heartbeat.

    Returns:
        The epoch of the target assignment, the tasks of the member, the statuses for the response, and the effects.
    """
    member_id = update.after.member_id
    if group.epoch <= group.assignment_epoch:
        return group.assignment_epoch, group.target.get(member_id, NO_TASKS_YET), [], []
    if INITIAL_REBALANCE_TIMER in group.timers:
        return max(1, group.assignment_epoch), NO_TASKS_YET, [_status(Status.ASSIGNMENT_DELAYED, DELAYED)], []
    computed = compute_target(
        group, update.configured, settings.assignment_configs, joined=member_id if joins else None
    )
    return group.epoch, group.target[member_id], [], [computed]


def _reconcile(
    group: StreamsGroup, event: StreamsHeartbeat, target_epoch: int, target: Tasks, now: float
) -> tuple[StreamsMember, Effects]:
    """Execute the next reconciliation step of a member: bring its assignment closer to its target assignment.

    If the member has to revoke tasks, its rebalance timeout starts; else the timeout is cancelled.

    Args:
        group: The group.
        event: The heartbeat of the member.
        target_epoch: Epoch of the target assignment.
        target: Target assignment of the member.
        now: The current time in seconds.

    Returns: the updated member (the same object if no step is possible), and the effects.
    """
    member = group.members[event.member_id]
    if member.is_reconciled_to(target_epoch):
        return member, []
    inputs = ReconciliationInput(
        target_epoch=target_epoch, target=target, owners=group.owners, owned_tasks=event.owned_tasks
    )
    after = reconciled_member(member, inputs)
    if after == member:
        return member, []
    group.put_member(after)
    if after.state is MemberState.UNREVOKED_TASKS:
        group.timers.set(rebalance_timer(member.member_id), now + after.rebalance_timeout)
    else:
        group.timers.forget(rebalance_timer(member.member_id))
    if (after.assigned, after.epoch) == (member.assigned, member.epoch):
        return after, []
    return after, [replace(note(group, EventKind.ASSIGN, after), assignment=source_partitions(group, after))]


# --- responses ----------------------------------------------------------------------------------------------------


def _response(
    group: StreamsGroup,
    event: StreamsHeartbeat,
    update: _Update,
    member: StreamsMember,
    context: Context,
    *,
    is_new: bool,
) -> Response:
    """Return the response to a heartbeat.

    If the member joins or its tasks have changed, the response contains its tasks. If such a member has an endpoint for
    interactive queries, the endpoint epoch of the group is incremented.

    Args:
        group: The group.
        event: The heartbeat.
        update: The changes that the heartbeat makes.
        member: The member after its reconciliation step.
        context: Data and functions shared by all groups.
        is_new: Whether the heartbeat creates the group.

    Raises:
        Refused: The request gets an error response.
    """
    response = Response(member_id=member.member_id, member_epoch=member.epoch)
    if event.epoch == JOIN_EPOCH or member.assigned != update.before.assigned:
        response.active_tasks = task_ids(Response.TaskIds, member.assigned.active, in_map_order=True)
        response.standby_tasks = task_ids(Response.TaskIds, member.assigned.standby, in_map_order=True)
        response.warmup_tasks = task_ids(Response.TaskIds, member.assigned.warmup, in_map_order=True)
        if member.endpoint is not None:
            group.endpoint_epoch += 1
    if group.endpoint_epoch != event.endpoint_epoch:
        response.partitions_by_user_endpoint = partitions_by_endpoint(group, member, update.configured, context.cluster)
    if not is_new:
        response.endpoint_information_epoch = group.endpoint_epoch
    return response


def _status(status: Status, detail: str) -> Response.Status:
    return Response.Status(status_code=status, status_detail=detail)


def _stale_status(group: StreamsGroup, member: StreamsMember) -> list[Response.Status]:
    if group.topology is None or member.topology_epoch >= group.topology.epoch:
        return []
    detail = (
        f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
        f"{group.topology.epoch}."
    )
    return [_status(Status.STALE_TOPOLOGY, detail)]


def _topic_status(
    configured: ConfiguredTopology,
    settings: StreamsGroupSettings,
    context: Context,
    now: float,
    may_create: Callable[[str], bool] | None,
) -> list[Response.Status]:
    """Return the status of a topology whose topics are missing or wrong, and create missing internal topics.

    If the client may not create one of the topics, no topic is created. As in Kafka, the status does not depend on the
    result of the creation: it contains only errors of earlier attempts to create the topics.

    Args:
        configured: the configured topology.
        settings: the settings of the group.
        context: data and functions shared by all groups.
        now: the current time in seconds.
        may_create: function that returns whether the client may create a topic; None if the client may create all
            topics.

    Returns: a list with the status, or [] if the topology has no problem.
    """
    if configured.problem is None:
        return []
    status, detail = configured.problem
    missing = [topic.name for topic in configured.missing_topics]
    if denied := [name for name in missing if may_create is not None and not may_create(name)]:
        return [_status(status, f"{detail}; Unauthorized to CREATE on topics {', '.join(denied)}.")]
    error_ttl = 2 * settings.heartbeat_interval_ms / 1000
    errors = context.create_topics(configured.missing_topics, now, error_ttl) if configured.missing_topics else {}
    if errors:
        listed = [f"{name} ({error})" for name, error in errors.items()]
        more = f" and {len(listed) - NAMED_ERRORS} more" if len(listed) > NAMED_ERRORS else ""
        detail += f"; Creation failed: {', '.join(listed[:NAMED_ERRORS])}{more}."
    return [_status(status, detail)]


def _shutdown_status(group: StreamsGroup) -> list[Response.Status]:
    if not group.shutdown_by:
        return []
    detail = (
        f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the entire "
        "application."
    )
    return [_status(Status.SHUTDOWN_APPLICATION, detail)]


# --- leaving and timers -------------------------------------------------------------------------------------------


def leave(group: StreamsGroup, event: StreamsHeartbeat) -> GroupEffects:
    """Handle a heartbeat with a negative epoch: the member leaves.

    If the heartbeat requests the shutdown of the application, the request is stored, even if the member is unknown.

    Return the effects: responses, journal events, and new groups to register.

    Args:
        group: the group.
        event: the heartbeat.

    Raises: Refused if the member is unknown.
    """
    if event.shutdown_application and not group.shutdown_by:
        group.shutdown_by = event.member_id
    member = get_member(group, event.member_id)
    response = Response(member_id=event.member_id, member_epoch=event.epoch)
    return [*fence(group, member, EventKind.LEAVE, "left"), Reply(event.ticket, response)]


def fence(group: StreamsGroup, member: StreamsMember, event: EventKind, reason: str) -> GroupEffects:
    """Remove a member, release its tasks, and start a new epoch.

    Return the effects: responses, journal events, and new groups to register.

    The next heartbeat computes the target assignment.

    Args:
        group: the group.
        member: the member to remove.
        event: the kind of event for the journal.
        reason: reason of the removal, for the journal.
    """
    effects: list[Note] = [note(group, event, member, reason)]
    group.timers.forget(session_timer(member.member_id))
    group.timers.forget(rebalance_timer(member.member_id))
    group.remove_member(member)
    effects.append(group.bump_epoch(f"{reason}: {member.member_id}"))
    if group.empty:
        effects.append(Note(event=EventKind.EMPTY, group=group.group_id, generation=group.epoch))
    return effects


EXPIRY_REASONS: Mapping[str, str] = {
    "session": "no heartbeat within the session timeout",
    "rebalance": "tasks were not revoked within the rebalance timeout",
}


def tick(group: StreamsGroup, now: float) -> GroupEffects:
    """Handle the due timers. Afterwards no deadline is due.

    Return the effects: responses, journal events, and new groups to register.

    Args:
        group: the group.
        now: the current time in seconds.
    """
    effects: list[Effect | RegisterGroup] = []
    while timer := group.timers.pop_due(now):
        kind, member_id = timer
        if timer == INITIAL_REBALANCE_TIMER:
            if group.members and group.configured is not None and group.epoch > group.assignment_epoch:
                effects.append(compute_target(group, group.configured, group.assignment_configs))
        elif member_id in group.members:
            effects += fence(group, group.members[member_id], EventKind.EXPIRE, EXPIRY_REASONS[kind])
    return effects


# --- events -------------------------------------------------------------------------------------------------------


def note(group: StreamsGroup, event: EventKind, member: StreamsMember, reason: str = "") -> Note:
    """Return a journal event about a member. The field ``generation`` of the event contains the member epoch.

    ``reason``: why the event happened; "" without a reason.
    """
    return member_note(group, event, member, reason, generation=member.epoch)


def source_partitions(group: StreamsGroup, member: StreamsMember) -> dict[str, list[int]]:
    """Return the partitions that the active tasks of a member read: topic name -> partition indexes.

    The topics are source and repartition topics. The result is {} before the group has a topology.
    """
    if group.topology is None:
        return {}
    names: dict[str, list[str]] = {}
    for topic, name in group.topology.subtopology_of.items():
        names.setdefault(name, []).append(topic)
    tasks = by_subtopology(member.assigned.active)
    return {topic: list(numbers) for name, numbers in tasks.items() for topic in names.get(name, ())}
