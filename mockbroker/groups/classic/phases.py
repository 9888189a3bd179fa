"""The phases of a rebalance: it begins, the join phase ends, a leader is elected.

Source: Kafka's GroupMetadataManager and ClassicGroup (4.2).
"""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, replies, rules
from mockbroker.groups.classic.state import COMPLETING, DELAY, EMPTY, JOIN, PREPARING, SYNC, ClassicGroup


def rebalance(group: ClassicGroup, reason: str, now: float) -> Effects:
    """Members came or went: begin a join phase, or end the one that waited for them."""
    membership.inherit(group)
    begun = [] if group.state is PREPARING else prepare(group, reason, now)
    return begun + complete_if_all_joined(group, now)


def prepare(group: ClassicGroup, reason: str, now: float) -> Effects:
    """Enter PreparingRebalance: every parked SyncGroup is told, and the join phase gets its deadline."""
    effects: Effects = []
    if group.state is COMPLETING:
        effects += interrupt_syncs(group, now)
    group.waits.forget(SYNC)
    group.unsynced.clear()
    first = group.state is EMPTY
    group.move_to(PREPARING, now)
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
            effects.append(replies.join_error(ticket, error, member.member_id))
        if member.sync is not None:
            effects.append(replies.sync_error(member.sync, error))
            member.sync = None
    return effects


def interrupt_syncs(group: ClassicGroup, now: float) -> Effects:
    effects: Effects = []
    for member in group.members.values():
        member.assignment = b""
        if member.sync is not None:
            effects.append(replies.sync_error(member.sync, ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            membership.renew(group, member, now)
    return effects


def complete_if_all_joined(group: ClassicGroup, now: float) -> Effects:
    """The join phase ends early when nobody is missing, but never while the initial delay runs."""
    if group.state is PREPARING and DELAY not in group.waits and group.all_joined():
        return complete_join(group, now)
    return []


def complete_join(group: ClassicGroup, now: float) -> Effects:
    """The join phase ends: who did not come is out, and a new generation begins."""
    effects: Effects = []
    group.waits.forget(JOIN)
    group.waits.forget(DELAY)
    late = [] if group.parked_joins == len(group.members) else group.in_map_order()
    for member in [m for m in late if m.join is None and m.instance_id is None]:
        effects += membership.remove(group, member, EventKind.EXPIRE, "no JoinGroup within the rebalance timeout")
    if group.members and not group.parked_joins:  # static members, all of them away: wait once more
        group.waits.set(JOIN, now + group.rebalance_timeout())
        return effects
    elect(group)
    group.generation += 1
    if not group.members:
        group.move_to(EMPTY, now)
        group.protocol = None
        effects.append(Note(event=EventKind.EMPTY, group=group.group_id, generation=group.generation))
        return effects
    group.protocol = rules.choose_protocol(group)
    group.move_to(COMPLETING, now)
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
            effects.append(replies.joined(group, ticket, member))
        if member.new:
            member.new = False
        membership.renew(group, member, now)
    group.unsynced = set(group.members)
    group.waits.set(SYNC, now + group.rebalance_timeout())
    return effects


def elect(group: ClassicGroup) -> None:
    """A leader that did not come back is replaced by the first who did."""
    membership.inherit(group)
    if group.members and group.members[group.leader].join is None:
        group.leader = next(member.member_id for member in group.in_map_order() if member.join is not None)
