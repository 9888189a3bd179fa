"""The handlers of requests that classic members send to a consumer group, during an online migration (KIP-848).

A classic member is never the leader, and its requests are answered immediately. JoinGroup takes the member's next
reconciliation step, SyncGroup returns the assignment, and Heartbeat returns REBALANCE_IN_PROGRESS while another
reconciliation step is necessary. Source: Kafka's GroupMetadataManager.classicGroup...ToConsumerGroup (4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kwire import ErrorCode, WireError
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.json.objects import uuid_text
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.base.effects import Effect, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import replies
from mockbroker.groups.classic.subscription import CONSUMER
from mockbroker.groups.consumer import machine as consumer
from mockbroker.groups.consumer.state import (
    ClassicMemberMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    join_timer,
    sync_timer,
)
from mockbroker.groups.coordinated import GroupEffects, RegisterGroup, session_timer
from mockbroker.groups.events import Event, Heartbeat, Join, Leave, LeavingMember, Sync
from mockbroker.groups.group_type import Context, Refused
from mockbroker.groups.migration import convert as migration


def join(group: ConsumerGroup, event: Join, context: Context, now: float) -> GroupEffects:
    """Add a classic member, or run the next reconciliation step of a member that rejoins.

    If the member replaces a static member, the group may be converted to a classic group.

    Return the effects: responses, journal events, and new groups to register.

    Args:
        group: the group.
        event: the JoinGroup.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    try:
        return _join(group, event, context, now)
    except Refused as refused:
        return [replies.join_error(event.ticket, refused.error, "")]


def _join(group: ConsumerGroup, event: Join, context: Context, now: float) -> GroupEffects:
    member_id = event.member_id or event.new_member_id
    consumer.check_not_full(group, member_id, context)
    if event.protocol_type != CONSUMER or not group.supports_classic_protocols(name for name, _ in event.protocols):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if event.require_member_id and not event.member_id and event.instance_id is None:
        return [replies.join_error(event.ticket, ErrorCode.MEMBER_ID_REQUIRED, member_id)]
    try:
        subscription, _ = decode_stored(ConsumerProtocolSubscription, event.protocols[0][1])
    except WireError as error:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    old, before = _get_or_create_member(group, event, member_id)
    after = replace(
        before,
        instance_id=event.instance_id if event.instance_id is not None else before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout=event.rebalance_timeout,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=event.client_id,
        client_host=event.client_host,
        classic=ClassicMemberMetadata(event.session_timeout, event.protocols),
    )
    owned = migration.to_partition_set(subscription.owned_partitions, context.cluster)
    changed = before.topics != after.topics or before.regex != after.regex
    effects: list[Effect | RegisterGroup] = []
    if event.instance_id is not None and old is not None and _causes_downgrade(group, old, context):
        effects += consumer.add_or_replace_member(group, old, after)
        if not changed:
            effects += consumer.reconcile(group, member_id, owned, context, now, changed=False)[1]
        reason = f"static member {event.instance_id} rejoined with another subscription" if changed else ""
        effects += migration.downgrade(group, [], context, now, reason)
    else:
        effects += consumer.update_member(group, old, before, after, event.may_describe, context, now)
        effects += consumer.reconcile(group, member_id, owned, context, now, changed=changed)[1]
        group.timers.forget(join_timer(member_id))
        group.timers.set(session_timer(member_id), now + event.session_timeout)
        group.timers.set(sync_timer(member_id), now + event.rebalance_timeout)
    response = JoinGroupResponse(
        generation_id=group.members[member_id].epoch,
        protocol_type=CONSUMER,
        protocol_name=event.protocols[0][0],
        member_id=member_id,
    )
    return [Reply(event.ticket, response), *effects]


def _causes_downgrade(group: ConsumerGroup, replaced: ConsumerMember, context: Context) -> bool:
    """Return whether a consumer group must be converted to a classic group.

    The reason is a classic member that replaces a static member.

    Args:
        group: The consumer group.
        replaced: The static member that is replaced.
        context: Data and functions shared by all groups.
    """
    return migration.can_downgrade(group, [replaced], context.settings, remaining=len(group.members))


def _get_or_create_member(
    group: ConsumerGroup, event: Join, member_id: str
) -> tuple[ConsumerMember | None, ConsumerMember]:
    """Return two members: the member in the group that a JoinGroup replaces, and the joining member before the request.

    The first is None if a new member joins. For a dynamic member that rejoins, both members are the same object. An
    unknown member id of a dynamic member is accepted: the member joins as a new member.

    Args:
        group: the group.
        event: the JoinGroup.
        member_id: member id of the joining member: the id in the request, or a new id if the request has none.

    Raises: Refused if the request gets an error response.
    """
    if event.instance_id is None:
        existing = group.members.get(member_id)
        return existing, existing or ConsumerMember(member_id=member_id)
    if not event.member_id:
        return consumer.join_static(group, member_id, event.instance_id, uses_classic_protocol=True)
    member = consumer.get_static_member(group, event.instance_id, member_id)
    return member, member


def sync(group: ConsumerGroup, event: Sync, context: Context, now: float) -> GroupEffects:
    """Answer a SyncGroup with the assignment of the classic member, and renew the session of the member.

    If the group has a newer epoch, and the member has no partitions to revoke, the response is REBALANCE_IN_PROGRESS,
    and the session is not renewed.

    Return the effects: responses, journal events, and new groups to register.

    Args:
        group: the group.
        event: the SyncGroup.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    try:
        member, classic = _classic_member(group, event)
        if event.protocol_type not in (None, CONSUMER) or event.protocol_name not in (None, classic.protocols[0][0]):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not that of the JoinGroup.")
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            _schedule_join_timer(group, member, now)
            raise Refused(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"The group has a newer epoch ({group.epoch}) than the member ({member.epoch}).",
            )
    except Refused as refused:
        return [replies.sync_error(event.ticket, refused.error)]
    group.timers.forget(sync_timer(member.member_id))
    group.timers.set(session_timer(member.member_id), now + classic.session_timeout)
    response = SyncGroupResponse(
        protocol_type=event.protocol_type,
        protocol_name=event.protocol_name,
        assignment=migration.encode_assignment(member.assigned, classic.protocols[0][1], context.cluster),
    )
    return [consumer.note(group, EventKind.SYNC, member), Reply(event.ticket, response)]


def heartbeat(group: ConsumerGroup, event: Heartbeat, context: Context, now: float) -> GroupEffects:  # noqa: ARG001
    """Renew the session of a classic member, and answer the Heartbeat.

    Return the effects: responses, journal events, and new groups to register.

    The response is REBALANCE_IN_PROGRESS if the member has to rejoin for its next reconciliation step.

    Args:
        group: the group.
        event: the Heartbeat.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    try:
        member, classic = _classic_member(group, event)
    except Refused as refused:
        return [Reply(event.ticket, HeartbeatResponse(error_code=refused.error))]
    group.timers.set(session_timer(member.member_id), now + classic.session_timeout)
    error = ErrorCode.NONE
    if (
        member.epoch < group.epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_revocation(group, member))
    ):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        _schedule_join_timer(group, member, now)
    return [Reply(event.ticket, HeartbeatResponse(error_code=error))]


def leave(group: ConsumerGroup, event: Leave, context: Context, now: float) -> GroupEffects:
    """Remove the members that a LeaveGroup lists, and start a single new epoch for all of them.

    Return the effects: responses, journal events, and new groups to register.

    The members may use the classic or the consumer protocol. If only members of the classic protocol remain, the group
    may be converted to a classic group instead.

    Args:
        group: the consumer group.
        event: the LeaveGroup.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    removed: dict[str, ConsumerMember] = {}
    reasons: dict[str, str] = {}
    answers: list[LeaveGroupResponse.Member] = []
    for leaving in event.members:
        error = ErrorCode.NONE
        try:
            member = _find_leaving_member(group, leaving)
            removed[member.member_id] = member
            reasons.setdefault(member.member_id, leaving.reason)
        except Refused as refused:
            error = refused.error
        answers.append(replies.leave_response_member(leaving, error))
    effects: GroupEffects = (
        consumer.fence(group, removed.values(), EventKind.LEAVE, "left", context, now, reasons) if removed else []
    )
    return [Reply(event.ticket, LeaveGroupResponse(members=answers)), *effects]


def _classic_member(group: ConsumerGroup, event: Sync | Heartbeat) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Return the classic member that sent a request, and the metadata of its JoinGroup.

    Raises: Refused if the sender is not a classic member of the group, or if the generation in the request is not the
        member epoch.
    """
    if event.instance_id is None:
        member = consumer.get_member(group, event.member_id)
    else:
        member = consumer.get_static_member(group, event.instance_id, event.member_id)
    if member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    if event.generation != member.epoch:
        raise Refused(
            ErrorCode.ILLEGAL_GENERATION, f"Generation {event.generation} is not the member epoch {member.epoch}."
        )
    return member, member.classic


def _find_leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    """Return the member that an element of a LeaveGroup (``leaving``) identifies.

    An element without a member id, as administrators send it, identifies a static member by its instance id.

    Raises: Refused if there is no such member.
    """
    if leaving.instance_id is None:
        return consumer.get_member(group, leaving.member_id)
    if not leaving.member_id:
        return consumer.member_of_instance(group, leaving.instance_id)
    return consumer.get_static_member(group, leaving.instance_id, leaving.member_id)


def _waits_for_revocation(group: ConsumerGroup, member: ConsumerMember) -> bool:
    missing = group.target_of(member.member_id) - member.assigned
    return any(partition in group.partition_epochs for partition in missing)


def _schedule_join_timer(group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
    timer = join_timer(member.member_id)
    if timer not in group.timers:
        group.timers.set(timer, now + member.rebalance_timeout)


REQUESTS: Mapping[type, Callable[..., GroupEffects]] = {Join: join, Sync: sync, Heartbeat: heartbeat, Leave: leave}


def receive(group: ConsumerGroup, event: Event, context: Context, now: float) -> GroupEffects:
    """Handle a request of the classic protocol.

    Return the effects: responses, journal events, and new groups to register.

    Args:
        group: the group.
        event: the request.
        context: data and functions shared by all groups.
        now: the current time in seconds.
    """
    if isinstance(event, Join) and not event.member_id:
        event = replace(event, new_member_id=uuid_text(context.new_uuid()))  # a UUID, unlike in classic groups
    return REQUESTS[type(event)](group, event, context, now)
