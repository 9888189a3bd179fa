"""Requests of the classic protocol in a group of the consumer protocol, while it is migrated (KIP-848).

A classic member is never the leader and is never made to wait: JoinGroup makes its next step, SyncGroup tells its
share, Heartbeat tells it to join again when there is a step to make.
Source: Kafka's GroupMetadataManager.classicGroup...ToConsumerGroup (4.2).
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
    FREE,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    join_of,
    sync_of,
)
from mockbroker.groups.coordinated import Becomes, Turn, session_of
from mockbroker.groups.events import Event, Heartbeat, Join, Leave, Leaving, Sync
from mockbroker.groups.group_type import Context, Refused
from mockbroker.groups.migration import convert as migration


def join(group: ConsumerGroup, event: Join, context: Context, now: float) -> Turn:
    """A classic member comes in, or makes its next step; it is answered at once."""
    try:
        return _joined(group, event, context, now)
    except Refused as refused:
        return [replies.join_error(event.ticket, refused.error, "")]


def _joined(group: ConsumerGroup, event: Join, context: Context, now: float) -> Turn:
    member_id = event.member_id or event.fresh_id
    consumer.refuse_full(group, member_id, context)
    if event.protocol_type != CONSUMER or not group.supports(name for name, _ in event.protocols):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if event.id_required and not event.member_id and event.instance_id is None:
        return [replies.join_error(event.ticket, ErrorCode.MEMBER_ID_REQUIRED, member_id)]
    try:
        subscription, _ = decode_stored(ConsumerProtocolSubscription, event.protocols[0][1])
    except WireError as error:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    old, before = _member(group, event, member_id)
    after = replace(
        before,
        instance_id=event.instance_id if event.instance_id is not None else before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout=event.rebalance_timeout,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=event.client_id,
        client_host=event.client_host,
        classic=ClassicSide(event.session_timeout, event.protocols),
    )
    owned = migration.share_of(subscription.owned_partitions, context.cluster)
    changed = before.topics != after.topics or before.regex != after.regex
    effects: list[Effect | Becomes] = []
    if event.instance_id is not None and old is not None and _downgrades(group, old, context):
        effects += consumer.place(group, old, after)
        if not changed:
            effects += consumer.reconcile(group, member_id, owned, context, now, changed=False)[1]
        reason = f"static member {event.instance_id} is back with another subscription" if changed else ""
        effects += migration.downgrade(group, [], context, now, reason)
    else:
        effects += consumer.enter(group, old, before, after, context, now)
        effects += consumer.reconcile(group, member_id, owned, context, now, changed=changed)[1]
        group.waits.forget(join_of(member_id))
        group.waits.set(session_of(member_id), now + event.session_timeout)
        group.waits.set(sync_of(member_id), now + event.rebalance_timeout)
    response = JoinGroupResponse(
        generation_id=group.members[member_id].epoch,
        protocol_type=CONSUMER,
        protocol_name=event.protocols[0][0],
        member_id=member_id,
    )
    return [Reply(event.ticket, response), *effects]


def _downgrades(group: ConsumerGroup, replaced: ConsumerMember, context: Context) -> bool:
    """True if the group is a classic one once a classic member is in the place of this one."""
    return migration.may_downgrade(group, [replaced], context.settings, left=len(group.members))


def _member(group: ConsumerGroup, event: Join, member_id: str) -> tuple[ConsumerMember | None, ConsumerMember]:
    """Who was there in its place, and the member as it was before. Any id is taken. Raises: Refused."""
    if event.instance_id is None:
        there = group.members.get(member_id)
        return there, there or ConsumerMember(member_id=member_id)
    if not event.member_id:
        return consumer.join_static(group, member_id, event.instance_id, speaks_classic=True)
    member = consumer.static_member(group, event.instance_id, member_id)
    return member, member


def sync(group: ConsumerGroup, event: Sync, context: Context, now: float) -> Turn:
    """The member's share, in the words of the classic protocol."""
    try:
        member, side = _classic_member(group, event)
        if event.protocol_type not in (None, CONSUMER) or event.protocol_name not in (None, side.protocols[0][0]):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not the protocol of the JoinGroup")
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            _expect_join(group, member, now)
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS, "there is a newer epoch")
    except Refused as refused:
        return [replies.sync_error(event.ticket, refused.error)]
    group.waits.forget(sync_of(member.member_id))
    group.waits.set(session_of(member.member_id), now + side.session_timeout)
    response = SyncGroupResponse(
        protocol_type=event.protocol_type,
        protocol_name=event.protocol_name,
        assignment=migration.written(member.assigned, side.protocols[0][1], context.cluster),
    )
    return [consumer.note(group, EventKind.SYNC, member), Reply(event.ticket, response)]


def heartbeat(group: ConsumerGroup, event: Heartbeat, context: Context, now: float) -> Turn:  # noqa: ARG001
    """A sign of life; REBALANCE_IN_PROGRESS if there is a step to make."""
    try:
        member, side = _classic_member(group, event)
    except Refused as refused:
        return [Reply(event.ticket, HeartbeatResponse(error_code=refused.error))]
    group.waits.set(session_of(member.member_id), now + side.session_timeout)
    error = ErrorCode.NONE
    if (
        member.epoch < group.epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    ):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        _expect_join(group, member, now)
    return [Reply(event.ticket, HeartbeatResponse(error_code=error))]


def leave(group: ConsumerGroup, event: Leave, context: Context, now: float) -> Turn:
    """Members leave, also those of the consumer protocol; one new epoch for all of them."""
    going: dict[str, ConsumerMember] = {}
    said: dict[str, str] = {}
    answers: list[LeaveGroupResponse.Member] = []
    for leaving in event.members:
        error = ErrorCode.NONE
        try:
            member = _who_leaves(group, leaving)
            going[member.member_id] = member
            said.setdefault(member.member_id, leaving.reason)
        except Refused as refused:
            error = refused.error
        answers.append(replies.leave_answer(leaving, error))
    effects: Turn = consumer.fence(group, going.values(), EventKind.LEAVE, "left", context, now, said) if going else []
    return [Reply(event.ticket, LeaveGroupResponse(members=answers)), *effects]


def _classic_member(group: ConsumerGroup, event: Sync | Heartbeat) -> tuple[ConsumerMember, ClassicSide]:
    """The member that asks for a generation, and its classic side. Raises: Refused."""
    if event.instance_id is None:
        member = consumer.known_member(group, event.member_id)
    else:
        member = consumer.static_member(group, event.instance_id, event.member_id)
    if member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol.")
    if event.generation != member.epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION, f"{event.generation} is not the epoch {member.epoch}")
    return member, member.classic


def _who_leaves(group: ConsumerGroup, leaving: Leaving) -> ConsumerMember:
    """An administrator names a static member by its instance alone. Raises: Refused."""
    if leaving.instance_id is None:
        return consumer.known_member(group, leaving.member_id)
    if not leaving.member_id:
        return consumer.holder_of(group, leaving.instance_id)
    return consumer.static_member(group, leaving.instance_id, leaving.member_id)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    missing = group.target_of(member.member_id) - member.assigned
    return any(group.owners.get(partition, FREE) != FREE for partition in missing)


def _expect_join(group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
    wait = join_of(member.member_id)
    if wait not in group.waits:
        group.waits.set(wait, now + member.rebalance_timeout)


STEPS: Mapping[type, Callable[..., Turn]] = {Join: join, Sync: sync, Heartbeat: heartbeat, Leave: leave}


def receive(group: ConsumerGroup, event: Event, context: Context, now: float) -> Turn:
    """Return what a request of the classic protocol does to the group."""
    if isinstance(event, Join) and not event.member_id:
        event = replace(event, fresh_id=uuid_text(context.new_uuid()))  # not in the form of classic groups
    return STEPS[type(event)](group, event, context, now)
