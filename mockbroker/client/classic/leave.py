"""The LeaveGroup request of a dynamic member.

Source: AbstractCoordinator.maybeLeaveGroup of kafka-clients.
"""

from __future__ import annotations

from kwire.messages.leave_group import LEAVE_GROUP, LeaveGroupRequest
from mockbroker.client.call import OutgoingCall
from mockbroker.client.classic.status import MemberStatus
from mockbroker.client.components import Components

FIRST_VERSION_WITH_MEMBERS = 3  # v3 lists members; v5 adds the reason


def send_leave(components: Components, status: MemberStatus, reason: str) -> OutgoingCall | None:
    """Send LeaveGroup for a member, and reset its generation; return the request.

    Return None without sending if the member is static, if it has no member id, or if the coordinator is unavailable.

    Args:
        components: The components of the consumer.
        status: Status of the member.
        reason: Why the member leaves; sent to the coordinator.
    """
    member_id, group_id = status.member_id, components.group_id
    static = components.settings.group_instance_id is not None
    status.reset_generation()
    if not member_id or static:
        return None

    def build(version: int) -> LeaveGroupRequest:
        if version < FIRST_VERSION_WITH_MEMBERS:
            return LeaveGroupRequest(group_id=group_id, member_id=member_id)
        member = LeaveGroupRequest.Member(member_id=member_id, reason=reason)
        return LeaveGroupRequest(group_id=group_id, members=[member])

    return components.coordinator.send_request(LEAVE_GROUP.key, build)
