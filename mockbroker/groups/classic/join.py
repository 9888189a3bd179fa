"""The handler of JoinGroup in a classic group. Source: Kafka's GroupMetadataManager.classicGroupJoin (4.2)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.join_group import JoinGroupResponse
from mockbroker.base.effects import Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, phases, replies, rules
from mockbroker.groups.classic.state import EMPTY, STABLE, ClassicGroup, Member, pending_member_timer
from mockbroker.groups.coordinated import member_note, session_timer
from mockbroker.groups.events import Join

REJOIN_EVENT = EventKind.REJOIN  # a local name is faster, and used for each member


def join(group: ClassicGroup, event: Join, now: float) -> Effects:
    """Handle a JoinGroup of a new member or of a member that rejoins.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        event: the JoinGroup.
        now: the current time in seconds.
    """
    group.last_join_at = now
    if error := rules.join_error(group, event):
        return _reject(group, event, error, now)
    if not event.member_id:
        return _join_as_new_member(group, event, now)
    if event.member_id in group.pending_members:
        membership.remove_pending_member(group, event.member_id)
        return _add_member(group, event, event.member_id, now)
    return _rejoin(group, group.members[event.member_id], event, now)


def _reject(group: ClassicGroup, event: Join, error: ErrorCode, now: float) -> Effects:
    member_id = "" if error in rules.ERRORS_WITHOUT_MEMBER_ID else event.member_id
    reply = replies.join_error(event.ticket, error, member_id)
    full = error is ErrorCode.GROUP_MAX_SIZE_REACHED
    return [reply, *(_remove_from_full_group(group, event, now) if full else ())]


def _join_as_new_member(group: ClassicGroup, event: Join, now: float) -> Effects:
    """Handle a JoinGroup without member id, and return the effects: responses and journal events.

    A dynamic member may get MEMBER_ID_REQUIRED; a static member never gets this error.

    Args:
        group: the group.
        event: the JoinGroup.
        now: the current time in seconds.
    """
    if event.instance_id is None:
        return (
            _require_member_id(group, event, now)
            if event.require_member_id
            else _add_member(group, event, event.new_member_id, now)
        )
    if event.instance_id in group.static_members:
        return _replace_static_member(group, group.members[group.static_members[event.instance_id]], event, now)
    return _add_member(group, event, event.new_member_id, now)


def _require_member_id(group: ClassicGroup, event: Join, now: float) -> Effects:
    group.pending_members[event.new_member_id] = event.client_id
    group.timers.set(pending_member_timer(event.new_member_id), now + event.session_timeout)
    note = Note(
        event=EventKind.ID_GIVEN, group=group.group_id, member_id=event.new_member_id, client_id=event.client_id
    )
    return [note, replies.join_error(event.ticket, ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id)]


def _remove_from_full_group(group: ClassicGroup, event: Join, now: float) -> Effects:
    """Remove the sender of a JoinGroup that is rejected because of ``group.max.size``.

    Return the effects: responses and journal events.

    The member id of the sender belongs to a member, or is pending. Kafka 4 does not check after the removal whether the
    join phase can complete, but earlier releases do.

    Args:
        group: the group.
        event: the JoinGroup.
        now: the current time in seconds.
    """
    effects: Effects = []
    member = group.members.get(event.member_id)
    if member is not None:
        effects += membership.remove(group, member, EventKind.EXPIRE, "the group is full")
        membership.ensure_leader(group)
    if event.member_id in group.pending_members:
        membership.remove_pending_member(group, event.member_id)
    if group.quirks.refused_join_may_end_join_phase:
        effects += phases.maybe_complete_join_phase(group, now)
    return effects


def _replace_static_member(group: ClassicGroup, member: Member, event: Join, now: float) -> Effects:
    """Replace the member id of a static member that joins without a member id, as after a restart.

    Return the effects: responses and journal events.

    The old member id is fenced: its pending requests get FENCED_INSTANCE_ID. A rebalance starts, unless the group is
    Stable and the selected protocol does not change.

    Args:
        group: the group.
        member: the static member with the same instance id.
        event: the JoinGroup.
        now: the current time in seconds.
    """
    was_leader, old_id = group.leader, member.member_id
    effects: Effects = []
    if ticket := group.pop_pending_join(member):
        effects.append(replies.join_error(ticket, ErrorCode.FENCED_INSTANCE_ID, old_id))
    if member.pending_sync is not None:
        effects.append(replies.sync_error(member.pending_sync, ErrorCode.FENCED_INSTANCE_ID))
        member.pending_sync = None
    group.timers.forget(session_timer(old_id))
    group.replace_static_member(member, event.new_member_id)
    membership.renew_session(group, member, now)
    _update_member(group, member, event)
    reason = f"static member {event.instance_id} rejoined, {old_id} is fenced"
    effects.append(member_note(group, REJOIN_EVENT, member, reason))
    if group.state is STABLE and rules.select_protocol(group) == group.protocol:
        return [*effects, _rejoin_without_rebalance(group, member, event, was_leader)]
    group.set_pending_join(member, event.ticket)
    return effects + phases.rebalance(group, f"static member {event.instance_id} rejoined", now)


def _rejoin_without_rebalance(group: ClassicGroup, member: Member, event: Join, was_leader: str) -> Reply:
    """Return the response to a static member that rejoins without a rebalance.

    If the member is the leader and its client supports skip_assignment (v9), the response contains the list of members.
    An older client would compute a new assignment as leader. To prevent this, its response names ``was_leader``, the
    old member id, as the leader.

    Args:
        group: The group.
        member: The member, with its new member id.
        event: The JoinGroup.
        was_leader: Member id of the leader before the member id was replaced.
    """
    reply = replies.join_response(group, event.ticket, member)
    response = reply.response
    assert isinstance(response, JoinGroupResponse)
    if event.supports_skipping_assignment:
        response.skip_assignment = member.member_id == group.leader
    else:
        response.leader, response.members = was_leader, []
    return reply


def _update_member(group: ClassicGroup, member: Member, event: Join) -> None:
    group.update_protocols(member, event.protocols)
    if member.session_timeout != event.session_timeout:
        member.session_timeout = event.session_timeout
    if member.rebalance_timeout != event.rebalance_timeout:
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
    group.add_member(member)
    group.set_pending_join(member, event.ticket)
    group.timers.set(session_timer(member_id), now + rules.NEW_MEMBER_TIMEOUT)
    if group.previous_state is EMPTY:  # the group prepares its first rebalance
        group.new_member_added = group.generation == 0 or not group.quirks.delay_extended_in_generation_0_only
    effects: Effects = [member_note(group, EventKind.JOIN, member, event.reason)]
    return effects + phases.rebalance(group, f"{member_id} joined", now)


def _rejoin(group: ClassicGroup, member: Member, event: Join, now: float) -> Effects:
    if rules.gets_current_generation(group, member, event):
        return [replies.join_response(group, event.ticket, member)]
    is_leader, unchanged = member.member_id == group.leader, list(member.protocols) == list(event.protocols)
    _update_member(group, member, event)
    effects: Effects = [member_note(group, REJOIN_EVENT, member, event.reason)]
    reason = "rejoined as leader" if is_leader and unchanged else "rejoined with other metadata"
    group.set_pending_join(member, event.ticket)
    return effects + phases.rebalance(group, f"{member.member_id} {reason}", now)
