"""The handler of LeaveGroup v0-5."""

from __future__ import annotations

from kwire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import in_slices, split_array
from mockbroker.groups.events import Leave, LeavingMember


def _handle(broker: Broker, call: Call[LeaveGroupRequest], now: float) -> Effects:
    request = call.request
    if error := broker.group_error(request.group_id, call.client.node):
        return [Reply(call.ticket, LeaveGroupResponse(error_code=error))]
    members = [
        LeavingMember(member_id=member.member_id, instance_id=member.group_instance_id, reason=member.reason or "")
        for member in request.members
    ]
    if call.version < 3:  # one member, in the request itself
        members = [LeavingMember(member_id=request.member_id)]
    return broker.groups.receive(request.group_id, Leave(ticket=call.ticket, members=members), now)


def _merge(response: LeaveGroupResponse, more: LeaveGroupResponse) -> None:
    response.members += more.members
    response.error_code = response.error_code or more.error_code


handle = in_slices(_handle, split_array("members"), _merge)


def adapt_response(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Return the response in the format of its API version.

    Before v3, the response contains only one error code: that of the request, or that of its single member.
    """
    if version >= 3:
        return response
    errors = [member.error_code for member in response.members]
    return LeaveGroupResponse(error_code=response.error_code or next(iter(errors), 0))
