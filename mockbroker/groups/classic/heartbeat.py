"""Heartbeat, and OffsetCommit as a sign of life, in a classic group."""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Effects
from mockbroker.groups.classic import membership, replies, rules
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.events import Commit, Heartbeat


def heartbeat(group: ClassicGroup, event: Heartbeat, now: float) -> Effects:
    """A member is alive; REBALANCE_IN_PROGRESS tells it to rejoin, and counts as a sign of life all the same."""
    error = rules.member_error(group, event)
    if not error:
        membership.renew(group, group.members[event.member_id], now)
        error = rules.HEARTBEAT[group.state]
    return [replies.heartbeat_answer(event.ticket, error)]


def commit(group: ClassicGroup, event: Commit, now: float) -> ErrorCode:
    """Whether the group lets this client commit; a member that may has shown a sign of life."""
    error = rules.commit_error(group, event)
    if not error and event.member_id in group.members:
        membership.renew(group, group.members[event.member_id], now)
    return error
