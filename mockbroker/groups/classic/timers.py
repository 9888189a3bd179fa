"""The handling of a classic group's timers.

The timers are those of the initial delay, the join phase, pending SyncGroups, sessions and pending members.
"""

from __future__ import annotations

from mockbroker.base.effects import Effects
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, phases
from mockbroker.groups.classic.state import INITIAL_DELAY_TIMER, ClassicGroup, Member

MAX_SETTLE = 0.1  # seconds after which join_settle does not extend a first join phase any more


def tick(group: ClassicGroup, join_settle: float, now: float) -> Effects:
    """Handle all timers that are due at ``now``, and return the effects: responses and journal events.

    Args:
        group: the group.
        join_settle: minimum time in seconds between the last JoinGroup and the end of the initial rebalance delay.
        now: the current time in seconds.
    """
    effects: Effects = []
    while timer := group.timers.pop_due(now):
        match timer:
            case ("delay", _):
                effects += _initial_delay_expired(group, join_settle, now)
            case ("join", _):
                effects += phases.complete_join_phase(group, now)
            case ("sync", _):
                effects += _pending_sync_expired(group, now)
            case ("session", member_id):
                effects += _session_expired(group, group.members[member_id], now)
            case ("pending", member_id):
                effects.append(
                    membership.remove_and_note_pending_id(
                        group, EventKind.EXPIRE, member_id, "member id was never used"
                    )
                )
                effects += phases.maybe_complete_join_phase(group, now)
    return effects


def _initial_delay_expired(group: ClassicGroup, join_settle: float, now: float) -> Effects:
    if group.new_member_added and group.remaining_delay > 0:
        group.new_member_added = False
        delay = min(group.initial_delay, group.remaining_delay)
        group.remaining_delay = max(group.remaining_delay - group.initial_delay, 0.0)
        group.timers.set(INITIAL_DELAY_TIMER, now + delay)
        return []
    settled_at = min(group.last_join_at + join_settle, group.state_since + MAX_SETTLE)
    if now < settled_at:
        group.timers.set(INITIAL_DELAY_TIMER, settled_at)
        return []
    return phases.complete_join_phase(group, now)


def _pending_sync_expired(group: ClassicGroup, now: float) -> Effects:
    members = [group.members[member_id] for member_id in sorted(group.pending_sync_members)]
    effects: Effects = []
    for member in members:
        effects += membership.remove(group, member, EventKind.EXPIRE, "no SyncGroup within the rebalance timeout")
    return effects + phases.rebalance(group, f"{len(members)} members did not sync", now)


def _session_expired(group: ClassicGroup, member: Member, now: float) -> Effects:
    if (member.pending_join or member.pending_sync) and not member.is_new:
        return []  # the response renews the session
    effects = membership.remove(group, member, EventKind.EXPIRE, f"no heartbeat for {member.session_timeout:g} s")
    return effects + phases.rebalance(group, f"session of {member.member_id} timed out", now)
