"""The responses to requests of the classic protocol."""

from __future__ import annotations

from functools import cache

from kwire import ErrorCode
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.base.effects import Reply, Ticket
from mockbroker.groups.classic.state import ClassicGroup, Member
from mockbroker.groups.events import LeavingMember


def join_error(ticket: Ticket, error: ErrorCode, member_id: str) -> Reply:
    """Return the error response to a JoinGroup.

    Args:
        ticket: Ticket of the request.
        error: Error code.
        member_id: Member id in the response: the member id of the request, the new member id with MEMBER_ID_REQUIRED,
            or "" with some errors.
    """
    return Reply(ticket, JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id))


def sync_error(ticket: Ticket, error: ErrorCode) -> Reply:
    return Reply(ticket, SyncGroupResponse(error_code=error))


def heartbeat_response(ticket: Ticket, error: ErrorCode) -> Reply:
    response, encoded = _heartbeat_response(error)
    return Reply(ticket, response, encoded)


@cache
def _heartbeat_response(error: ErrorCode) -> tuple[HeartbeatResponse, dict[int, bytes]]:
    return HeartbeatResponse(error_code=error), {}


def leave_response_member(leaving: LeavingMember, error: ErrorCode) -> LeaveGroupResponse.Member:
    """Return the response element for one member in a LeaveGroup request.

    Args:
        leaving: The member in the LeaveGroup.
        error: Error of the member.
    """
    return LeaveGroupResponse.Member(
        member_id=leaving.member_id, group_instance_id=leaving.instance_id, error_code=error
    )


def join_response(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
    """Return the successful response to a JoinGroup.

    Only the leader's response contains the list of members, with their metadata for the selected protocol.

    Args:
        group: The group.
        ticket: Ticket of the request, with which its response is sent.
        member: The member that sent the request.
    """
    assert group.protocol is not None
    members: list[JoinGroupResponse.Member] = []
    if member.member_id == group.leader:
        members = [
            JoinGroupResponse.Member(
                member_id=other.member_id,
                group_instance_id=other.instance_id,
                metadata=other.metadata(group.protocol),
            )
            for other in group.in_map_order()
        ]
    return Reply(
        ticket,
        JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader,
            member_id=member.member_id,
            members=members,
        ),
    )


def sync_response(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
    return Reply(
        ticket,
        SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        ),
    )
