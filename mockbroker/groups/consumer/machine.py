"""The consumer rebalance protocol (KIP-848): heartbeats, leaving, and the passing of time.

Nothing is ever parked: each heartbeat is answered at once, with the step that the member can take now. Times are in
seconds.
Source: Kafka's GroupMetadataManager (4.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType

from kwire import ErrorCode
from kwire.json.objects import uuid_text
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from mockbroker.base.effects import Effect, Effects, Note, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.consumer import regex
from mockbroker.groups.consumer.reconcile import Goal, next_step
from mockbroker.groups.consumer.regex import TopicMatches
from mockbroker.groups.consumer.state import (
    AWAY,
    JOINING,
    NOTHING,
    REGEX,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Resolved,
    Share,
    by_topic,
    join_of,
    rebalance_of,
    sync_of,
)
from mockbroker.groups.consumer.target import assign
from mockbroker.groups.coordinated import Becomes, CoordinatedGroup, Turn, member_note, session_of
from mockbroker.groups.events import ConsumerHeartbeat
from mockbroker.groups.group_type import Context, Refused
from mockbroker.topics.model import Cluster

REFRESH_METADATA = (
    600.0  # seconds after which subscribed topics are looked at again, though nothing is known to have changed
)
REGEX_PAUSE = 10.0  # seconds between two resolutions of the expressions of a group
NO_REASONS: Mapping[str, str] = MappingProxyType({})
Assignment = ConsumerGroupHeartbeatResponse.Assignment


def refused_heartbeat(ticket: Ticket, refused: Refused) -> Reply:
    """The answer to a heartbeat that is refused: neither id nor epoch."""
    return Reply(ticket, ConsumerGroupHeartbeatResponse(error_code=refused.error, error_message=refused.text))


class Found(Enum):
    """What a heartbeat did to the expressions of its group."""

    SAME = 0
    CHANGED = 1
    RESOLVED = 2  # changed, and what it matches is known


def check_joins(group_id: str, other: CoordinatedGroup | None, event: ConsumerHeartbeat) -> None:
    """Only a member that joins can make a group of the consumer protocol. ``other``: the group of another type that has
    the id. Raises: Refused."""
    if event.epoch == JOINING:
        return
    text = f"Consumer group {group_id} not found."
    if other is not None or event.epoch < 0:
        text = f"Group {group_id} not found." if other is None else f"Group {group_id} is not a consumer group."
    raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, text)


def with_member_id(event: ConsumerHeartbeat, context: Context) -> ConsumerHeartbeat:
    """Return the event with a new member id if the client has none (v0)."""
    if event.member_id or event.epoch < 0:
        return event
    return replace(event, member_id=uuid_text(context.new_uuid()))


# --- heartbeats -------------------------------------------------------------------------------------------------


def heartbeat(group: ConsumerGroup, event: ConsumerHeartbeat, context: Context, now: float) -> Effects:
    """Join, stay alive, or say what has been given up; the answer says what to own. Raises: Refused."""
    refuse_full(group, event.member_id, context)
    old, before = _member(group, event)
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
    if after != before or old is not before or group.epoch > group.assignment_epoch or _stale(group, context, now):
        effects += enter(group, old, before, after, context, now)
    updated, told = reconcile(group, after.member_id, event.owned, context, now, changed=_resubscribed(before, after))
    group.waits.set(session_of(updated.member_id), now + context.settings.group_consumer_session_timeout_ms / 1000)
    response = ConsumerGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=context.settings.group_consumer_heartbeat_interval_ms,
    )
    if event.full or updated.assigned != before.assigned:
        response.assignment = Assignment(topic_partitions=_lines(updated.assigned))
    return [*effects, *told, Reply(event.ticket, response)]


def refuse_full(group: ConsumerGroup, member_id: str, context: Context) -> None:
    """Raises: Refused if the group takes no more members."""
    most = context.settings.group_consumer_max_size
    if len(group.members) >= most and member_id not in group.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The consumer group has reached its maximum capacity of {most} members."
        )


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Raises: Refused."""
    member = group.members.get(member_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def static_member(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The member that has this instance id, if it is the one who asks. Raises: Refused."""
    member = holder_of(group, instance_id)
    if member_id != member.member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def holder_of(group: ConsumerGroup, instance_id: str) -> ConsumerMember:
    """The member that has this instance id. Raises: Refused, also if it is gone under another name since."""
    holder = group.static.get(instance_id)
    if holder is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return known_member(group, holder)


def _member(group: ConsumerGroup, event: ConsumerHeartbeat) -> tuple[ConsumerMember | None, ConsumerMember]:
    """Who was there in its place, and the member as it was before this heartbeat. Raises: Refused."""
    joins = event.epoch == JOINING
    if event.instance_id is None:
        there = group.members.get(event.member_id)
        if there is None and joins:
            return None, ConsumerMember(member_id=event.member_id)
        member = known_member(group, event.member_id)
    elif joins:
        return join_static(group, event.member_id, event.instance_id, speaks_classic=False)
    else:
        member = static_member(group, event.instance_id, event.member_id)
    _check_epoch(member, event)
    return member, member


def join_static(
    group: ConsumerGroup, member_id: str, instance_id: str, *, speaks_classic: bool
) -> tuple[ConsumerMember | None, ConsumerMember]:
    """A static member joins: as a new one, or in the place of the one who had its name. Raises: Refused."""
    if instance_id not in group.static:
        there = group.members.get(member_id)
        return there, there or ConsumerMember(member_id=member_id)
    old = holder_of(group, instance_id)
    if not speaks_classic and old.classic is None and old.epoch != AWAY:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is"
            f" owned by {old.member_id} member.",
        )
    return old, replace(old, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)


def _check_epoch(member: ConsumerMember, event: ConsumerHeartbeat) -> None:
    """Raises: Refused if the member is not where it believes to be. A lost answer is forgiven, to a member that says
    what it has and has nothing it should not."""
    if event.epoch in (JOINING, member.epoch):
        return
    lost = event.epoch == member.previous_epoch < member.epoch
    if lost and event.owned is not None and event.owned <= member.assigned:
        return
    size = "greater" if event.epoch > member.epoch else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({event.epoch}) than the one known by the group"
        f" coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _stale(group: ConsumerGroup, context: Context, now: float) -> bool:
    """True if topics may not be what they were when the group looked last, or expressions are due."""
    return (
        group.version != context.cluster.epoch
        or now >= group.refresh_at
        or (bool(group.regexes) and _regexes_due(group, group.resolved, context, now))
    )


def _resubscribed(before: ConsumerMember, after: ConsumerMember) -> bool:
    return before.topics != after.topics or before.regex != after.regex


def enter(
    group: ConsumerGroup,
    old: ConsumerMember | None,
    before: ConsumerMember,
    after: ConsumerMember,
    context: Context,
    now: float,
) -> Effects:
    """Put a member into the group as it is now, and make a new target if that changes what anybody should have.

    ``old``: who was in its place; ``before``: the member itself until now. Raises: Refused for a wrong expression,
    before anything has changed.
    """
    regexes = _regex_change(group, before, after)
    had, alike = dict(group.resolved), group.alike
    effects = place(group, old, after)
    if group.regexes and _regexes_due(group, had, context, now):
        group.waits.set(REGEX, now)
    return effects + _refresh(group, context, now, _why(group, old, before, after, regexes), alike=alike)


def place(group: ConsumerGroup, old: ConsumerMember | None, member: ConsumerMember) -> Effects:
    """Put a member in, in the place of ``old`` if there is one."""
    if old is None:
        group.put(member)
        return [note(group, EventKind.JOIN, member)]
    if old.member_id == member.member_id:
        group.put(member)
        return []
    forget_waits(group, old)
    group.replace_static(old, member)
    reason = f"static member {member.instance_id} is back, {old.member_id} is replaced"
    return [note(group, EventKind.REJOIN, member, reason)]


def _refresh(group: ConsumerGroup, context: Context, now: float, reason: str, *, alike: bool) -> Effects:
    """Begin a new epoch if there is a reason, or the subscribed topics are not what they were; then a new target.

    ``alike``: whether all subscribed alike before this heartbeat. Kafka goes by that if the target was due already and
    the heartbeat begins no epoch: then a member that joins without any topic may leave everybody without partitions.
    """
    effects: Effects = []
    if reason or group.version != context.cluster.epoch or now >= group.refresh_at:
        if group.refresh_topics(context.cluster, now, REFRESH_METADATA):
            reason = reason or "subscribed topics changed"
        if reason:
            effects.append(_bump(group, reason))
        alike = group.alike
    if group.epoch > group.assignment_epoch:
        effects.append(assign(group, context.cluster, context.settings, alike=alike, uniform=context.uniform))
    return effects


def _bump(group: ConsumerGroup, reason: str) -> Note:
    """A new epoch: what members should have must be made anew."""
    group.epoch += 1
    return Note(event=EventKind.REBALANCE, group=group.group_id, generation=group.epoch, reason=reason)


def _why(
    group: ConsumerGroup, old: ConsumerMember | None, before: ConsumerMember, after: ConsumerMember, regexes: Found
) -> str:
    """Why this heartbeat begins a new epoch; "" if it does not."""
    if after.topics != before.topics:
        return f"{after.member_id} joined" if old is None else f"{after.member_id} subscribes to other topics"
    if regexes is Found.RESOLVED:
        return f"{after.member_id} subscribes by another expression"
    return f"{after.member_id} joined" if group.epoch == 0 else ""


def reconcile(
    group: ConsumerGroup, member_id: str, owned: Share | None, context: Context, now: float, *, changed: bool
) -> tuple[ConsumerMember, Effects]:
    """The member's next step towards its target; the member then, and what is to be told of it."""
    member = group.members[member_id]
    if not changed and member.reached(group.assignment_epoch):
        return member, []
    goal = Goal(
        epoch=group.assignment_epoch,
        target=group.target_of(member_id),
        topics=group.ids_of(member, context.cluster),
        owners=group.owners,
        owned=owned,
        changed=changed,
    )
    stepped = next_step(member, goal)
    if stepped == member:
        return member, []
    group.put(stepped)
    if stepped.classic is None:
        if stepped.state is MemberState.UNREVOKED_PARTITIONS:
            group.waits.set(rebalance_of(member_id), now + stepped.rebalance_timeout)
        else:
            group.waits.forget(rebalance_of(member_id))
    if (stepped.assigned, stepped.epoch) == (member.assigned, member.epoch):
        return stepped, []
    assigned = note(group, EventKind.ASSIGN, stepped)
    return stepped, [replace(assigned, assignment=named(stepped.assigned, context.cluster))]


# --- expressions ------------------------------------------------------------------------------------------------


def _regex_change(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> Found:
    """Raises: Refused if the member brings an expression that nobody has and that is none."""
    if before.regex == after.regex:
        return Found.SAME
    if after.regex and after.regex not in group.regexes:
        try:
            regex.check(after.regex)
        except regex.InvalidRegex as error:
            text = f"SubscribedTopicRegex `{after.regex}` is not a valid regular expression: {error}."
            raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from None
        return Found.CHANGED
    return Found.RESOLVED if not after.regex or after.regex in group.resolved else Found.CHANGED


def _regexes_due(group: ConsumerGroup, had: Mapping[str, Resolved], context: Context, now: float) -> bool:
    """True if expressions should be resolved: some are not, there are new topics, or it was long ago; never twice in
    ``REGEX_PAUSE``. ``had``: those that were resolved before this heartbeat, also if nobody wants them any more."""
    if REGEX in group.waits:
        return False
    last = next(iter(had.values()), None)
    if last is None:
        return True
    if now <= last.at + REGEX_PAUSE:
        return False
    return (
        set(group.regexes) != set(had)
        or last.version != context.cluster.epoch
        or now > last.at + context.settings.group_consumer_regex_refresh_interval_ms / 1000
    )


def _resolve(group: ConsumerGroup, context: Context, now: float) -> Effects:
    """Match one expression with the topics that there are; the next one is due at once.

    After the last there is a new epoch if they match others than before.
    """
    if not group.unresolved:
        group.unresolved, group.resolving, group.rematched = list(group.regexes)[::-1], now, False
    while group.unresolved:
        expression = group.unresolved.pop()
        if expression in group.regexes:
            _resolve_one(group, expression, context)
            break
    if group.unresolved:
        group.waits.set(REGEX, now)
        return []
    changed = group.refresh_topics(context.cluster, now, REFRESH_METADATA) or group.rematched
    return [_bump(group, "expressions match other topics")] if changed else []


def _resolve_one(group: ConsumerGroup, expression: str, context: Context) -> None:
    cluster = context.cluster
    matches = context.shared(TopicMatches)
    found = matches.find(expression, cluster.created, cluster.topics)  # also topics of the brokers, as at Kafka
    had = group.resolved.get(expression)
    group.rematched |= found != (had.topics if had else frozenset())
    group.resolve(expression, Resolved(found, cluster.epoch, group.resolving))


# --- leaving ----------------------------------------------------------------------------------------------------


def leave(group: ConsumerGroup, event: ConsumerHeartbeat, context: Context, now: float) -> Turn:
    """A member goes for good, or for a while (static, epoch -2). Raises: Refused."""
    if event.instance_id is None:
        member = known_member(group, event.member_id)
    else:
        member = static_member(group, event.instance_id, event.member_id)
    answer = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=event.epoch)
    if event.epoch == AWAY:
        group.put(replace(member, epoch=AWAY, revoking=NOTHING))
        effects: Turn = [note(group, EventKind.AWAY, group.members[member.member_id], "static member, will be back")]
    else:
        effects = fence(group, [member], EventKind.LEAVE, "left", context, now)
    return [*effects, Reply(event.ticket, answer)]


def fence(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    event: EventKind,
    reason: str,
    context: Context,
    now: float,
    said: Mapping[str, str] = NO_REASONS,
) -> Turn:
    """Take members out: what they had is free at once, and a new epoch begins. The next heartbeat makes the target.

    ``said``: by member id, reasons that members gave themselves.
    """
    going = list(members)
    effects: list[Effect | Becomes] = [
        note(group, event, member, said.get(member.member_id) or reason) for member in going
    ]
    names = ", ".join(member.member_id for member in going)
    turn = context.converted(group, going, now, f"{reason}: {names}")
    if turn is not None:
        return [*effects, *turn]
    for member in going:
        forget_waits(group, member)
        group.remove(member)
    group.refresh_topics(context.cluster, now, REFRESH_METADATA)
    effects.append(_bump(group, f"{reason}: {names}"))
    if group.empty:
        effects.append(Note(event=EventKind.EMPTY, group=group.group_id, generation=group.epoch))
    return effects


def forget_waits(group: ConsumerGroup, member: ConsumerMember) -> None:
    """Nothing is due for this member any more."""
    for wait in (session_of, rebalance_of, join_of, sync_of):
        group.waits.forget(wait(member.member_id))


# --- what time brings -------------------------------------------------------------------------------------------


LATE: Mapping[str, str] = {
    "session": "no heartbeat within the session timeout",
    "rebalance": "partitions were not given up within the rebalance timeout",
    "join": "no JoinGroup within the rebalance timeout",
    "sync": "no SyncGroup within the rebalance timeout",
}


def tick(group: ConsumerGroup, context: Context, now: float) -> Turn:
    """What is due, up to one expression. Afterwards the next deadline lies ahead of ``now`` unless another expression
    is to be resolved, or the group is another."""
    effects: list[Effect | Becomes] = []
    while wait := group.waits.pop_due(now):
        kind, member_id = wait
        if wait == REGEX:
            effects += _resolve(group, context, now)
            if group.unresolved:
                break
        elif member_id in group.members:
            effects += fence(group, [group.members[member_id]], EventKind.EXPIRE, LATE[kind], context, now)
            if isinstance(effects[-1], Becomes):
                break
    return effects


# --- words ------------------------------------------------------------------------------------------------------


def note(group: ConsumerGroup, event: EventKind, member: ConsumerMember, reason: str = "") -> Note:
    """Return the journal's line about a member, with the member's epoch."""
    return member_note(group, event, member, reason, generation=member.epoch)


def named(share: Share, cluster: Cluster) -> dict[str, list[int]]:
    """Topics by name, with their partitions in order; those of topics that are gone are left out."""
    found = ((cluster.by_id.get(topic_id), partitions) for topic_id, partitions in by_topic(share).items())
    return {topic.name: partitions for topic, partitions in found if topic is not None}


def _lines(share: Share) -> list[Assignment.TopicPartition]:
    line = Assignment.TopicPartition
    return [line(topic_id=topic_id, partitions=found) for topic_id, found in by_topic(share).items()]
