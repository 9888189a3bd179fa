"""The checks of requests in a classic group, as tables that map conditions to error codes.

Source: Kafka's GroupMetadataManager and ClassicGroup (4.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from kwire import ErrorCode
from kwire.java import map_order
from mockbroker.groups.classic.state import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroup, Member, State
from mockbroker.groups.events import Commit, Heartbeat, Join, LeavingMember, Sync

NONE = ErrorCode.NONE
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL_GENERATION = ErrorCode.ILLEGAL_GENERATION
FENCED_INSTANCE_ID = ErrorCode.FENCED_INSTANCE_ID
REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
INCONSISTENT_GROUP_PROTOCOL = ErrorCode.INCONSISTENT_GROUP_PROTOCOL

NEW_MEMBER_TIMEOUT = 300.0  # seconds that a first join may be pending; Kafka's classicGroupNewMemberJoinTimeoutMs

Identified = Sync | Heartbeat | Commit
Identity = Identified | Join | LeavingMember
Check = tuple[ErrorCode, Callable[[ClassicGroup, Identity], bool]]

# Checks of a request with an instance id: the first condition that is true determines the error.
STATIC_CHECKS: tuple[Check, ...] = (
    (UNKNOWN_MEMBER_ID, lambda group, event: event.instance_id not in group.static_members),
    (FENCED_INSTANCE_ID, lambda group, event: group.static_member_id(event.instance_id) != event.member_id),
)

# The error of a valid Heartbeat, by state.
HEARTBEAT_ERRORS = {
    EMPTY: UNKNOWN_MEMBER_ID,
    PREPARING: REBALANCE_IN_PROGRESS,
    COMPLETING: NONE,
    STABLE: NONE,
}
# The error of a valid OffsetCommit, by state. Members may commit before they rejoin, but not before they sync.
COMMIT_ERRORS = {
    EMPTY: NONE,
    PREPARING: NONE,
    COMPLETING: REBALANCE_IN_PROGRESS,
    STABLE: NONE,
}


def identity_error(group: ClassicGroup, event: Identity) -> ErrorCode:
    """Return the error if the member id or the instance id does not identify a member, else NONE.

    The error is UNKNOWN_MEMBER_ID if the member id or the instance id is unknown, and FENCED_INSTANCE_ID if the
    instance id belongs to another member id.

    Args:
        group: the group.
        event: the request, with its member id and instance id.
    """
    if event.instance_id is not None:
        for error, holds in STATIC_CHECKS:
            if holds(group, event):
                return error
    return NONE if event.member_id in group.members else UNKNOWN_MEMBER_ID


def member_error(group: ClassicGroup, event: Identified) -> ErrorCode:
    """Return the error if the member or its generation is not valid, else NONE.

    The errors are those of ``identity_error``, and ILLEGAL_GENERATION.

    Args:
        group: the group.
        event: the request, with its member id, instance id and generation.
    """
    if error := identity_error(group, event):
        return error
    return ILLEGAL_GENERATION if event.generation != group.generation else NONE


def sync_error(group: ClassicGroup, event: Sync) -> ErrorCode:
    """Return the error of a SyncGroup, or NONE if the request is valid.

    The errors are those of ``member_error``, INCONSISTENT_GROUP_PROTOCOL, and REBALANCE_IN_PROGRESS.
    """
    if error := member_error(group, event):
        return error
    if event.protocol_type not in (None, group.protocol_type) or event.protocol_name not in (None, group.protocol):
        return INCONSISTENT_GROUP_PROTOCOL
    return REBALANCE_IN_PROGRESS if group.state is PREPARING else NONE


def commit_error(group: ClassicGroup, event: Commit) -> ErrorCode:
    """Return the error of an OffsetCommit, or NONE if the request is valid.

    The errors are those of ``member_error``, UNKNOWN_MEMBER_ID for a client that is not a member of a group with
    members, and REBALANCE_IN_PROGRESS for a member that has joined but has no assignment yet.

    An empty group accepts commits of clients that are not members.
    """
    if event.generation < 0 and group.state is EMPTY:
        return NONE
    if event.has_member_identity:
        return member_error(group, event) or COMMIT_ERRORS[group.state]
    return UNKNOWN_MEMBER_ID


def transactional_commit_error(group: ClassicGroup, event: Commit) -> ErrorCode:
    """Return the error of a TxnOffsetCommit, or NONE if the request is valid.

    For the errors, see ``member_error``.

    An empty group accepts commits without a generation; otherwise, the state of the group is not checked.
    """
    if not event.has_member_identity or (event.generation < 0 and group.state is EMPTY):
        return NONE
    return member_error(group, event)


# Checks of a JoinGroup before the check of the member id: the first condition that is true determines the error.
JOIN_CHECKS: tuple[tuple[ErrorCode, Callable[[ClassicGroup, Join], bool]], ...] = (
    (ErrorCode.GROUP_MAX_SIZE_REACHED, lambda group, event: not accepts_joining_member(group, event)),
    (INCONSISTENT_GROUP_PROTOCOL, lambda group, event: not supports_protocols(group, event)),
    # the member id was assigned to a dynamic member
    (ErrorCode.UNKNOWN_SERVER_ERROR, lambda group, event: is_static_with_pending_id(group, event)),
)
ERRORS_WITHOUT_MEMBER_ID = {
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}  # the response has no id

# Whether the size of the group allows a JoinGroup, by state. Pending members do not count.
ACCEPTS_JOIN: Mapping[State, Callable[[ClassicGroup, Member | None], bool]] = {
    EMPTY: lambda _group, _member: True,
    PREPARING: lambda group, member: has_pending_join(member) or group.pending_join_count < group.max_size,
    COMPLETING: lambda group, member: member is not None or len(group.members) < group.max_size,
    STABLE: lambda group, member: member is not None or len(group.members) < group.max_size,
}

# A member that rejoins with unchanged protocols gets the current generation without a rebalance in these cases: state,
# and whether the member is the leader. A leader that rejoins a stable group requests a new assignment.
CURRENT_GENERATION = {(COMPLETING, True), (COMPLETING, False), (STABLE, False)}


def join_error(group: ClassicGroup, event: Join) -> ErrorCode:
    """Return the error of a JoinGroup, or NONE if the request is valid.

    The errors are those of ``JOIN_CHECKS`` and of ``identity_error``.
    """
    for error, holds in JOIN_CHECKS:
        if holds(group, event):
            return error
    return NONE if not event.member_id or event.member_id in group.pending_members else identity_error(group, event)


def exceeds_pending_members(event: Join, pending_member_count: int, limit: int) -> bool:
    """Return whether a JoinGroup would add a pending member beyond the limit.

    Args:
        event: The request.
        pending_member_count: Number of pending members in all groups.
        limit: Maximum number of pending members in all groups.
    """
    needs_id = event.require_member_id and not event.member_id and event.instance_id is None
    return needs_id and pending_member_count >= limit


def accepts_joining_member(group: ClassicGroup, event: Join) -> bool:
    """Return whether a JoinGroup is allowed by group.max.size.

    The JoinGroup is allowed if the group is not full, or if the sender already belongs to the group.

    Args:
        group: The group.
        event: The JoinGroup.
    """
    return ACCEPTS_JOIN[group.state](group, group.members.get(event.member_id))


def has_pending_join(member: Member | None) -> bool:
    """Return whether a JoinGroup of the member is pending; False if ``member`` is None."""
    return member is not None and member.pending_join is not None


def is_static_with_pending_id(group: ClassicGroup, event: Join) -> bool:
    """Return whether a static member joins with a pending member id.

    Args:
        group: The group.
        event: The JoinGroup.
    """
    return event.instance_id is not None and event.member_id in group.pending_members


def gets_current_generation(group: ClassicGroup, member: Member, event: Join) -> bool:
    """Return whether a JoinGroup is answered immediately with the current generation, because it needs no rebalance.

    Args:
        group: The group.
        member: The member that sent the request.
        event: The JoinGroup.
    """
    unchanged = list(member.protocols) == list(event.protocols)
    return unchanged and (group.state, member.member_id == group.leader) in CURRENT_GENERATION


def supports_protocols(group: ClassicGroup, event: Join) -> bool:
    """Return whether a JoinGroup has the protocol type of the group, and lists a protocol that all members support."""
    if not group.members:
        return bool(event.protocol_type) and bool(event.protocols)
    if event.protocol_type != group.protocol_type:
        return False
    size, supported = len(group.members), group.supported_protocols
    return any(supported[name] == size for name, _ in event.protocols)


def select_protocol(group: ClassicGroup) -> str:
    """Return the name of the protocol with the most votes. The group must have members.

    A member votes for the first protocol in its list that all members support. If several protocols have the most
    votes, the first of them in the order of a Java HashMap is selected. With the quirk ``last_protocol_wins_ties``, the
    last of them is selected.
    """
    votes = Counter(
        next(name for name, _ in member.protocols if group.all_support(name)) for member in group.members.values()
    )
    names = map_order(votes)
    return max(reversed(names) if group.quirks.last_protocol_wins_ties else names, key=lambda name: votes[name])
