"""The changes to the members of a classic group, such as removals, a new leader, and renewals of sessions.

Source: Kafka's GroupMetadataManager and ClassicGroup (4.2).
"""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import replies
from mockbroker.groups.classic.state import ClassicGroup, Member, pending_member_timer
from mockbroker.groups.coordinated import member_note, session_timer


def remove(group: ClassicGroup, member: Member, event: EventKind, reason: str) -> Effects:
    """Remove a member, and answer its pending JoinGroup with UNKNOWN_MEMBER_ID.

    Return the effects: responses and journal events.

    If the member is the leader, the group has no leader until ``ensure_leader`` is called. The caller starts the
    rebalance.

    Args:
        group: the group.
        member: the member.
        event: kind of the journal event.
        reason: reason in the journal event.
    """
    effects: Effects = [member_note(group, event, member, reason)]
    if ticket := group.pop_pending_join(member):
        effects.append(replies.join_error(ticket, ErrorCode.UNKNOWN_MEMBER_ID, ""))
    group.remove_member(member)
    group.pending_sync_members.discard(member.member_id)
    group.timers.forget(session_timer(member.member_id))
    if group.leader == member.member_id:
        group.leader = ""  # until ``ensure_leader``; several members may be removed first
    return effects


def ensure_leader(group: ClassicGroup) -> None:
    """Choose a leader if the group has members, but no leader.

    As in Kafka, the new leader is the first member in the iteration order of a Java HashMap.
    """
    if not group.leader and group.members:
        group.leader = group.in_map_order()[0].member_id


def renew_session(group: ClassicGroup, member: Member, now: float) -> None:
    """Restart the session timeout of a member. ``now``: the current time in seconds."""
    group.timers.set(session_timer(member.member_id), now + member.session_timeout)


def remove_pending_member(group: ClassicGroup, member_id: str) -> str:
    """Remove a pending member id (a member id with which no JoinGroup has been sent yet) from a group.

    Return the ``client.id`` of the client to which the member id was assigned.
    """
    group.timers.forget(pending_member_timer(member_id))
    return group.pending_members.pop(member_id)


def remove_and_note_pending_id(group: ClassicGroup, event: EventKind, member_id: str, reason: str) -> Note:
    """Remove a pending member id, and return the journal event about the removal.

    Args:
        group: The group.
        event: The kind of the journal event.
        member_id: The pending member id.
        reason: Reason in the journal event.
    """
    client_id = remove_pending_member(group, member_id)
    return Note(event=event, group=group.group_id, member_id=member_id, client_id=client_id, reason=reason)
