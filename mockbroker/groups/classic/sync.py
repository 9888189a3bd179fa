"""SyncGroup in a classic group. Source: Kafka's GroupMetadataManager.classicGroupSync (4.2)."""

from __future__ import annotations

from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, replies, rules
from mockbroker.groups.classic.state import STABLE, SYNC, ClassicGroup
from mockbroker.groups.coordinated import member_note
from mockbroker.groups.events import Sync

SYNCED, ASSIGNED = EventKind.SYNC, EventKind.ASSIGN  # read for each member


def sync(group: ClassicGroup, event: Sync, now: float) -> Effects:
    """Hand in the assignment (leader), wait for it (the others), or ask for it again."""
    if error := rules.sync_error(group, event):
        return [replies.sync_error(event.ticket, error)]
    member = group.members[event.member_id]
    group.unsynced.discard(member.member_id)
    if not group.unsynced:
        group.waits.forget(SYNC)
    effects: Effects = [member_note(group, SYNCED, member)]
    if group.state is STABLE:
        if group.quirks.sync_in_stable_renews_session:
            membership.renew(group, member, now)
        return [*effects, replies.synced(group, event.ticket, member)]
    member.sync = event.ticket
    if member.member_id == group.leader:
        effects += assign(group, event, now)
    return effects


def assign(group: ClassicGroup, event: Sync, now: float) -> Effects:
    """The leader has spoken: everyone parked gets its share; who comes later takes it from the Stable group."""
    plan = {member_id: event.assignments.get(member_id, b"") for member_id in group.members}
    group.move_to(STABLE, now)
    effects: Effects = []
    for member in group.members.values():
        member.assignment = plan[member.member_id]
        effects.append(
            Note(
                event=ASSIGNED,
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
            effects.append(replies.synced(group, member.sync, member))
            member.sync = None
            membership.renew(group, member, now)
    return effects
