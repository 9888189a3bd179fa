"""The state machine of a classic group: the table of the functions that handle the requests.

Each function takes the group, the event and the current time in seconds, changes the group and returns effects. Pending
requests are stored in the group as tickets.

Every ticket is answered once, with two exceptions, as in Kafka. A pending request is dropped if its member sends a
newer one. The SyncGroup of a leaving member is dropped.

The modules of the requests and timers.py use phases.py, which uses membership.py, replies.py and rules.py. Source:
Kafka's GroupMetadataManager (4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire import ErrorCode
from kwire.messages.leave_group import LeaveGroupResponse
from mockbroker.base.effects import Effects, Reply
from mockbroker.groups.classic import replies
from mockbroker.groups.classic.heartbeat import heartbeat
from mockbroker.groups.classic.join import join
from mockbroker.groups.classic.leave import leave
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.classic.sync import sync
from mockbroker.groups.events import Event, Heartbeat, Join, Leave, Sync

UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID

REQUESTS: Mapping[type, Callable[..., Effects]] = {Join: join, Sync: sync, Heartbeat: heartbeat, Leave: leave}


def receive(group: ClassicGroup, event: Event, now: float) -> Effects:
    """Handle a request, and return the effects: responses and journal events.

    Args:
        group: the group.
        event: the request.
        now: the current time in seconds.
    """
    return REQUESTS[type(event)](group, event, now)


def receive_without_group(event: Event) -> Effects:
    """Return the UNKNOWN_MEMBER_ID response to a request for a group that does not exist.

    Exception: a JoinGroup without member id creates the group (``ClassicType.receive_without_group``).
    """
    match event:
        case Heartbeat():
            return [replies.heartbeat_response(event.ticket, UNKNOWN_MEMBER_ID)]
        case Join():
            return [replies.join_error(event.ticket, UNKNOWN_MEMBER_ID, event.member_id)]
        case Sync():
            return [replies.sync_error(event.ticket, UNKNOWN_MEMBER_ID)]
        case Leave():
            answers = [replies.leave_response_member(leaving, UNKNOWN_MEMBER_ID) for leaving in event.members]
            return [Reply(event.ticket, LeaveGroupResponse(members=answers))]
