"""The handler of LeaveGroup in a classic group. Source: Kafka's GroupMetadataManager.classicGroupLeave (4.2)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.leave_group import LeaveGroupResponse
from mockbroker.base.effects import Effects, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, phases, replies, rules
from mockbroker.groups.classic.state import PREPARING, ClassicGroup, Member
from mockbroker.groups.events import Leave, LeavingMember

NONE = ErrorCode.NONE
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID


def leave(group: ClassicGroup, event: Leave, now: float) -> Effects:
    """Remove the members that a LeaveGroup lists, with a single rebalance for all of them.

    The list may contain pending member ids. Their removal starts no rebalance, but may complete the join phase.

    Return the effects: responses and journal events.

    Args:
        group: the group.
        event: the LeaveGroup.
        now: the current time in seconds.
    """
    effects: Effects = []
    removed: list[Member] = []
    answers: list[LeaveGroupResponse.Member] = []
    for leaving in event.members:
        if leaving.member_id in group.pending_members:
            reason = leaving.reason or "left before it joined"
            effects.append(membership.remove_and_note_pending_id(group, EventKind.LEAVE, leaving.member_id, reason))
            answers.append(replies.leave_response_member(leaving, NONE))
            continue
        error, member = _find_leaving_member(group, leaving)
        if member is not None:
            effects += membership.remove(group, member, EventKind.LEAVE, leaving.reason or "left")
            removed.append(member)
        answers.append(replies.leave_response_member(leaving, error))
    effects.append(Reply(event.ticket, LeaveGroupResponse(members=answers)))
    if removed:
        effects += phases.rebalance(group, f"{', '.join(member.member_id for member in removed)} left", now)
    elif group.state is PREPARING:
        effects += phases.maybe_complete_join_phase(group, now)
    return effects


def _find_leaving_member(group: ClassicGroup, leaving: LeavingMember) -> tuple[ErrorCode, Member | None]:
    """Return NONE and the member to remove, or an error and None.

    An element without a member id, as administrators send it, identifies a static member by its instance id.

    Args:
        group: The group.
        leaving: The member in the LeaveGroup.
    """
    if not leaving.member_id:
        member_id = group.static_member_id(leaving.instance_id)
        return (UNKNOWN_MEMBER_ID, None) if member_id is None else (NONE, group.members[member_id])
    error = rules.identity_error(group, leaving)
    return error, None if error else group.members[leaving.member_id]
