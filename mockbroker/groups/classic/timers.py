"""What is due in a classic group: the initial delay, the two phases of a rebalance, sessions, unused member ids."""

from __future__ import annotations

from mockbroker.base.effects import Effects
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, phases
from mockbroker.groups.classic.state import DELAY, ClassicGroup, Member

MOST_SETTLING = 0.1  # seconds that a first join phase may go on because somebody joins every moment


def tick(group: ClassicGroup, settle: float, now: float) -> Effects:
    """Return everything that is due. Afterwards the next deadline lies ahead of ``now``.

    ``settle``: how long the initial rebalance delay lasts at least after the last JoinGroup, in seconds.
    """
    effects: Effects = []
    while wait := group.waits.pop_due(now):
        match wait:
            case ("delay", _):
                effects += _delay_over(group, settle, now)
            case ("join", _):
                effects += phases.complete_join(group, now)
            case ("sync", _):
                effects += _sync_over(group, now)
            case ("session", member_id):
                effects += _session_over(group, group.members[member_id], now)
            case ("pending", member_id):
                effects.append(membership.pending_gone(group, EventKind.EXPIRE, member_id, "member id was never used"))
                effects += phases.complete_if_all_joined(group, now)
    return effects


def _delay_over(group: ClassicGroup, settle: float, now: float) -> Effects:
    if group.joined_in_delay and group.delay_left > 0:
        group.joined_in_delay = False
        longer = min(group.initial_delay, group.delay_left)
        group.delay_left = max(group.delay_left - group.delay, 0.0)
        group.delay = longer
        group.waits.set(DELAY, now + longer)
        return []
    settled = min(group.last_join + settle, group.since + MOST_SETTLING)
    if now < settled:
        group.waits.set(DELAY, settled)
        return []
    return phases.complete_join(group, now)


def _sync_over(group: ClassicGroup, now: float) -> Effects:
    late = [group.members[member_id] for member_id in sorted(group.unsynced)]
    effects: Effects = []
    for member in late:
        effects += membership.remove(group, member, EventKind.EXPIRE, "no SyncGroup within the rebalance timeout")
    return effects + phases.rebalance(group, f"{len(late)} members did not sync", now)


def _session_over(group: ClassicGroup, member: Member, now: float) -> Effects:
    if (member.join or member.sync) and not member.new:
        return []  # waiting for us; the session begins anew with the answer
    effects = membership.remove(group, member, EventKind.EXPIRE, f"no heartbeat for {member.session_timeout:g} s")
    return effects + phases.rebalance(group, f"session of {member.member_id} timed out", now)
