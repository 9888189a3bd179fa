"""The requests that renew a session in a classic group: Heartbeat and OffsetCommit."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.base.effects import Effects
from mockbroker.groups.classic import membership, replies, rules
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.events import Commit, Heartbeat


def heartbeat(group: ClassicGroup, event: Heartbeat, now: float) -> Effects:
    """Renew the session of a valid member, and answer the Heartbeat. Return the effects: responses and journal events.

    The session is renewed even if the response is REBALANCE_IN_PROGRESS. After this response, the member has to rejoin.

    Args:
        group: the group.
        event: the Heartbeat.
        now: the current time in seconds.
    """
    error = rules.member_error(group, event)
    if not error:
        membership.renew_session(group, group.members[event.member_id], now)
        error = rules.HEARTBEAT_ERRORS[group.state]
    return [replies.heartbeat_response(event.ticket, error)]


def renew_valid_session(group: ClassicGroup, request: HeartbeatRequest, now: float) -> ErrorCode | None:
    """Handle a Heartbeat with a valid member and generation in the same way as ``heartbeat``, but faster.

    Args:
        group: The group.
        request: The Heartbeat.
        now: The current time in seconds.

    Returns:
        The error code of the response; None if ``heartbeat`` must handle the request, because it may not be valid.
    """
    member_id, instance_id = request.member_id, request.group_instance_id
    member = group.members.get(member_id)
    if member is None or request.generation_id != group.generation:
        return None
    if instance_id is not None and group.static_members.get(instance_id) != member_id:
        return None
    membership.renew_session(group, member, now)
    return rules.HEARTBEAT_ERRORS[group.state]


def commit(group: ClassicGroup, event: Commit, now: float) -> ErrorCode:
    """Return the error of an OffsetCommit, or NONE. An accepted commit renews the session of the member.

    For the errors, see ``rules.commit_error``.

    Args:
        group: the group.
        event: the request.
        now: the current time in seconds.
    """
    error = rules.commit_error(group, event)
    if not error and event.member_id in group.members:
        membership.renew_session(group, group.members[event.member_id], now)
    return error
