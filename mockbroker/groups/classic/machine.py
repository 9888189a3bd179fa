"""The classic group: join, sync, heartbeat, leave, and the passing of time.

Each function takes the group, what happened and the time in seconds, changes the group, and returns what to do.
Parked requests are tickets in the state; each is answered exactly once, but for one that the same member replaced by
a newer one, and the SyncGroup of a member that leaves: Kafka answers neither.
Source: Kafka's GroupMetadataManager (4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire import ErrorCode
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupResponse
from mockbroker.base.effects import Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import phases, rules
from mockbroker.groups.classic.state import DELAY, SYNC, ClassicGroup, Member, State, pending_of
from mockbroker.groups.coordinated import session_of
from mockbroker.groups.events import Commit, Event, Heartbeat, Join, Leave, Leaving, Sync

NONE = ErrorCode.NONE
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID
MOST_SETTLING = 0.1  # seconds that a first join phase may go on because somebody joins every moment


# --- what clients ask -------------------------------------------------------------------------------------------


def join(group: ClassicGroup, event: Join, now: float) -> Effects:
    """Become a member, or come back for the next generation."""
    group.last_join = now
    if not rules.has_room(group, event):
        return _turn_away(group, event, now)
    if not rules.protocols_fit(group, event):
        return [phases.join_error(event.ticket, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, event.member_id)]
    if not event.member_id:
        return _join_without_id(group, event, now)
    if event.member_id in group.pending:
        if event.instance_id is not None:  # the id was given to a dynamic member
            return [phases.join_error(event.ticket, ErrorCode.UNKNOWN_SERVER_ERROR, "")]
        _forget_pending(group, event.member_id)
        return _add_member(group, event, event.member_id, now)
    if error := rules.identity_error(group, event):
        return [phases.join_error(event.ticket, error, event.member_id)]
    return _rejoin(group, group.members[event.member_id], event, now)


def sync(group: ClassicGroup, event: Sync, now: float) -> Effects:
    """Hand in the assignment (leader), wait for it (the others), or ask for it again."""
    if error := rules.sync_error(group, event):
        return [phases.sync_error(event.ticket, error)]
    member = group.members[event.member_id]
    group.unsynced.discard(member.member_id)
    if not group.unsynced:
        group.waits.forget(SYNC)
    effects: Effects = [phases.note(group, EventKind.SYNC, member)]
    if group.state is State.STABLE:
        if not group.java_coordinator:
            phases.renew(group, member, now)
        return [*effects, phases.synced(group, event.ticket, member)]
    member.sync = event.ticket
    if member.member_id == group.leader:
        effects += phases.assign(group, event, now)
    return effects


def heartbeat(group: ClassicGroup, event: Heartbeat, now: float) -> Effects:
    """A member is alive; REBALANCE_IN_PROGRESS tells it to rejoin, and counts as a sign of life all the same."""
    error = rules.member_error(group, event)
    if not error:
        phases.renew(group, group.members[event.member_id], now)
        error = rules.HEARTBEAT[group.state]
    return [phases.heartbeat_answer(event.ticket, error)]


def leave(group: ClassicGroup, event: Leave, now: float) -> Effects:
    """Members leave; one rebalance for all of them."""
    effects: Effects = []
    left: list[Member] = []
    answers: list[LeaveGroupResponse.Member] = []
    for leaving in event.members:
        if leaving.member_id in group.pending:
            effects.append(
                _pending_gone(group, EventKind.LEAVE, leaving.member_id, leaving.reason or "left before it joined")
            )
            answers.append(leave_answer(leaving, NONE))
            continue
        error, member = _who_leaves(group, leaving)
        if member is not None:
            effects += phases.remove(group, member, EventKind.LEAVE, leaving.reason or "left")
            left.append(member)
        answers.append(leave_answer(leaving, error))
    effects.append(Reply(event.ticket, LeaveGroupResponse(members=answers)))
    if left:
        effects += phases.rebalance(group, f"{', '.join(member.member_id for member in left)} left", now)
    elif group.state is State.PREPARING:
        effects += phases.complete_if_all_joined(group, now)
    return effects


def leave_answer(leaving: Leaving, error: ErrorCode) -> LeaveGroupResponse.Member:
    """One member's line of a LeaveGroup answer: the ids are echoed."""
    return LeaveGroupResponse.Member(
        member_id=leaving.member_id, group_instance_id=leaving.instance_id, error_code=error
    )


def commit(group: ClassicGroup, event: Commit, now: float) -> ErrorCode:
    """Whether the group lets this client commit; a member that may has shown a sign of life."""
    error = rules.commit_error(group, event)
    if not error and event.member_id in group.members:
        phases.renew(group, group.members[event.member_id], now)
    return error


# --- what time brings -------------------------------------------------------------------------------------------


def tick(group: ClassicGroup, now: float) -> Effects:
    """Everything that is due. Afterwards the next deadline lies ahead of ``now``."""
    effects: Effects = []
    while wait := group.waits.pop_due(now):
        match wait:
            case ("delay", _):
                effects += _delay_over(group, now)
            case ("join", _):
                effects += phases.complete_join(group, now)
            case ("sync", _):
                effects += _sync_over(group, now)
            case ("session", member_id):
                effects += _session_over(group, group.members[member_id], now)
            case ("pending", member_id):
                effects.append(_pending_gone(group, EventKind.EXPIRE, member_id, "member id was never used"))
                effects += phases.complete_if_all_joined(group, now)
    return effects


def _delay_over(group: ClassicGroup, now: float) -> Effects:
    if group.joined_in_delay and group.delay_left > 0:
        group.joined_in_delay = False
        longer = min(group.initial_delay, group.delay_left)
        group.delay_left = max(group.delay_left - group.delay, 0.0)
        group.delay = longer
        group.waits.set(DELAY, now + longer)
        return []
    settled = min(group.last_join + group.settle, group.since + MOST_SETTLING)
    if now < settled:
        group.waits.set(DELAY, settled)
        return []
    return phases.complete_join(group, now)


def _sync_over(group: ClassicGroup, now: float) -> Effects:
    late = [group.members[member_id] for member_id in sorted(group.unsynced)]
    effects: Effects = []
    for member in late:
        effects += phases.remove(group, member, EventKind.EXPIRE, "no SyncGroup within the rebalance timeout")
    return effects + phases.rebalance(group, f"{len(late)} members did not sync", now)


def _session_over(group: ClassicGroup, member: Member, now: float) -> Effects:
    if (member.join or member.sync) and not member.new:
        return []  # waiting for us; the session begins anew with the answer
    effects = phases.remove(group, member, EventKind.EXPIRE, f"no heartbeat for {member.session_timeout:g} s")
    return effects + phases.rebalance(group, f"session of {member.member_id} timed out", now)


# --- joining ----------------------------------------------------------------------------------------------------


def _give_id(group: ClassicGroup, event: Join, now: float) -> Effects:
    group.pending[event.fresh_id] = event.client_id
    group.waits.set(pending_of(event.fresh_id), now + event.session_timeout)
    note = Note(event=EventKind.ID_GIVEN, group=group.group_id, member_id=event.fresh_id, client_id=event.client_id)
    return [note, phases.join_error(event.ticket, ErrorCode.MEMBER_ID_REQUIRED, event.fresh_id)]


def _join_without_id(group: ClassicGroup, event: Join, now: float) -> Effects:
    """A static member is never sent away for an id: it has a name already."""
    if event.instance_id is None:
        return _give_id(group, event, now) if event.id_required else _add_member(group, event, event.fresh_id, now)
    if event.instance_id in group.static:
        return _replace(group, group.members[group.static[event.instance_id]], event, now)
    return _add_member(group, event, event.fresh_id, now)


def _turn_away(group: ClassicGroup, event: Join, now: float) -> Effects:
    """The group is full; a member that came too late for a place is out. Kafka 4 does not look who is missing now."""
    effects: Effects = [phases.join_error(event.ticket, ErrorCode.GROUP_MAX_SIZE_REACHED, "")]
    member = group.members.get(event.member_id)
    if member is not None:
        effects += phases.remove(group, member, EventKind.EXPIRE, "the group is full")
        phases.inherit(group)
    if event.member_id in group.pending:
        _forget_pending(group, event.member_id)
    return effects if group.java_coordinator else effects + phases.complete_if_all_joined(group, now)


def _forget_pending(group: ClassicGroup, member_id: str) -> str:
    """The id is not given out any more; the client that had it."""
    group.waits.forget(pending_of(member_id))
    return group.pending.pop(member_id)


def _pending_gone(group: ClassicGroup, event: EventKind, member_id: str, reason: str) -> Note:
    client_id = _forget_pending(group, member_id)
    return Note(event=event, group=group.group_id, member_id=member_id, client_id=client_id, reason=reason)


def _replace(group: ClassicGroup, member: Member, event: Join, now: float) -> Effects:
    """A static member is back without its id, as after a restart: the old id is fenced, the new one takes its place."""
    was_leader, old_id = group.leader, member.member_id
    effects: Effects = []
    if ticket := group.take_join(member):
        effects.append(phases.join_error(ticket, ErrorCode.FENCED_INSTANCE_ID, old_id))
    if member.sync is not None:
        effects.append(phases.sync_error(member.sync, ErrorCode.FENCED_INSTANCE_ID))
        member.sync = None
    group.waits.forget(session_of(old_id))
    group.rename(member, event.fresh_id)
    phases.renew(group, member, now)
    _update(group, member, event)
    effects.append(
        phases.note(group, EventKind.REJOIN, member, f"static member {event.instance_id} is back, {old_id} is fenced")
    )
    if group.state is State.STABLE and rules.choose_protocol(group) == group.protocol:
        return [*effects, _back_in_place(group, member, event, was_leader)]
    group.park_join(member, event.ticket)
    return effects + phases.rebalance(group, f"static member {event.instance_id} is back", now)


def _back_in_place(group: ClassicGroup, member: Member, event: Join, was_leader: str) -> Reply:
    """No rebalance. Who understands it is told that it leads and need not assign; who does not believes to follow."""
    answer = phases.joined(group, event.ticket, member)
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
    if group.state is State.PREPARING and group.came_from is State.EMPTY:
        group.joined_in_delay = group.java_coordinator or group.generation == 0
    effects: Effects = [phases.note(group, EventKind.JOIN, member, event.reason)]
    return effects + phases.rebalance(group, f"{member_id} joined", now)


def _rejoin(group: ClassicGroup, member: Member, event: Join, now: float) -> Effects:
    same = list(member.protocols) == list(event.protocols)
    leads = member.member_id == group.leader
    if (group.state is State.COMPLETING and same) or (group.state is State.STABLE and same and not leads):
        return [phases.joined(group, event.ticket, member)]
    _update(group, member, event)
    effects: Effects = [phases.note(group, EventKind.REJOIN, member, event.reason)]
    why = "rejoined as leader" if leads and same else "rejoined with other metadata"
    group.park_join(member, event.ticket)
    return effects + phases.rebalance(group, f"{member.member_id} {why}", now)


# --- members that go --------------------------------------------------------------------------------------------


def _who_leaves(group: ClassicGroup, leaving: Leaving) -> tuple[ErrorCode, Member | None]:
    """The member to take out, if any. An administrator names a static member by its instance alone."""
    if not leaving.member_id:
        member_id = group.holder(leaving.instance_id)
        return (UNKNOWN_MEMBER_ID, None) if member_id is None else (NONE, group.members[member_id])
    error = rules.identity_error(group, leaving)
    return error, None if error else group.members[leaving.member_id]


STEPS: Mapping[type, Callable[..., Effects]] = {Join: join, Sync: sync, Heartbeat: heartbeat, Leave: leave}


def step(group: ClassicGroup, event: Event, now: float) -> Effects:
    """What ``event`` does to the group."""
    return STEPS[type(event)](group, event, now)


def absent(event: Event) -> Effects:
    """What is answered for a group that does not exist; a JoinGroup without id makes it, and does not come here."""
    match event:
        case Heartbeat():
            return [phases.heartbeat_answer(event.ticket, UNKNOWN_MEMBER_ID)]
        case Join():
            return [phases.join_error(event.ticket, UNKNOWN_MEMBER_ID, event.member_id)]
        case Sync():
            return [phases.sync_error(event.ticket, UNKNOWN_MEMBER_ID)]
        case Leave():
            answers = [leave_answer(leaving, UNKNOWN_MEMBER_ID) for leaving in event.members]
            return [Reply(event.ticket, LeaveGroupResponse(members=answers))]
