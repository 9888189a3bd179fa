"""The classic group by request: which module answers which, and what is answered without a group.

Each function takes the group, what happened and the time in seconds, changes the group, and returns what to do.
Parked requests are tickets in the state; each is answered exactly once, but for one that the same member replaced by
a newer one, and the SyncGroup of a member that leaves: Kafka answers neither. The modules of the requests and timers.py
use phases.py, which uses membership.py, replies.py and rules.py; nothing calls upwards.
Source: Kafka's GroupMetadataManager (4.2).
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
    """Change the group as a request wants it, and return the effects."""
    return REQUESTS[type(event)](group, event, now)


def absent(event: Event) -> Effects:
    """What is answered for a group that does not exist; a JoinGroup without id makes it, and does not come here."""
    match event:
        case Heartbeat():
            return [replies.heartbeat_answer(event.ticket, UNKNOWN_MEMBER_ID)]
        case Join():
            return [replies.join_error(event.ticket, UNKNOWN_MEMBER_ID, event.member_id)]
        case Sync():
            return [replies.sync_error(event.ticket, UNKNOWN_MEMBER_ID)]
        case Leave():
            answers = [replies.leave_answer(leaving, UNKNOWN_MEMBER_ID) for leaving in event.members]
            return [Reply(event.ticket, LeaveGroupResponse(members=answers))]
