"""LeaveGroup: a dynamic member leaves its group. Source: AbstractCoordinator.maybeLeaveGroup."""

from __future__ import annotations

from kwire.messages.leave_group import LEAVE_GROUP, LeaveGroupRequest
from mockbroker.client.call import OutgoingCall
from mockbroker.client.classic.status import MemberStatus
from mockbroker.client.parts import Parts

WITH_REASON = 3  # the version that names members, and why they leave


def send_leave(parts: Parts, status: MemberStatus, reason: str) -> OutgoingCall | None:
    """Send LeaveGroup and forget the generation. None without a request: static members come back, without an id there
    is nothing to leave, or the coordinator cannot be reached."""
    member_id, group_id = status.member_id, parts.group or ""
    static = parts.settings.group_instance_id is not None
    status.forget()
    if not member_id or static:
        return None

    def build(version: int) -> LeaveGroupRequest:
        if version < WITH_REASON:
            return LeaveGroupRequest(group_id=group_id, member_id=member_id)
        member = LeaveGroupRequest.Member(member_id=member_id, reason=reason)
        return LeaveGroupRequest(group_id=group_id, members=[member])

    return parts.coordinator.ask(LEAVE_GROUP.key, build)
