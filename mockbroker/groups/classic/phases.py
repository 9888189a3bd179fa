"""The phases of a rebalance: who joins, who gets what, and who is taken out. Steps that all of classic.py shares.

Source: Kafka's GroupMetadataManager and ClassicGroup (4.2).
"""

from __future__ import annotations

from functools import cache

from kwire import ErrorCode
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.base.effects import Effects, Note, Reply, Ticket
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import rules
from mockbroker.groups.classic.state import DELAY, JOIN, SYNC, ClassicGroup, Member, State
from mockbroker.groups.coordinated import session_of
from mockbroker.groups.events import Sync


def join_error(ticket: Ticket, error: ErrorCode, member_id: str) -> Reply:
    """A JoinGroup that is refused; most refusals echo the id that was given."""
    return Reply(ticket, JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id))


def sync_error(ticket: Ticket, error: ErrorCode) -> Reply:
    return Reply(ticket, SyncGroupResponse(error_code=error))


def heartbeat_answer(ticket: Ticket, error: ErrorCode) -> Reply:
    response, encoded = _heartbeat_answer(error)
    return Reply(ticket, response, encoded)


@cache
def _heartbeat_answer(error: ErrorCode) -> tuple[HeartbeatResponse, dict[int, bytes]]:
    return HeartbeatResponse(error_code=error), {}


# --- joining ----------------------------------------------------------------------------------------------------


def rebalance(group: ClassicGroup, reason: str, now: float) -> Effects:
    """Members came or went: begin a join phase, or end the one that waited for them."""
    inherit(group)
    begun = [] if group.state is State.PREPARING else prepare(group, reason, now)
    return begun + complete_if_all_joined(group, now)


def prepare(group: ClassicGroup, reason: str, now: float) -> Effects:
    """Enter PreparingRebalance: every parked SyncGroup is told, and the join phase gets its deadline."""
    effects: Effects = []
    if group.state is State.COMPLETING:
        effects += interrupt_syncs(group, now)
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
    effects.append(Note(event=EventKind.REBALANCE, group=group.group_id, generation=group.generation, reason=reason))
    return effects


def turn_away(group: ClassicGroup, error: ErrorCode) -> Effects:
    """Answers to everybody who is parked in a group that is about to be no more, here or at all."""
    effects: Effects = []
    for member in group.in_map_order():
        if ticket := group.take_join(member):
            effects.append(join_error(ticket, error, member.member_id))
        if member.sync is not None:
            effects.append(sync_error(member.sync, error))
            member.sync = None
    return effects


def interrupt_syncs(group: ClassicGroup, now: float) -> Effects:
    effects: Effects = []
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            effects.append(sync_error(member.sync, ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            renew(group, member, now)
    return effects


def complete_if_all_joined(group: ClassicGroup, now: float) -> Effects:
    """The join phase ends early when nobody is missing, but never while the initial delay runs."""
    if group.state is State.PREPARING and DELAY not in group.waits and group.all_joined():
        return complete_join(group, now)
    return []


def complete_join(group: ClassicGroup, now: float) -> Effects:
    """The join phase ends: who did not come is out, and a new generation begins."""
    effects: Effects = []
    group.waits.forget(JOIN)
    group.waits.forget(DELAY)
    late = [] if group.parked_joins == len(group.members) else group.in_map_order()
    for member in [m for m in late if m.join is None and m.instance_id is None]:
        effects += remove(group, member, EventKind.EXPIRE, "no JoinGroup within the rebalance timeout")
    if group.members and not group.parked_joins:  # static members, all of them away: wait once more
        group.waits.set(JOIN, now + group.rebalance_timeout())
        return effects
    elect(group)
    group.generation += 1
    if not group.members:
        group.move_to(State.EMPTY, now)
        group.protocol = None
        effects.append(Note(event=EventKind.EMPTY, group=group.group_id, generation=group.generation))
        return effects
    group.protocol = rules.choose_protocol(group)
    group.move_to(State.COMPLETING, now)
    effects.append(
        Note(
            event=EventKind.GENERATION,
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
            effects.append(joined(group, ticket, member))
        member.new = False
        renew(group, member, now)
    group.unsynced = set(group.members)
    group.waits.set(SYNC, now + group.rebalance_timeout())
    return effects


def elect(group: ClassicGroup) -> None:
    """A leader that did not come back is replaced by the first who did."""
    inherit(group)
    if group.members and group.members[group.leader].join is None:
        group.leader = next(member.member_id for member in group.in_map_order() if member.join is not None)


def joined(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
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


def assign(group: ClassicGroup, event: Sync, now: float) -> Effects:
    """The leader has spoken: everyone parked gets its share; who comes later takes it from the Stable group."""
    plan = {member_id: event.assignments.get(member_id, b"") for member_id in group.members}
    group.move_to(State.STABLE, now)
    effects: Effects = []
    for member in group.members.values():
        member.assignment = plan[member.member_id]
        effects.append(
            Note(
                event=EventKind.ASSIGN,
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
            effects.append(synced(group, member.sync, member))
            member.sync = None
            renew(group, member, now)
    return effects


def synced(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
    return Reply(
        ticket,
        SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        ),
    )


# --- members ----------------------------------------------------------------------------------------------------


def remove(group: ClassicGroup, member: Member, event: EventKind, reason: str) -> Effects:
    """Take a member out; its parked JoinGroup is answered, the group is not yet told."""
    effects: Effects = [note(group, event, member, reason)]
    if ticket := group.take_join(member):
        effects.append(join_error(ticket, ErrorCode.UNKNOWN_MEMBER_ID, ""))
    group.remove(member)
    group.unsynced.discard(member.member_id)
    group.waits.forget(session_of(member.member_id))
    if group.leader == member.member_id:
        group.leader = ""  # until ``inherit``; many may go at once
    return effects


def inherit(group: ClassicGroup) -> None:
    """If the leader has gone, the first of those who are left leads."""
    if not group.leader and group.members:
        group.leader = group.in_map_order()[0].member_id


def renew(group: ClassicGroup, member: Member, now: float) -> None:
    """The member's session begins anew."""
    group.waits.set(session_of(member.member_id), now + member.session_timeout)


def note(group: ClassicGroup, event: EventKind, member: Member, reason: str = "") -> Note:
    return Note(
        event=event,
        group=group.group_id,
        member_id=member.member_id,
        client_id=member.client_id,
        generation=group.generation,
        reason=reason,
    )
