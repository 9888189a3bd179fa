"""The classic group: join, sync, heartbeat, leave, and the passing of time.

Each function takes the group, what happened and the time in seconds, changes the group, and returns what to do.
Parked requests are tickets in the state; each is answered exactly once, but for one that the same member replaced by
a newer one, and the SyncGroup of a member that leaves: Kafka answers neither.
Source: Kafka's GroupMetadataManager (4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire import ErrorCode
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.calls import Effects, Note, Reply, Ticket
from mockbroker.group import rules
from mockbroker.group.events import Commit, Event, Heartbeat, Join, Leave, Leaving, Sync
from mockbroker.group.state import DELAY, JOIN, SYNC, Group, Member, State, pending_of, session_of

NONE = ErrorCode.NONE
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID


def join_error(ticket: Ticket, error: ErrorCode, member_id: str) -> Reply:
    """A JoinGroup that is refused; most refusals echo the id that was given."""
    return Reply(ticket, JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id))


def sync_error(ticket: Ticket, error: ErrorCode) -> Reply:
    return Reply(ticket, SyncGroupResponse(error_code=error))


# --- what clients ask -------------------------------------------------------------------------------------------


def join(group: Group, event: Join, now: float) -> Effects:
    """Become a member, or come back for the next generation."""
    if not rules.has_room(group, event):
        return _turn_away(group, event, now)
    if not rules.protocols_fit(group, event):
        return [join_error(event.ticket, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, event.member_id)]
    if not event.member_id:
        return _join_without_id(group, event, now)
    if event.member_id in group.pending:
        if event.instance_id is not None:  # the id was given to a dynamic member
            return [join_error(event.ticket, ErrorCode.UNKNOWN_SERVER_ERROR, "")]
        _forget_pending(group, event.member_id)
        return _add_member(group, event, event.member_id, now)
    if error := rules.identity_error(group, event):
        return [join_error(event.ticket, error, event.member_id)]
    return _rejoin(group, group.members[event.member_id], event, now)


def sync(group: Group, event: Sync, now: float) -> Effects:
    """Hand in the assignment (leader), wait for it (the others), or ask for it again."""
    if error := rules.sync_error(group, event):
        return [sync_error(event.ticket, error)]
    member = group.members[event.member_id]
    group.unsynced.discard(member.member_id)
    if not group.unsynced:
        group.waits.forget(SYNC)
    effects: Effects = [_note(group, "sync", member)]
    if group.state is State.STABLE:
        if not group.java_coordinator:
            _renew(group, member, now)
        return [*effects, _synced(group, event.ticket, member)]
    member.sync = event.ticket
    if member.member_id == group.leader:
        effects += _assign(group, event, now)
    return effects


def heartbeat(group: Group, event: Heartbeat, now: float) -> Effects:
    """A member is alive; REBALANCE_IN_PROGRESS tells it to rejoin, and counts as a sign of life all the same."""
    error = rules.member_error(group, event)
    if not error:
        _renew(group, group.members[event.member_id], now)
        error = rules.HEARTBEAT[group.state]
    return [Reply(event.ticket, HeartbeatResponse(error_code=error))]


def leave(group: Group, event: Leave, now: float) -> Effects:
    """Members leave; one rebalance for all of them."""
    effects: Effects = []
    left: list[Member] = []
    answers: list[LeaveGroupResponse.Member] = []
    for leaving in event.members:
        error, member = _who_leaves(group, leaving)
        if member is not None:
            effects += _remove(group, member, "leave", leaving.reason or "left")
            left.append(member)
        answers.append(leave_answer(leaving, error))
    effects.append(Reply(event.ticket, LeaveGroupResponse(members=answers)))
    if left:
        effects += _members_went(group, f"{', '.join(member.member_id for member in left)} left", now)
    elif group.state is State.PREPARING:
        effects += _complete_if_all_joined(group, now)
    return effects


def leave_answer(leaving: Leaving, error: ErrorCode) -> LeaveGroupResponse.Member:
    """One member's line of a LeaveGroup answer: the ids are echoed."""
    return LeaveGroupResponse.Member(
        member_id=leaving.member_id, group_instance_id=leaving.instance_id, error_code=error
    )


def commit(group: Group, event: Commit, now: float) -> ErrorCode:
    """Whether the group lets this client commit; a member that may has shown a sign of life."""
    error = rules.commit_error(group, event)
    if not error and event.member_id in group.members:
        _renew(group, group.members[event.member_id], now)
    return error


# --- what time brings -------------------------------------------------------------------------------------------


def tick(group: Group, now: float) -> Effects:
    """Everything that is due. Afterwards the next deadline lies ahead of ``now``."""
    effects: Effects = []
    while wait := group.waits.pop_due(now):
        match wait:
            case ("delay", _):
                effects += _delay_over(group, now)
            case ("join", _):
                effects += _complete_join(group, now)
            case ("sync", _):
                effects += _sync_over(group, now)
            case ("session", member_id):
                effects += _session_over(group, group.members[member_id], now)
            case ("pending", member_id):
                del group.pending[member_id]
                effects.append(
                    Note(event="expire", group=group.group_id, member_id=member_id, reason="member id was never used")
                )
                effects += _complete_if_all_joined(group, now)
    return effects


def _delay_over(group: Group, now: float) -> Effects:
    if group.joined_in_delay and group.delay_left > 0:
        group.joined_in_delay = False
        longer = min(group.initial_delay, group.delay_left)
        group.delay_left = max(group.delay_left - group.delay, 0.0)
        group.delay = longer
        group.waits.set(DELAY, now + longer)
        return []
    return _complete_join(group, now)


def _sync_over(group: Group, now: float) -> Effects:
    late = [group.members[member_id] for member_id in sorted(group.unsynced)]
    effects: Effects = []
    for member in late:
        effects += _remove(group, member, "expire", "no SyncGroup within the rebalance timeout")
    return effects + _members_went(group, f"{len(late)} members did not sync", now)


def _session_over(group: Group, member: Member, now: float) -> Effects:
    if (member.join or member.sync) and not member.new:
        return []  # waiting for us; the session begins anew with the answer
    effects = _remove(group, member, "expire", f"no heartbeat for {member.session_timeout:g} s")
    return effects + _members_went(group, f"session of {member.member_id} timed out", now)


# --- joining ----------------------------------------------------------------------------------------------------


def _give_id(group: Group, event: Join, now: float) -> Effects:
    group.pending[event.fresh_id] = event.session_timeout
    group.waits.set(pending_of(event.fresh_id), now + event.session_timeout)
    note = Note(event="id_given", group=group.group_id, member_id=event.fresh_id, client_id=event.client_id)
    return [note, join_error(event.ticket, ErrorCode.MEMBER_ID_REQUIRED, event.fresh_id)]


def _join_without_id(group: Group, event: Join, now: float) -> Effects:
    """A static member is never sent away for an id: it has a name already."""
    if event.instance_id is None:
        return _give_id(group, event, now) if event.id_required else _add_member(group, event, event.fresh_id, now)
    if event.instance_id in group.static:
        return _replace(group, group.members[group.static[event.instance_id]], event, now)
    return _add_member(group, event, event.fresh_id, now)


def _turn_away(group: Group, event: Join, now: float) -> Effects:
    """The group is full; a member that came back too late for a place is out."""
    effects: Effects = [join_error(event.ticket, ErrorCode.GROUP_MAX_SIZE_REACHED, "")]
    member = group.members.get(event.member_id)
    if member is not None:
        effects += _remove(group, member, "expire", "the group is full")
    if event.member_id in group.pending:
        _forget_pending(group, event.member_id)
    return effects + _complete_if_all_joined(group, now)


def _forget_pending(group: Group, member_id: str) -> None:
    del group.pending[member_id]
    group.waits.forget(pending_of(member_id))


def _replace(group: Group, member: Member, event: Join, now: float) -> Effects:
    """A static member is back without its id, as after a restart: the old id is fenced, the new one takes its place."""
    was_leader, old_id = group.leader, member.member_id
    effects: Effects = []
    if ticket := group.take_join(member):
        effects.append(join_error(ticket, ErrorCode.FENCED_INSTANCE_ID, old_id))
    if member.sync is not None:
        effects.append(sync_error(member.sync, ErrorCode.FENCED_INSTANCE_ID))
        member.sync = None
    group.waits.forget(session_of(old_id))
    group.rename(member, event.fresh_id)
    _renew(group, member, now)
    _update(group, member, event)
    effects.append(_note(group, "rejoin", member, f"static member {event.instance_id} is back, {old_id} is fenced"))
    if group.state is State.STABLE and rules.choose_protocol(group) == group.protocol:
        return [*effects, _back_in_place(group, member, event, was_leader)]
    if group.state is not State.PREPARING:
        effects += _prepare(group, f"static member {event.instance_id} is back", now)
    group.park_join(member, event.ticket)
    return effects + _complete_if_all_joined(group, now)


def _back_in_place(group: Group, member: Member, event: Join, was_leader: str) -> Reply:
    """No rebalance. Who understands it is told that it leads and need not assign; who does not believes to follow."""
    answer = _joined(group, event.ticket, member)
    response = answer.response
    assert isinstance(response, JoinGroupResponse)
    if event.can_skip:
        response.skip_assignment = member.member_id == group.leader
    else:
        response.leader, response.members = was_leader, []
    return answer


def _update(group: Group, member: Member, event: Join) -> None:
    group.offer(member, event.protocols)
    member.session_timeout = event.session_timeout
    member.rebalance_timeout = event.rebalance_timeout


def _add_member(group: Group, event: Join, member_id: str, now: float) -> Effects:
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
    effects: Effects = [_note(group, "join", member, event.reason)]
    return effects + _rebalance_or_complete(group, f"{member_id} joined", now)


def _rejoin(group: Group, member: Member, event: Join, now: float) -> Effects:
    same = list(member.protocols) == list(event.protocols)
    leads = member.member_id == group.leader
    if (group.state is State.COMPLETING and same) or (group.state is State.STABLE and same and not leads):
        return [_joined(group, event.ticket, member)]
    _update(group, member, event)
    effects: Effects = [_note(group, "rejoin", member, event.reason)]
    why = "rejoined as leader" if leads and same else "rejoined with other metadata"
    if group.state is not State.PREPARING:
        effects += _prepare(group, f"{member.member_id} {why}", now)
    group.park_join(member, event.ticket)
    return effects + _complete_if_all_joined(group, now)


def _rebalance_or_complete(group: Group, reason: str, now: float) -> Effects:
    if group.state is State.PREPARING:
        return _complete_if_all_joined(group, now)
    return _prepare(group, reason, now) + _complete_if_all_joined(group, now)


def _prepare(group: Group, reason: str, now: float) -> Effects:
    """Enter PreparingRebalance: every parked SyncGroup is told, and the join phase gets its deadline."""
    effects: Effects = []
    if group.state is State.COMPLETING:
        effects += _interrupt_syncs(group, now)
    group.waits.forget(SYNC)
    group.unsynced.clear()
    first = group.state is State.EMPTY
    group.move_to(State.PREPARING, now)
    if first:
        group.delay = group.initial_delay
        group.delay_left = max(group.rebalance_timeout() - group.delay, 0.0)
        group.joined_in_delay = False
        group.waits.set(DELAY, now + group.delay)
    else:
        group.waits.set(JOIN, now + group.rebalance_timeout())
    effects.append(Note(event="rebalance", group=group.group_id, generation=group.generation, reason=reason))
    return effects


def _interrupt_syncs(group: Group, now: float) -> Effects:
    effects: Effects = []
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            effects.append(sync_error(member.sync, ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            _renew(group, member, now)
    return effects


def _complete_if_all_joined(group: Group, now: float) -> Effects:
    """The join phase ends early when nobody is missing, but never while the initial delay runs."""
    if group.state is State.PREPARING and DELAY not in group.waits and group.all_joined():
        return _complete_join(group, now)
    return []


def _complete_join(group: Group, now: float) -> Effects:
    """The join phase ends: who did not come is out, and a new generation begins."""
    effects: Effects = []
    group.waits.forget(JOIN)
    group.waits.forget(DELAY)
    for member in [m for m in group.in_map_order() if m.join is None and m.instance_id is None]:
        effects += _remove(group, member, "expire", "no JoinGroup within the rebalance timeout")
    if group.members and not group.parked_joins:  # static members, all of them away: wait once more
        group.waits.set(JOIN, now + group.rebalance_timeout())
        return effects
    _elect(group)
    group.generation += 1
    if not group.members:
        group.move_to(State.EMPTY, now)
        group.protocol = None
        effects.append(Note(event="empty", group=group.group_id, generation=group.generation))
        return effects
    group.protocol = rules.choose_protocol(group)
    group.move_to(State.COMPLETING, now)
    effects.append(
        Note(
            event="generation",
            group=group.group_id,
            generation=group.generation,
            leader=group.leader,
            protocol=group.protocol,
            protocol_type=group.protocol_type,
            members=tuple(group.members),
        )
    )
    for member in group.members.values():
        if ticket := group.take_join(member):
            effects.append(_joined(group, ticket, member))
        member.new = False
        _renew(group, member, now)
    group.unsynced = set(group.members)
    group.waits.set(SYNC, now + group.rebalance_timeout())
    return effects


def _elect(group: Group) -> None:
    """A leader that did not come back is replaced by the first who did."""
    if group.members and group.members[group.leader].join is None:
        group.leader = next(member.member_id for member in group.in_map_order() if member.join is not None)


def _joined(group: Group, ticket: Ticket, member: Member) -> Reply:
    """The answer of a join phase; only the leader sees who is there, and only the metadata of the chosen protocol."""
    assert group.protocol is not None
    members: list[JoinGroupResponse.Member] = []
    if member.member_id == group.leader:
        members = [
            JoinGroupResponse.Member(
                member_id=other.member_id,
                group_instance_id=other.instance_id,
                metadata=other.metadata(group.protocol),
            )
            for other in group.in_map_order()
        ]
    return Reply(
        ticket,
        JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader,
            member_id=member.member_id,
            members=members,
        ),
    )


# --- assigning --------------------------------------------------------------------------------------------------


def _assign(group: Group, event: Sync, now: float) -> Effects:
    """The leader has spoken: everyone parked gets its share; who comes later takes it from the Stable group."""
    plan = {member_id: event.assignments.get(member_id, b"") for member_id in group.members}
    group.move_to(State.STABLE, now)
    effects: Effects = []
    for member in group.members.values():
        member.assignment = plan[member.member_id]
        effects.append(
            Note(
                event="assign",
                group=group.group_id,
                member_id=member.member_id,
                client_id=member.client_id,
                generation=group.generation,
                protocol=group.protocol or "",
                protocol_type=group.protocol_type,
                assignment=member.assignment,
            )
        )
        if member.sync is not None:
            effects.append(_synced(group, member.sync, member))
            member.sync = None
            _renew(group, member, now)
    return effects


def _synced(group: Group, ticket: Ticket, member: Member) -> Reply:
    return Reply(
        ticket,
        SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        ),
    )


# --- members that go --------------------------------------------------------------------------------------------


def _who_leaves(group: Group, leaving: Leaving) -> tuple[ErrorCode, Member | None]:
    """The member to take out, if any. An administrator names a static member by its instance alone."""
    if not leaving.member_id:
        member_id = group.holder(leaving.instance_id)
        return (UNKNOWN_MEMBER_ID, None) if member_id is None else (NONE, group.members[member_id])
    if leaving.member_id in group.pending:
        _forget_pending(group, leaving.member_id)
        return NONE, None
    error = rules.identity_error(group, leaving)
    return error, None if error else group.members[leaving.member_id]


def _remove(group: Group, member: Member, event: str, reason: str) -> Effects:
    """Take a member out; its parked JoinGroup is answered, the group is not yet told."""
    effects: Effects = [_note(group, event, member, reason)]
    if ticket := group.take_join(member):
        effects.append(join_error(ticket, UNKNOWN_MEMBER_ID, ""))
    group.remove(member)
    group.unsynced.discard(member.member_id)
    group.waits.forget(session_of(member.member_id))
    if group.leader == member.member_id:
        group.leader = next((other.member_id for other in group.in_map_order()), "")
    return effects


def _members_went(group: Group, reason: str, now: float) -> Effects:
    """After members were removed: rebalance, or end the join phase that waited for them."""
    if group.state is State.PREPARING:
        return _complete_if_all_joined(group, now)
    return _prepare(group, reason, now) + _complete_if_all_joined(group, now)


def _renew(group: Group, member: Member, now: float) -> None:
    """The member's session begins anew."""
    group.waits.set(session_of(member.member_id), now + member.session_timeout)


def _note(group: Group, event: str, member: Member, reason: str = "") -> Note:
    return Note(
        event=event,
        group=group.group_id,
        member_id=member.member_id,
        client_id=member.client_id,
        generation=group.generation,
        reason=reason,
    )


STEPS: Mapping[type, Callable[..., Effects]] = {Join: join, Sync: sync, Heartbeat: heartbeat, Leave: leave}


def step(group: Group, event: Event, now: float) -> Effects:
    """What ``event`` does to the group."""
    return STEPS[type(event)](group, event, now)


def absent(event: Event) -> Effects:
    """What is answered for a group that does not exist; a JoinGroup without id makes it, and does not come here."""
    match event:
        case Join():
            return [join_error(event.ticket, UNKNOWN_MEMBER_ID, event.member_id)]
        case Sync():
            return [sync_error(event.ticket, UNKNOWN_MEMBER_ID)]
        case Heartbeat():
            return [Reply(event.ticket, HeartbeatResponse(error_code=UNKNOWN_MEMBER_ID))]
        case Leave():
            answers = [leave_answer(leaving, UNKNOWN_MEMBER_ID) for leaving in event.members]
            return [Reply(event.ticket, LeaveGroupResponse(members=answers))]
