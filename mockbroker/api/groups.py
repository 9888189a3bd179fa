"""Operations of an administrator on groups: eviction, rebalances and committed offsets, without a client."""

from __future__ import annotations

from mockbroker.base.effects import Effects
from mockbroker.base.errors import NotFoundError
from mockbroker.broker.broker import Broker
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.events import Evict

EVICTED = "evicted by an administrator"


class UnknownGroupError(NotFoundError):
    """A group does not exist, or its coordinator has not loaded it."""


class UnknownMemberError(NotFoundError):
    """A group has no member with this member id."""


def evict(broker: Broker, group_id: str, member_id: str, reason: str, now: float) -> Effects:
    """Remove a member of a group; return the effects.

    Args:
        broker: The state of the cluster.
        group_id: The group.
        member_id: The member, or a member id that no JoinGroup has used yet.
        reason: Reason for the journal; "" for none.
        now: The broker's time in seconds.

    Raises: UnknownGroupError; UnknownMemberError.
    """
    group = get_group(broker, group_id)
    member_ids = ", ".join(map(repr, group.members))
    effects = broker.groups.receive(group_id, Evict(member_id, f"{EVICTED}: {reason}" if reason else EVICTED), now)
    if not effects:
        raise UnknownMemberError(f"group {group_id!r} has no member {member_id!r}; its members: {member_ids or 'none'}")
    return effects


def get_group(broker: Broker, group_id: str) -> CoordinatedGroup:
    """Return a group. Raises: UnknownGroupError."""
    group = broker.groups.get(group_id)
    if group is None:
        names = ", ".join(map(repr, sorted(broker.groups)))
        raise UnknownGroupError(f"group {group_id!r} does not exist; existing groups: {names or 'none'}")
    return group
