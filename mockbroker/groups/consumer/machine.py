"""The state machine of a consumer group (KIP-848): heartbeats, leaving and timers.

Each heartbeat is answered immediately, with the next step of the member's reconciliation. Times are in seconds. Source:
Kafka's GroupMetadataManager (4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum, auto
from types import MappingProxyType

from kwire import ErrorCode
from kwire.json.objects import uuid_text
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from mockbroker.base.effects import Effect, Effects, Note, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.consumer import regex
from mockbroker.groups.consumer.declaration import CONSUMER
from mockbroker.groups.consumer.reconcile import ReconciliationInput, reconciled_member
from mockbroker.groups.consumer.regex import TopicMatches
from mockbroker.groups.consumer.state import (
    JOIN_EPOCH,
    REGEX_TIMER,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
    join_timer,
    rebalance_timer,
    sync_timer,
)
from mockbroker.groups.consumer.target import compute_target
from mockbroker.groups.coordinated import CoordinatedGroup, GroupEffects, RegisterGroup, member_note, session_timer
from mockbroker.groups.events import ConsumerHeartbeat
from mockbroker.groups.group_type import Context, Refused
from mockbroker.groups.modern_group import check_size, fenced_epoch, find_member
from mockbroker.groups.partition_sets import (
    METADATA_REFRESH_INTERVAL,
    NO_PARTITIONS,
    PartitionSet,
    by_topic_id,
    by_topic_name,
)

REGEX_SLICE = 2_000  # topics that are matched with a regular expression before other requests are served
REGEX_REFRESH_MIN_INTERVAL = 10.0  # minimum seconds between two resolutions of the regular expressions of a group
NO_MEMBER_REASONS: Mapping[str, str] = MappingProxyType({})
Assignment = ConsumerGroupHeartbeatResponse.Assignment


def heartbeat_error(ticket: Ticket, refused: Refused) -> Reply:
    """Return the error response to a heartbeat, without member id and epoch.

    Args:
        ticket: Ticket of the request.
        refused: The error.
    """
    return Reply(ticket, ConsumerGroupHeartbeatResponse(error_code=refused.error, error_message=refused.message))


class RegexUpdate(Enum):
    """The change that a heartbeat makes to the regular expression of a member.

    Source: Kafka's UpdateRegularExpressionsResult.

    Attributes:
        NO_CHANGE: the regular expression is the same as before.
        UPDATED: the member has a new regular expression, whose topics are not known yet.
        UPDATED_AND_RESOLVED: the member has a new regular expression whose topics are known, or no longer has one.
    """

    NO_CHANGE = auto()
    UPDATED = auto()
    UPDATED_AND_RESOLVED = auto()  # the topics that match the new regular expression are already known


def check_may_create(group_id: str, other: CoordinatedGroup | None, event: ConsumerHeartbeat) -> None:
    """Check that a heartbeat may create a group: the member joins, so its member epoch is 0.

    Args:
        group_id: The group id.
        other: The group of another type with this id; None if no group exists. It only affects the error message.
        event: The heartbeat.

    Raises:
        Refused: The member epoch is not 0.
    """
    if event.epoch == JOIN_EPOCH:
        return
    message = f"Consumer group {group_id} not found."
    if other is not None or event.epoch < JOIN_EPOCH:
        message = f"Group {group_id} not found." if other is None else f"Group {group_id} is not a consumer group."
    raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)


def with_member_id(event: ConsumerHeartbeat, context: Context) -> ConsumerHeartbeat:
    """Return a heartbeat that has a member id.

    If the client has sent no member id (v0) and does not leave, the result has a new member id. Else it is ``event``.

    Args:
        event: The heartbeat.
        context: Data and functions shared by all groups.
    """
    if event.member_id or event.epoch < 0:
        return event
    return replace(event, member_id=uuid_text(context.new_uuid()))


# --- heartbeats ---------------------------------------------------------------------------------------------------


def heartbeat(group: ConsumerGroup, event: ConsumerHeartbeat, context: Context, now: float) -> Effects:
    """Handle a heartbeat with epoch 0 or more: add or update the member, and reconcile it.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        event: the heartbeat.
        context: data and functions shared by all groups.
        now: the current time in seconds.

    Raises: Refused if the request gets an error response.
    """
    check_not_full(group, event.member_id, context)
    old, before = _get_or_create_member(group, event)
    after = replace(
        before,
        instance_id=event.instance_id if event.instance_id is not None else before.instance_id,
        rack_id=event.rack_id if event.rack_id is not None else before.rack_id,
        rebalance_timeout=before.rebalance_timeout if event.rebalance_timeout is None else event.rebalance_timeout,
        assignor=event.assignor if event.assignor is not None else before.assignor,
        topics=event.topics if event.topics is not None else before.topics,
        regex=event.regex if event.regex is not None else before.regex,
        client_id=event.client_id,
        client_host=event.client_host,
        classic=None,
    )
    effects: Effects = []
    if (
        after != before
        or old is not before
        or group.epoch > group.assignment_epoch
        or _needs_refresh(group, context, now)
    ):
        effects += update_member(group, old, before, after, event.may_describe, context, now)
    updated, reconcile_effects = reconcile(
        group, after.member_id, event.owned_partitions, context, now, changed=_has_changed_subscription(before, after)
    )
    session_timeout = context.group_milliseconds(group.group_id, "consumer.session.timeout.ms") / 1000
    group.timers.set(session_timer(updated.member_id), now + session_timeout)
    response = ConsumerGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=context.group_milliseconds(group.group_id, "consumer.heartbeat.interval.ms"),
    )
    if event.is_full_request or updated.assigned != before.assigned:
        response.assignment = Assignment(topic_partitions=_topic_partitions(updated.assigned))
    return [*effects, *reconcile_effects, Reply(event.ticket, response)]


def check_not_full(group: ConsumerGroup, member_id: str, context: Context) -> None:
    """Check that the group is not full. A member that already belongs to the group may always send a heartbeat.

    Args:
        group: The group.
        member_id: Member id of the sender.
        context: Data and functions shared by all groups.

    Raises: Refused if the group is full.
    """
    check_size(group, context.settings.group_consumer_max_size, member_id)


def get_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Return the member with this member id. Raises: Refused if the group has no such member."""
    return find_member(group.members, group.group_id, member_id)


def get_static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """Return the static member with a given instance id and member id.

    Args:
        group: The group.
        instance_id: Instance id in the request.
        member_id: Member id in the request.

    Raises: Refused if the instance id is unknown, or if the member with this instance id has another member id.
    """
    member = member_of_instance(group, instance_id)
    if member_id != member.member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def member_of_instance(group: ConsumerGroup, instance_id: str) -> ConsumerMember:
    """Return the static member with a given instance id.

    Raises:
        Refused: The instance id is unknown, or it is a former instance id of a member that was removed.
    """
    member_id = group.static_members.get(instance_id)
    if member_id is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return get_member(group, member_id)


def _get_or_create_member(
    group: ConsumerGroup, event: ConsumerHeartbeat
) -> tuple[ConsumerMember | None, ConsumerMember]:
    """Return two members: the member in the group that the heartbeat replaces, and the member before the heartbeat.

    The first is None if a new member joins. If a static member returns with a new member id, the first has the old
    member id, and the second already has the new one.

    Args:
        group: The group.
        event: The heartbeat.

    Raises: Refused if the request gets an error response.
    """
    joins = event.epoch == JOIN_EPOCH
    if event.instance_id is None:
        existing = group.members.get(event.member_id)
        if existing is None and joins:
            return None, ConsumerMember(member_id=event.member_id)
        member = get_member(group, event.member_id)
    elif joins:
        return join_static(group, event.member_id, event.instance_id, uses_classic_protocol=False)
    else:
        member = get_static_member(group, event.instance_id, event.member_id)
    _check_epoch(member, event)
    return member, member


def join_static(
    group: ConsumerGroup, member_id: str, instance_id: str, *, uses_classic_protocol: bool
) -> tuple[ConsumerMember | None, ConsumerMember]:
    """Return the predecessor and the initial state of a static member that joins.

    The predecessor is the member with the same instance id. If no member has the instance id, the predecessor is the
    member with the same member id.

    Args:
        group: the group.
        member_id: member id of the joining member.
        instance_id: instance id of the joining member.
        uses_classic_protocol: whether the joining member uses the classic protocol.

    Returns:
        The predecessor, which the joining member replaces; None if no member has the instance id or the member id. Then
        the joining member before its request is applied: a copy of the predecessor, or a member without subscription
        and partitions.

    Raises:
        Refused: The instance id belongs to a member of the consumer protocol that has not left, and the joining member
            uses the consumer protocol too.
    """
    if instance_id not in group.static_members:
        existing = group.members.get(member_id)
        return existing, existing or ConsumerMember(member_id=member_id)
    old = member_of_instance(group, instance_id)
    if not uses_classic_protocol and old.classic is None and old.epoch != STATIC_LEAVE_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
            f" owned by {old.member_id} member.",
        )
    return old, replace(old, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)


def _check_epoch(member: ConsumerMember, event: ConsumerHeartbeat) -> None:
    """Check the member epoch of a heartbeat.

    Epoch 0 and the current epoch are valid. The previous epoch is valid if the member reports its owned partitions, and
    all reported partitions are assigned to the member. Such a report shows that the member did not receive the last
    response.

    Raises:
        Refused: The epoch is not valid.
    """
    if event.epoch in (JOIN_EPOCH, member.epoch):
        return
    is_previous = event.epoch == member.previous_epoch < member.epoch
    if is_previous and event.owned_partitions is not None and event.owned_partitions <= member.assigned:
        return
    raise fenced_epoch(CONSUMER, event.epoch, member.epoch)


def _needs_refresh(group: ConsumerGroup, context: Context, now: float) -> bool:
    """Return whether subscribed topics may have changed, or regular expressions have to be resolved.

    Args:
        group: The group.
        context: Data and functions shared by all groups.
        now: The current time in seconds.
    """
    return (
        group.metadata_version != context.cluster.epoch
        or now >= group.metadata_refresh_at
        or (bool(group.subscribed_regexes) and _should_resolve_regexes(group, group.resolved_regexes, context, now))
    )


def _has_changed_subscription(before: ConsumerMember, after: ConsumerMember) -> bool:
    return before.topics != after.topics or before.regex != after.regex


def update_member(
    group: ConsumerGroup,
    old: ConsumerMember | None,
    before: ConsumerMember,
    after: ConsumerMember,
    may_describe: Callable[[str], bool] | None,
    context: Context,
    now: float,
) -> Effects:
    """Add or replace a member. If necessary, start a new epoch and compute a new target assignment.

    If regular expressions have to be resolved, the timer for the resolution is due immediately.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        old: the member that is replaced; None for a new member.
        before: state of the member before the request.
        after: state of the member after the request.
        may_describe: function that returns whether the client may describe a topic; None without an authorizer.
        context: data and functions shared by all groups.
        now: the current time in seconds.

    Raises:
        Refused: The regular expression is not valid; nothing has changed.
    """
    regex_update = _update_regex(group, before, after)
    resolved, homogeneous = dict(group.resolved_regexes), group.homogeneous
    effects = add_or_replace_member(group, old, after)
    if group.subscribed_regexes and _should_resolve_regexes(group, resolved, context, now):
        group.timers.set(REGEX_TIMER, now)
        group.may_describe = may_describe
    return effects + _update_target(
        group, context, now, _epoch_bump_reason(group, old, before, after, regex_update), homogeneous=homogeneous
    )


def add_or_replace_member(group: ConsumerGroup, old: ConsumerMember | None, member: ConsumerMember) -> Effects:
    """Add or replace a member.

    Return the journal event if a new member has joined or a static member has returned, else [].

    Args:
        group: The group.
        old: The replaced member; None for a new member.
        member: The member after the request.
    """
    if old is None:
        group.put_member(member)
        return [note(group, EventKind.JOIN, member)]
    if old.member_id == member.member_id:
        group.put_member(member)
        return []
    cancel_timers(group, old)
    group.replace_static_member(old, member)
    reason = f"static member {member.instance_id} rejoined, {old.member_id} is replaced"
    return [note(group, EventKind.REJOIN, member, reason)]


def _update_target(group: ConsumerGroup, context: Context, now: float, reason: str, *, homogeneous: bool) -> Effects:
    """Start a new group epoch and compute the target assignment, if necessary.

    Return the effects: responses and journal events.

    A new epoch starts if ``reason`` is not empty or if the metadata of subscribed topics has changed. The target
    assignment is computed if it belongs to an older epoch than the group epoch.

    Args:
        group: the group.
        context: data and functions shared by all groups.
        now: the current time in seconds.
        reason: reason for a new epoch; "" to start one only if the metadata of subscribed topics has changed.
        homogeneous: whether all members had the same subscription before the request. Kafka uses this value if the
            request starts no epoch, but the target assignment is outdated. So a member that joins without topics may
            cause an empty target assignment for all members.
    """
    effects: Effects = []
    if reason or group.metadata_version != context.cluster.epoch or now >= group.metadata_refresh_at:
        if group.refresh_metadata(context.cluster, now, METADATA_REFRESH_INTERVAL):
            reason = reason or "subscribed topics changed"
        if reason:
            effects.append(group.bump_epoch(reason))
        homogeneous = group.homogeneous
    if group.epoch > group.assignment_epoch:
        effects.append(
            compute_target(
                group,
                context.cluster,
                context.settings,
                homogeneous=homogeneous,
                uniform_release=context.uniform_release,
            )
        )
    return effects


def _epoch_bump_reason(
    group: ConsumerGroup,
    old: ConsumerMember | None,
    before: ConsumerMember,
    after: ConsumerMember,
    regex_update: RegexUpdate,
) -> str:
    """Return the reason why the request starts a new epoch, or "" if the request starts no epoch.

    Args:
        group: The group.
        old: The member that is replaced; None for a new member.
        before: State of the member before the request.
        after: State of the member after the request.
        regex_update: Change of the member's regular expression.
    """
    if after.topics != before.topics:
        return f"{after.member_id} joined" if old is None else f"{after.member_id} subscribes to other topics"
    if regex_update is RegexUpdate.UPDATED_AND_RESOLVED:
        return f"{after.member_id} subscribes to another regular expression"
    return f"{after.member_id} joined" if group.epoch == 0 else ""


def reconcile(
    group: ConsumerGroup, member_id: str, owned: PartitionSet | None, context: Context, now: float, *, changed: bool
) -> tuple[ConsumerMember, Effects]:
    """Execute the next reconciliation step of a member: bring its assignment closer to its target assignment.

    If a member of the consumer protocol has to revoke partitions, its rebalance timeout starts; else the timeout is
    cancelled.

    Args:
        group: The group.
        member_id: Id of the member.
        owned: The partitions that the member reports as owned; None if the member does not report them.
        context: Data and functions shared by all groups.
        now: The current time in seconds.
        changed: Whether the request changed the subscription of the member.

    Returns: the updated member (the same object if no step is possible), and the effects.
    """
    member = group.members[member_id]
    if not changed and member.is_reconciled_to(group.assignment_epoch):
        return member, []
    reconciliation = ReconciliationInput(
        target_epoch=group.assignment_epoch,
        target=group.target_of(member_id),
        subscribed_topic_ids=group.ids_of(member, context.cluster),
        partition_epochs=group.partition_epochs,
        owned_partitions=owned,
        has_changed_subscription=changed,
    )
    after = reconciled_member(member, reconciliation)
    if after == member:
        return member, []
    group.put_member(after)
    if after.classic is None:
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            group.timers.set(rebalance_timer(member_id), now + after.rebalance_timeout)
        else:
            group.timers.forget(rebalance_timer(member_id))
    if (after.assigned, after.epoch) == (member.assigned, member.epoch):
        return after, []
    event = note(group, EventKind.ASSIGN, after)
    return after, [replace(event, assignment=by_topic_name(after.assigned, context.cluster))]


# --- regular expressions ------------------------------------------------------------------------------------------


def _update_regex(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> RegexUpdate:
    """Return the change of a member's regular expression.

    Raises: Refused if a new regular expression is not valid.

    Args:
        group: the group.
        before: state of the member before the request.
        after: state of the member after the request.
    """
    if before.regex == after.regex:
        return RegexUpdate.NO_CHANGE
    if after.regex and after.regex not in group.subscribed_regexes:
        try:
            regex.check(after.regex)
        except regex.InvalidRegex as error:
            message = f"SubscribedTopicRegex `{after.regex}` is not a valid regular expression: {error}."
            raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
        return RegexUpdate.UPDATED
    return (
        RegexUpdate.UPDATED_AND_RESOLVED
        if not after.regex or after.regex in group.resolved_regexes
        else RegexUpdate.UPDATED
    )


def _should_resolve_regexes(
    group: ConsumerGroup, resolved: Mapping[str, ResolvedRegex], context: Context, now: float
) -> bool:
    """Return whether a new resolution of the group's regular expressions to topics has to start now.

    There are three reasons: the set of subscribed regular expressions differs from the set of resolved regular
    expressions, topics have changed, or the last resolution is older than group.consumer.regex.refresh.interval.ms. The
    result is False while a resolution is in progress, and until REGEX_REFRESH_MIN_INTERVAL has passed since the last
    resolution.

    Args:
        group: The group.
        resolved: The regular expressions that were resolved before the request, including those without a subscriber.
        context: Data and functions shared by all groups.
        now: The current time in seconds.
    """
    if REGEX_TIMER in group.timers:
        return False
    last = next(iter(resolved.values()), None)
    if last is None:
        return True
    if now <= last.at + REGEX_REFRESH_MIN_INTERVAL:
        return False
    return (
        set(group.subscribed_regexes) != set(resolved)
        or last.version != context.cluster.epoch
        or now > last.at + context.settings.group_consumer_regex_refresh_interval_ms / 1000
    )


def _resolve_regexes(group: ConsumerGroup, context: Context, now: float) -> Effects:
    """Match the next part of the group's regular expressions with topics.

    Return the effects: responses and journal events.

    One call matches one regular expression with at most REGEX_SLICE topics, and then makes the timer for the next part
    due immediately. After the last part, a new epoch starts if the matching topics, or the metadata of subscribed
    topics, have changed. If there are many topics, the new epoch starts in a separate call.

    Args:
        group: the group, which is changed.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    pending = group.regexes_to_resolve
    if pending is None:
        pending = group.regexes_to_resolve = list(group.subscribed_regexes)[::-1]
        group.resolving_since, group.matches_changed = now, False
    while pending and pending[-1] not in group.subscribed_regexes:
        pending.pop()
    created = context.cluster.created
    if pending and context.shared(TopicMatches).match_next(pending[-1], created, REGEX_SLICE):
        _resolve_regex(group, pending.pop(), context)
        is_last_slice = not pending and len(created) <= REGEX_SLICE
    else:
        is_last_slice = not pending
    if not is_last_slice:
        group.timers.set(REGEX_TIMER, now)
        return []
    group.regexes_to_resolve = None
    changed = group.refresh_metadata(context.cluster, now, METADATA_REFRESH_INTERVAL) or group.matches_changed
    return [group.bump_epoch("regular expressions match other topics")] if changed else []


def _resolve_regex(group: ConsumerGroup, pattern: str, context: Context) -> None:
    cluster = context.cluster
    matches = context.shared(TopicMatches)
    topics = matches.matching_topics(pattern, cluster.created, cluster.topics)  # internal topics too, as Kafka does
    if group.may_describe is not None:
        topics = frozenset(filter(group.may_describe, topics))
    before = group.resolved_regexes.get(pattern)
    group.matches_changed |= topics != (before.topics if before else frozenset())
    group.put_resolved_regex(pattern, ResolvedRegex(topics, cluster.epoch, group.resolving_since))


# --- leaving ------------------------------------------------------------------------------------------------------


def leave(group: ConsumerGroup, event: ConsumerHeartbeat, context: Context, now: float) -> GroupEffects:
    """Handle a heartbeat with epoch -1, or -2 for a static member that leaves temporarily.

    Return the effects: responses, journal events, and new groups to register.

    Args:
        group: the group.
        event: the heartbeat.
        context: data and functions shared by all groups.
        now: the current time in seconds.

    Raises: Refused if the request gets an error response.
    """
    if event.instance_id is None:
        member = get_member(group, event.member_id)
    else:
        member = get_static_member(group, event.instance_id, event.member_id)
    response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=event.epoch)
    if event.epoch == STATIC_LEAVE_EPOCH:
        group.put_member(replace(member, epoch=STATIC_LEAVE_EPOCH, pending_revocation=NO_PARTITIONS))
        effects: GroupEffects = [
            note(group, EventKind.AWAY, group.members[member.member_id], "static member left temporarily")
        ]
    else:
        effects = fence(group, [member], EventKind.LEAVE, "left", context, now)
    return [*effects, Reply(event.ticket, response)]


def fence(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    event: EventKind,
    reason: str,
    context: Context,
    now: float,
    reasons: Mapping[str, str] = NO_MEMBER_REASONS,
) -> GroupEffects:
    """Remove members, release their partitions, and start a new epoch.

    Return the effects: responses, journal events, and new groups to register.

    If only members of the classic protocol remain, the group may be converted to a classic group instead. After a new
    epoch, the next heartbeat computes the target assignment.

    Args:
        group: the group.
        members: the members to remove.
        event: kind of the journal events.
        reason: reason of the removal, for the journal.
        context: data and functions shared by all groups.
        now: the current time in seconds.
        reasons: reasons that the members sent, by member id; a member without an entry has sent none.
    """
    removed = list(members)
    effects: list[Effect | RegisterGroup] = [
        note(group, event, member, reasons.get(member.member_id) or reason) for member in removed
    ]
    names = ", ".join(member.member_id for member in removed)
    conversion = context.convert_without(group, removed, now, f"{reason}: {names}")
    if conversion is not None:
        return [*effects, *conversion]
    for member in removed:
        cancel_timers(group, member)
        group.remove_member(member)
    group.refresh_metadata(context.cluster, now, METADATA_REFRESH_INTERVAL)
    effects.append(group.bump_epoch(f"{reason}: {names}"))
    if group.empty:
        effects.append(Note(event=EventKind.EMPTY, group=group.group_id, generation=group.epoch))
    return effects


def cancel_timers(group: ConsumerGroup, member: ConsumerMember) -> None:
    """Remove all deadlines of a member that is removed from the group."""
    for timer in (session_timer, rebalance_timer, join_timer, sync_timer):
        group.timers.forget(timer(member.member_id))


# --- timers -------------------------------------------------------------------------------------------------------


EXPIRY_REASONS: Mapping[str, str] = {
    "session": "no heartbeat within the session timeout",
    "rebalance": "partitions were not revoked within the rebalance timeout",
    "join": "no JoinGroup within the rebalance timeout",
    "sync": "no SyncGroup within the rebalance timeout",
}


def tick(group: ConsumerGroup, context: Context, now: float) -> GroupEffects:
    """Handle the due timers, and return the effects: responses, journal events, and new groups to register.

    One call matches at most one regular expression with at most REGEX_SLICE topics. After the call, no deadline is due,
    with two exceptions: more topics have to be matched, or the group was converted to a classic group.

    Args:
        group: the group.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    effects: list[Effect | RegisterGroup] = []
    while timer := group.timers.pop_due(now):
        kind, member_id = timer
        if timer == REGEX_TIMER:
            effects += _resolve_regexes(group, context, now)
            if group.regexes_to_resolve is not None:
                break
        elif member_id in group.members:
            effects += fence(group, [group.members[member_id]], EventKind.EXPIRE, EXPIRY_REASONS[kind], context, now)
            if isinstance(effects[-1], RegisterGroup):
                break
    return effects


# --- events and assignments ---------------------------------------------------------------------------------------


def note(group: ConsumerGroup, event: EventKind, member: ConsumerMember, reason: str = "") -> Note:
    """Return a journal event about a member. The field ``generation`` of the event contains the member epoch.

    ``reason``: why the event happened; "" without a reason.
    """
    return member_note(group, event, member, reason, generation=member.epoch)


def _topic_partitions(partition_set: PartitionSet) -> list[Assignment.TopicPartition]:
    element = Assignment.TopicPartition
    return [
        element(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic_id(partition_set).items()
    ]
