"""LeaveGroup in a classic group. Source: Kafka's GroupMetadataManager.classicGroupLeave (4.2)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.leave_group import LeaveGroupResponse
from mockbroker.base.effects import Effects, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.groups.classic import membership, phases, replies, rules
from mockbroker.groups.classic.state import PREPARING, ClassicGroup, Member
from mockbroker.groups.events import Leave, Leaving

NONE = ErrorCode.NONE
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID


def leave(group: ClassicGroup, event: Leave, now: float) -> Effects:
    """Members leave; one rebalance for all of them."""
    effects: Effects = []
    left: list[Member] = []
    answers: list[LeaveGroupResponse.Member] = []
    for leaving in event.members:
        if leaving.member_id in group.pending:
            reason = leaving.reason or "left before it joined"
            effects.append(membership.pending_gone(group, EventKind.LEAVE, leaving.member_id, reason))
            answers.append(replies.leave_answer(leaving, NONE))
            continue
        error, member = _who_leaves(group, leaving)
        if member is not None:
            effects += membership.remove(group, member, EventKind.LEAVE, leaving.reason or "left")
            left.append(member)
        answers.append(replies.leave_answer(leaving, error))
    effects.append(Reply(event.ticket, LeaveGroupResponse(members=answers)))
    if left:
        effects += phases.rebalance(group, f"{', '.join(member.member_id for member in left)} left", now)
    elif group.state is PREPARING:
        effects += phases.complete_if_all_joined(group, now)
    return effects


def _who_leaves(group: ClassicGroup, leaving: Leaving) -> tuple[ErrorCode, Member | None]:
    """The member to take out, if any. An administrator names a static member by its instance alone."""
    if not leaving.member_id:
        member_id = group.holder(leaving.instance_id)
        return (UNKNOWN_MEMBER_ID, None) if member_id is None else (NONE, group.members[member_id])
    error = rules.identity_error(group, leaving)
    return error, None if error else group.members[leaving.member_id]
