"""The phases of a rebalance: its start, the end of the join phase, and the election of the leader.

Source: Kafka's GroupMetadataManager and ClassicGroup (4.2).
"""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, replies, rules
from mockbroker.groups.classic.state import (
    COMPLETING,
    EMPTY,
    INITIAL_DELAY_TIMER,
    JOIN_TIMER,
    PREPARING,
    SYNC_TIMER,
    ClassicGroup,
)
from mockbroker.groups.coordinated import generation_note


def rebalance(group: ClassicGroup, reason: str, now: float) -> Effects:
    """Start a join phase unless one is in progress, and complete it if all members have joined.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        reason: why the rebalance starts, for the journal.
        now: the current time in seconds.
    """
    membership.ensure_leader(group)
    effects = [] if group.state is PREPARING else prepare_rebalance(group, reason, now)
    return effects + maybe_complete_join_phase(group, now)


def prepare_rebalance(group: ClassicGroup, reason: str, now: float) -> Effects:
    """Enter the state PreparingRebalance: fail pending SyncGroups, and set the deadline of the join phase.

    If the group was empty, the initial rebalance delay starts, and the join phase has no deadline yet.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        reason: why the rebalance starts, for the journal.
        now: the current time in seconds.
    """
    effects: Effects = []
    if group.state is COMPLETING:
        effects += fail_pending_syncs(group, now)
    group.timers.forget(SYNC_TIMER)
    group.pending_sync_members.clear()
    was_empty = group.state is EMPTY
    group.transition_to(PREPARING, now)
    if was_empty:
        group.remaining_delay = max(group.rebalance_timeout() - group.initial_delay, 0.0)
        group.new_member_added = False
        group.timers.set(INITIAL_DELAY_TIMER, now + group.initial_delay)
    else:
        group.timers.set(JOIN_TIMER, now + group.rebalance_timeout())
    effects.append(Note(event=EventKind.REBALANCE, group=group.group_id, generation=group.generation, reason=reason))
    return effects


def fail_pending_requests(group: ClassicGroup, error: ErrorCode) -> Effects:
    """Answer all pending JoinGroups and SyncGroups with an error, because the group is unloaded or converted.

    Return the responses.
    """
    effects: Effects = []
    for member in group.in_map_order():
        if ticket := group.pop_pending_join(member):
            effects.append(replies.join_error(ticket, error, member.member_id))
        if member.pending_sync is not None:
            effects.append(replies.sync_error(member.pending_sync, error))
            member.pending_sync = None
    return effects


def fail_pending_syncs(group: ClassicGroup, now: float) -> Effects:
    """Clear all assignments, and answer pending SyncGroups with REBALANCE_IN_PROGRESS. Return the responses.

    Args:
        group: The group.
        now: The current time in seconds. The session timeouts of the answered members start at this time.
    """
    effects: Effects = []
    for member in group.members.values():
        member.assignment = b""
        if member.pending_sync is not None:
            effects.append(replies.sync_error(member.pending_sync, ErrorCode.REBALANCE_IN_PROGRESS))
            member.pending_sync = None
            membership.renew_session(group, member, now)
    return effects


def maybe_complete_join_phase(group: ClassicGroup, now: float) -> Effects:
    """Complete a join phase in which all members have joined, unless the initial rebalance delay is in progress.

    Args:
        group: The group.
        now: The current time in seconds.

    Returns: the effects; [] if the join phase continues.
    """
    if group.state is PREPARING and INITIAL_DELAY_TIMER not in group.timers and group.all_members_joined():
        return complete_join_phase(group, now)
    return []


def complete_join_phase(group: ClassicGroup, now: float) -> Effects:
    """End the join phase: remove dynamic members that did not rejoin, and start a generation.

    If only static members remain, and none of them has rejoined, the join phase continues for another rebalance
    timeout. If no member remains, the group becomes Empty. Otherwise the pending JoinGroups are answered, and the group
    waits for the SyncGroups.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        now: the current time in seconds.
    """
    effects: Effects = []
    group.timers.forget(JOIN_TIMER)
    members = [] if group.pending_join_count == len(group.members) else group.in_map_order()
    for member in [m for m in members if m.pending_join is None and m.instance_id is None]:
        effects += membership.remove(group, member, EventKind.EXPIRE, "no JoinGroup within the rebalance timeout")
    if group.members and not group.pending_join_count:  # only static members, and none has rejoined: wait again
        group.timers.set(JOIN_TIMER, now + group.rebalance_timeout())
        return effects
    elect_leader(group)
    group.generation += 1
    if not group.members:
        group.transition_to(EMPTY, now)
        group.protocol = None
        effects.append(Note(event=EventKind.EMPTY, group=group.group_id, generation=group.generation))
        return effects
    group.protocol = rules.select_protocol(group)
    group.transition_to(COMPLETING, now)
    effects.append(generation_note(group, group.protocol, group.leader))
    for member in group.members.values():
        if ticket := group.pop_pending_join(member):
            effects.append(replies.join_response(group, ticket, member))
        if member.is_new:
            member.is_new = False
        membership.renew_session(group, member, now)
    group.pending_sync_members = set(group.members)
    group.timers.set(SYNC_TIMER, now + group.rebalance_timeout())
    return effects


def elect_leader(group: ClassicGroup) -> None:
    """If the group has no leader, or the leader has not rejoined, elect a rejoined member as leader.

    The new leader is the first rejoined member in the iteration order of Kafka's HashMap.
    """
    membership.ensure_leader(group)
    if group.members and group.members[group.leader].pending_join is None:
        group.leader = next(member.member_id for member in group.in_map_order() if member.pending_join is not None)
