"""JoinGroup in a classic group. Source: Kafka's GroupMetadataManager.classicGroupJoin (4.2)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.join_group import JoinGroupResponse
from mockbroker.base.effects import Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, phases, replies, rules
from mockbroker.groups.classic.state import EMPTY, PREPARING, STABLE, ClassicGroup, Member, pending_of
from mockbroker.groups.coordinated import member_note, session_of
from mockbroker.groups.events import Join

REJOINED = EventKind.REJOIN  # read for each member


def join(group: ClassicGroup, event: Join, now: float) -> Effects:
    """Become a member, or come back for the next generation."""
    group.last_join = now
    if error := rules.join_error(group, event):
        return _refuse(group, event, error, now)
    if not event.member_id:
        return _join_without_id(group, event, now)
    if event.member_id in group.pending:
        membership.forget_pending(group, event.member_id)
        return _add_member(group, event, event.member_id, now)
    return _rejoin(group, group.members[event.member_id], event, now)


def _refuse(group: ClassicGroup, event: Join, error: ErrorCode, now: float) -> Effects:
    member_id = "" if error in rules.WITHOUT_MEMBER_ID else event.member_id
    refusal = replies.join_error(event.ticket, error, member_id)
    full = error is ErrorCode.GROUP_MAX_SIZE_REACHED
    return [refusal, *(_remove_from_full_group(group, event, now) if full else ())]


def _join_without_id(group: ClassicGroup, event: Join, now: float) -> Effects:
    """A static member is never sent away for an id: it has a name already."""
    if event.instance_id is None:
        return _give_id(group, event, now) if event.id_required else _add_member(group, event, event.fresh_id, now)
    if event.instance_id in group.static:
        return _replace(group, group.members[group.static[event.instance_id]], event, now)
    return _add_member(group, event, event.fresh_id, now)


def _give_id(group: ClassicGroup, event: Join, now: float) -> Effects:
    group.pending[event.fresh_id] = event.client_id
    group.waits.set(pending_of(event.fresh_id), now + event.session_timeout)
    note = Note(event=EventKind.ID_GIVEN, group=group.group_id, member_id=event.fresh_id, client_id=event.client_id)
    return [note, replies.join_error(event.ticket, ErrorCode.MEMBER_ID_REQUIRED, event.fresh_id)]


def _remove_from_full_group(group: ClassicGroup, event: Join, now: float) -> Effects:
    """Remove a member that group.max.size has no room for any more, or forget its id.

    Kafka 4 does not check again whether the join phase can complete.
    """
    effects: Effects = []
    member = group.members.get(event.member_id)
    if member is not None:
        effects += membership.remove(group, member, EventKind.EXPIRE, "the group is full")
        membership.inherit(group)
    if event.member_id in group.pending:
        membership.forget_pending(group, event.member_id)
    if group.quirks.refused_join_may_end_join_phase:
        effects += phases.complete_if_all_joined(group, now)
    return effects


def _replace(group: ClassicGroup, member: Member, event: Join, now: float) -> Effects:
    """A static member is back without its id, as after a restart: the old id is fenced, the new one takes its place."""
    was_leader, old_id = group.leader, member.member_id
    effects: Effects = []
    if ticket := group.take_join(member):
        effects.append(replies.join_error(ticket, ErrorCode.FENCED_INSTANCE_ID, old_id))
    if member.sync is not None:
        effects.append(replies.sync_error(member.sync, ErrorCode.FENCED_INSTANCE_ID))
        member.sync = None
    group.waits.forget(session_of(old_id))
    group.rename(member, event.fresh_id)
    membership.renew(group, member, now)
    _update(group, member, event)
    reason = f"static member {event.instance_id} is back, {old_id} is fenced"
    effects.append(member_note(group, REJOINED, member, reason))
    if group.state is STABLE and rules.choose_protocol(group) == group.protocol:
        return [*effects, _back_in_place(group, member, event, was_leader)]
    group.park_join(member, event.ticket)
    return effects + phases.rebalance(group, f"static member {event.instance_id} is back", now)


def _back_in_place(group: ClassicGroup, member: Member, event: Join, was_leader: str) -> Reply:
    """Answer without a rebalance: v9+ clients get skip_assignment, older ones follow the previous leader."""
    answer = replies.joined(group, event.ticket, member)
    response = answer.response
    assert isinstance(response, JoinGroupResponse)
    if event.can_skip:
        response.skip_assignment = member.member_id == group.leader
    else:
        response.leader, response.members = was_leader, []
    return answer


def _update(group: ClassicGroup, member: Member, event: Join) -> None:
    group.offer(member, event.protocols)
    member.session_timeout = event.session_timeout
    member.rebalance_timeout = event.rebalance_timeout


def _add_member(group: ClassicGroup, event: Join, member_id: str, now: float) -> Effects:
    member = Member(
        member_id=member_id,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout=event.session_timeout,
        rebalance_timeout=event.rebalance_timeout,
        protocols=event.protocols,
    )
    if not group.members:
        group.protocol_type = event.protocol_type
    group.leader = group.leader or member_id
    group.add(member)
    group.park_join(member, event.ticket)
    group.waits.set(session_of(member_id), now + rules.NEW_MEMBER_TIMEOUT)
    if group.state is PREPARING and group.came_from is EMPTY:
        group.joined_in_delay = group.generation == 0 or not group.quirks.delay_extended_in_generation_0_only
    effects: Effects = [member_note(group, EventKind.JOIN, member, event.reason)]
    return effects + phases.rebalance(group, f"{member_id} joined", now)


def _rejoin(group: ClassicGroup, member: Member, event: Join, now: float) -> Effects:
    if rules.gets_current_generation(group, member, event):
        return [replies.joined(group, event.ticket, member)]
    leads, same = member.member_id == group.leader, list(member.protocols) == list(event.protocols)
    _update(group, member, event)
    effects: Effects = [member_note(group, REJOINED, member, event.reason)]
    why = "rejoined as leader" if leads and same else "rejoined with other metadata"
    group.park_join(member, event.ticket)
    return effects + phases.rebalance(group, f"{member.member_id} {why}", now)
