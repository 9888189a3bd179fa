"""The state machine of a share group (KIP-932): heartbeats, leaving and timers.

Each heartbeat gets its response immediately. A member adopts its target assignment in one step, because a partition may
be assigned to several members. Times are in seconds. Source: Kafka's GroupMetadataManager.shareGroupHeartbeat (4.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kwire import ErrorCode
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from mockbroker.base.effects import Effects, Note, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.coordinated import member_note, session_timer
from mockbroker.groups.events import ShareHeartbeat
from mockbroker.groups.group_type import Context, Refused
from mockbroker.groups.modern_group import check_size, find_member
from mockbroker.groups.partition_sets import METADATA_REFRESH_INTERVAL, PartitionSet, by_topic_id, by_topic_name
from mockbroker.groups.share import initialization
from mockbroker.groups.share.state import INITIALIZE_TIMER, JOIN_EPOCH, ShareGroup, ShareMember
from mockbroker.groups.share.target import compute_target, topic_ids

Assignment = ShareGroupHeartbeatResponse.Assignment


def heartbeat_error(ticket: Ticket, refused: Refused) -> Reply:
    """Return the error response to a heartbeat, without member id and epoch.

    Args:
        ticket: Ticket of the request, with which its response is sent.
        refused: The error.
    """
    return Reply(ticket, ShareGroupHeartbeatResponse(error_code=refused.error, error_message=refused.message))


# --- heartbeats ---------------------------------------------------------------------------------------------------


def heartbeat(group: ShareGroup, event: ShareHeartbeat, context: Context, now: float) -> Effects:
    """Handle a heartbeat with epoch 0 or more: add or update the member, and assign partitions.

    The initialization of newly subscribed partitions is scheduled.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        event: the heartbeat.
        context: data and functions shared by all groups.
        now: the current time in seconds.

    Raises: Refused if the heartbeat gets an error response.
    """
    check_size(group, context.settings.group_share_max_size, event.member_id)
    before = _get_or_create_member(group, event)
    is_new = before.member_id not in group.members
    after = replace(
        before,
        rack_id=event.rack_id if event.rack_id is not None else before.rack_id,
        topics=event.topics if event.topics is not None else before.topics,
        client_id=event.client_id,
        client_host=event.client_host,
    )
    effects: Effects = []
    if is_new or after != before:
        group.put_member(after)
    if is_new:
        effects.append(_note(group, EventKind.JOIN, after))
    reason = _epoch_bump_reason(group, before, after, context, now)
    if reason:
        effects.append(group.bump_epoch(reason))
    if group.epoch > group.assignment_epoch:
        effects.append(compute_target(group, context.cluster))
    updated = _reconciled(group, after, context, forced=bool(reason))
    if updated != after:
        group.put_member(updated)
        effects.append(_assign_note(group, updated, context))
    group.timers.set(session_timer(updated.member_id), now + session_timeout(group.group_id, context))
    initialization.begin(group, context, now)
    response = ShareGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=context.group_milliseconds(group.group_id, "share.heartbeat.interval.ms"),
    )
    if event.is_full_request or updated.assigned != before.assigned:
        response.assignment = Assignment(topic_partitions=_topic_partitions(updated.assigned))
    return [*effects, Reply(event.ticket, response)]


def session_timeout(group_id: str, context: Context) -> float:
    """Return the session timeout of the members of a group, in seconds.

    Args:
        group_id: The group id.
        context: Data and functions shared by all groups.
    """
    return context.group_milliseconds(group_id, "share.session.timeout.ms") / 1000


def get_member(group: ShareGroup, member_id: str) -> ShareMember:
    """Return the member with a given member id. Raises: Refused if the group has no such member."""
    return find_member(group.members, group.group_id, member_id)


def _get_or_create_member(group: ShareGroup, event: ShareHeartbeat) -> ShareMember:
    """Return the member that sent a heartbeat: a member of the group, or a new member if an unknown member id joins.

    Raises: Refused if a member that is not in the group does not join, or if the member epoch is not valid.
    """
    if event.epoch == JOIN_EPOCH:
        return group.members.get(event.member_id) or ShareMember(member_id=event.member_id)
    member = get_member(group, event.member_id)
    _check_epoch(member, event.epoch)
    return member


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Check the member epoch of a heartbeat.

    The previous epoch of the member is valid too: the client may have lost the response that contained the current
    epoch.

    Args:
        member: The member.
        epoch: Member epoch in the heartbeat.

    Raises:
        Refused: The epoch is neither the current nor the previous one.
    """
    if epoch > member.epoch:
        text = f"greater member epoch ({epoch}) than the one known by the group coordinator ({member.epoch})"
    elif epoch in (member.epoch, member.previous_epoch):
        return
    else:
        text = (
            f"smaller member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}), and it does"
            f" not match the previous member epoch ({member.previous_epoch})"
        )
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {text}. The member must abandon all its partitions and rejoin.",
    )


def _epoch_bump_reason(group: ShareGroup, before: ShareMember, after: ShareMember, context: Context, now: float) -> str:
    """Return the reason why a heartbeat starts a new epoch, or "" if the heartbeat starts no epoch.

    Args:
        group: The group.
        before: The member before the heartbeat.
        after: The member after the heartbeat.
        context: Data and functions shared by all groups.
        now: The current time in seconds.
    """
    reason = ""
    if before.topics != after.topics:
        reason = f"{after.member_id} {'subscribes to other topics' if before.topics else 'joined'}"
    elif initialization.is_assignment_pending(group):
        reason = "share partitions were initialized"
    is_outdated = group.metadata_version != context.cluster.epoch or now >= group.metadata_refresh_at
    if (reason or is_outdated) and group.refresh_metadata(context.cluster, now, METADATA_REFRESH_INTERVAL):
        reason = reason or "subscribed topics changed"
    return reason


def _reconciled(group: ShareGroup, member: ShareMember, context: Context, *, forced: bool) -> ShareMember:
    """Return the member with its target assignment, limited to the topics to which the member subscribes.

    Args:
        group: The group.
        member: The member.
        context: Data and functions shared by all groups.
        forced: True to update the assignment even if the member already has the epoch of the target assignment.

    Source: Kafka's ShareGroupAssignmentBuilder.
    """
    if member.epoch == group.assignment_epoch and not forced:
        return member
    subscribed = set(topic_ids(member.topics, context.cluster))
    target = group.target.get(member.member_id, {})
    assigned = frozenset(
        (topic_id, index) for topic_id, indexes in target.items() if topic_id in subscribed for index in indexes
    )
    if member.epoch == group.assignment_epoch:
        return replace(member, assigned=assigned)
    return replace(member, assigned=assigned, epoch=group.assignment_epoch, previous_epoch=member.epoch)


# --- leaving ------------------------------------------------------------------------------------------------------


def leave(group: ShareGroup, event: ShareHeartbeat, context: Context, now: float) -> Effects:
    """Handle a heartbeat with epoch -1: the member leaves.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        event: the heartbeat.
        context: data and functions shared by all groups.
        now: the current time in seconds.

    Raises: Refused if the member is unknown.
    """
    member = get_member(group, event.member_id)
    response = ShareGroupHeartbeatResponse(member_id=member.member_id, member_epoch=event.epoch)
    effects = fence(group, [member], EventKind.LEAVE, "left", context, now)
    return [*effects, Reply(event.ticket, response)]


def fence(
    group: ShareGroup, members: Iterable[ShareMember], event: EventKind, reason: str, context: Context, now: float
) -> Effects:
    """Remove members, start a new epoch, and return the effects: responses and journal events.

    The next heartbeat computes the target assignment.

    Args:
        group: the group.
        members: the members to remove.
        event: the kind of event for the journal.
        reason: reason of the removal, for the journal.
        context: data and functions shared by all groups.
        now: the broker's time in seconds.
    """
    removed = list(members)
    effects: Effects = [_note(group, event, member, reason) for member in removed]
    for member in removed:
        group.timers.forget(session_timer(member.member_id))
        group.remove_member(member)
    group.refresh_metadata(context.cluster, now, METADATA_REFRESH_INTERVAL)
    effects.append(group.bump_epoch(f"{reason}: {', '.join(member.member_id for member in removed)}"))
    if group.empty:
        effects.append(Note(event=EventKind.EMPTY, group=group.group_id, generation=group.epoch))
    return effects


# --- timers -------------------------------------------------------------------------------------------------------


def tick(group: ShareGroup, context: Context, now: float) -> Effects:
    """Handle the due timers, and return the effects: responses and journal events.

    Afterwards the next deadline is later than ``now``, unless more partitions have to be initialized.

    Args:
        group: the group.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    effects: Effects = []
    while timer := group.timers.pop_due(now):
        if timer == INITIALIZE_TIMER:
            initialization.finish(group, context, now)
            if INITIALIZE_TIMER in group.timers:
                break
        elif timer[1] in group.members:
            reason = "no heartbeat within the session timeout"
            effects += fence(group, [group.members[timer[1]]], EventKind.EXPIRE, reason, context, now)
    return effects


# --- events and assignments ---------------------------------------------------------------------------------------


def _note(group: ShareGroup, event: EventKind, member: ShareMember, reason: str = "") -> Note:
    return member_note(group, event, member, reason, generation=member.epoch)


def _assign_note(group: ShareGroup, member: ShareMember, context: Context) -> Note:
    note = _note(group, EventKind.ASSIGN, member)
    return replace(note, assignment=by_topic_name(member.assigned, context.cluster))


def _topic_partitions(partition_set: PartitionSet) -> list[Assignment.TopicPartition]:
    element = Assignment.TopicPartition
    return [
        element(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic_id(partition_set).items()
    ]
