"""The answers of the classic protocol."""

from __future__ import annotations

from functools import cache

from kwire import ErrorCode
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupResponse
from kwire.messages.sync_group import SyncGroupResponse
from mockbroker.base.effects import Reply, Ticket
from mockbroker.groups.classic.state import ClassicGroup, Member
from mockbroker.groups.events import Leaving


def join_error(ticket: Ticket, error: ErrorCode, member_id: str) -> Reply:
    """A JoinGroup that is refused; most refusals echo the id that was given."""
    return Reply(ticket, JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id))


def sync_error(ticket: Ticket, error: ErrorCode) -> Reply:
    return Reply(ticket, SyncGroupResponse(error_code=error))


def heartbeat_answer(ticket: Ticket, error: ErrorCode) -> Reply:
    response, encoded = _heartbeat_answer(error)
    return Reply(ticket, response, encoded)


@cache
def _heartbeat_answer(error: ErrorCode) -> tuple[HeartbeatResponse, dict[int, bytes]]:
    return HeartbeatResponse(error_code=error), {}


def leave_answer(leaving: Leaving, error: ErrorCode) -> LeaveGroupResponse.Member:
    """One member's line of a LeaveGroup answer: the ids are echoed."""
    return LeaveGroupResponse.Member(
        member_id=leaving.member_id, group_instance_id=leaving.instance_id, error_code=error
    )


def joined(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
    """The answer of a join phase; only the leader sees who is there, and only the metadata of the chosen protocol."""
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


def synced(group: ClassicGroup, ticket: Ticket, member: Member) -> Reply:
    return Reply(
        ticket,
        SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
        ),
    )
