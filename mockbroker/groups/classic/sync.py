"""The handler of SyncGroup in a classic group. Source: Kafka's GroupMetadataManager.classicGroupSync (4.2)."""

from __future__ import annotations

from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, replies, rules
from mockbroker.groups.classic.state import STABLE, SYNC_TIMER, ClassicGroup
from mockbroker.groups.coordinated import member_note
from mockbroker.groups.events import Sync

SYNC_EVENT, ASSIGN_EVENT = EventKind.SYNC, EventKind.ASSIGN  # local names are faster, and used for each member


def sync(group: ClassicGroup, event: Sync, now: float) -> Effects:
    """Handle a SyncGroup: store the leader's assignments, keep a follower's request pending, or answer in Stable.

    A request that is not valid is answered with the error of ``rules.sync_error``.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        event: the SyncGroup.
        now: the current time in seconds.
    """
    if error := rules.sync_error(group, event):
        return [replies.sync_error(event.ticket, error)]
    member = group.members[event.member_id]
    group.pending_sync_members.discard(member.member_id)
    if not group.pending_sync_members:
        group.timers.forget(SYNC_TIMER)
    effects: Effects = [member_note(group, SYNC_EVENT, member)]
    if group.state is STABLE:
        if group.quirks.sync_in_stable_renews_session:
            membership.renew_session(group, member, now)
        return [*effects, replies.sync_response(group, event.ticket, member)]
    member.pending_sync = event.ticket
    if member.member_id == group.leader:
        effects += propagate_assignment(group, event, now)
    return effects


def propagate_assignment(group: ClassicGroup, event: Sync, now: float) -> Effects:
    """Store the leader's assignments, enter Stable, and answer all pending SyncGroups.

    Return the effects: responses and journal events.

    A member that is missing in the leader's assignments gets an empty assignment.

    Args:
        group: the group.
        event: the leader's SyncGroup.
        now: the current time in seconds.
    """
    assignments = {member_id: event.assignments.get(member_id, b"") for member_id in group.members}
    group.transition_to(STABLE, now)
    effects: Effects = []
    for member in group.members.values():
        member.assignment = assignments[member.member_id]
        effects.append(
            Note(
                event=ASSIGN_EVENT,
                group=group.group_id,
                member_id=member.member_id,
                client_id=member.client_id,
                generation=group.generation,
                protocol=group.protocol or "",
                protocol_type=group.protocol_type,
                assignment=member.assignment,
            )
        )
        if member.pending_sync is not None:
            effects.append(replies.sync_response(group, member.pending_sync, member))
            member.pending_sync = None
            membership.renew_session(group, member, now)
    return effects
