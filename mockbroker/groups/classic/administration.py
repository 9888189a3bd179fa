"""Requests of an administrator to a classic group: the eviction of a member, and a rebalance."""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Effects
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, phases, replies
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.events import AdminEvent, Evict, Rebalance


def administer(group: ClassicGroup, event: AdminEvent, now: float) -> Effects:
    """Evict a member of the group or start a rebalance, depending on ``event``.

    If the member is unknown, or the group of a rebalance has no members, nothing changes, and the result is empty.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        event: the eviction or the rebalance.
        now: the current time in seconds.
    """
    match event:
        case Evict():
            return _evict(group, event, now)
        case Rebalance():
            return [] if group.empty else phases.rebalance(group, event.reason, now)


def _evict(group: ClassicGroup, event: Evict, now: float) -> Effects:
    """Remove a member or an unused member id. An unknown member id has no effect.

    The removal of a member starts a rebalance. The removal of an unused member id may complete the join phase.

    Return the effects: responses and journal events.

    Pending requests of the member are answered with UNKNOWN_MEMBER_ID, even a SyncGroup. (When a member leaves, its
    SyncGroup is not answered. But an evicted client is still running.)

    Args:
        group: the group.
        event: the eviction.
        now: the current time in seconds.
    """
    if event.member_id in group.pending_members:
        note = membership.remove_and_note_pending_id(group, EventKind.EXPIRE, event.member_id, event.reason)
        return [note, *phases.maybe_complete_join_phase(group, now)]
    member = group.members.get(event.member_id)
    if member is None:
        return []
    effects: Effects = []
    if member.pending_sync is not None:
        effects.append(replies.sync_error(member.pending_sync, ErrorCode.UNKNOWN_MEMBER_ID))
    effects += membership.remove(group, member, EventKind.EXPIRE, event.reason)
    return effects + phases.rebalance(group, f"{member.member_id} was evicted", now)
