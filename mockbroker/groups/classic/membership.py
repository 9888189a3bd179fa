"""Members of a classic group: they leave, their sessions are renewed, and ids that were given out are forgotten.

Source: Kafka's GroupMetadataManager and ClassicGroup (4.2).
"""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import replies
from mockbroker.groups.classic.state import ClassicGroup, Member, pending_of
from mockbroker.groups.coordinated import member_note, session_of


def remove(group: ClassicGroup, member: Member, event: EventKind, reason: str) -> Effects:
    """Take a member out; its parked JoinGroup is answered, the group is not yet told."""
    effects: Effects = [member_note(group, event, member, reason)]
    if ticket := group.take_join(member):
        effects.append(replies.join_error(ticket, ErrorCode.UNKNOWN_MEMBER_ID, ""))
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


def forget_pending(group: ClassicGroup, member_id: str) -> str:
    """The id is not given out any more; the client that had it."""
    group.waits.forget(pending_of(member_id))
    return group.pending.pop(member_id)


def pending_gone(group: ClassicGroup, event: EventKind, member_id: str, reason: str) -> Note:
    client_id = forget_pending(group, member_id)
    return Note(event=event, group=group.group_id, member_id=member_id, client_id=client_id, reason=reason)
