"""Decision tables of the classic group, and the order of checks. Tables run, so they cannot drift from the code.

Source: Kafka's GroupMetadataManager and ClassicGroup (4.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from kwire import ErrorCode
from kwire.java import map_order
from mockbroker.groups.classic.state import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroup, Member, State
from mockbroker.groups.events import Commit, Heartbeat, Join, Leaving, Sync

NONE = ErrorCode.NONE
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL_GENERATION = ErrorCode.ILLEGAL_GENERATION
FENCED_INSTANCE_ID = ErrorCode.FENCED_INSTANCE_ID
REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
INCONSISTENT_GROUP_PROTOCOL = ErrorCode.INCONSISTENT_GROUP_PROTOCOL

NEW_MEMBER_TIMEOUT = 300.0  # seconds a first join may stay parked; Kafka's classicGroupNewMemberJoinTimeoutMs

Identified = Sync | Heartbeat | Commit
Identity = Identified | Join | Leaving
Check = tuple[ErrorCode, Callable[[ClassicGroup, Identity], bool]]

# Which static member asks: the first that holds is the answer.
STATIC_CHECKS: tuple[Check, ...] = (
    (UNKNOWN_MEMBER_ID, lambda group, event: event.instance_id not in group.static),
    (FENCED_INSTANCE_ID, lambda group, event: group.holder(event.instance_id) != event.member_id),
)

# What a member in good standing is told. In CompletingRebalance a heartbeat is answered normally.
HEARTBEAT = {
    EMPTY: UNKNOWN_MEMBER_ID,
    PREPARING: REBALANCE_IN_PROGRESS,
    COMPLETING: NONE,
    STABLE: NONE,
}
# Commits before rejoining are welcome; between the phases nobody owns anything.
COMMIT = {
    EMPTY: NONE,
    PREPARING: NONE,
    COMPLETING: REBALANCE_IN_PROGRESS,
    STABLE: NONE,
}


def identity_error(group: ClassicGroup, event: Identity) -> ErrorCode:
    """What is wrong with who says that it is a member, or NONE."""
    if event.instance_id is not None:
        for error, holds in STATIC_CHECKS:
            if holds(group, event):
                return error
    return NONE if event.member_id in group.members else UNKNOWN_MEMBER_ID


def member_error(group: ClassicGroup, event: Identified) -> ErrorCode:
    """What is wrong with who asks for a generation, or NONE."""
    if error := identity_error(group, event):
        return error
    return ILLEGAL_GENERATION if event.generation != group.generation else NONE


def sync_error(group: ClassicGroup, event: Sync) -> ErrorCode:
    """What is wrong with a SyncGroup, or NONE if it can be parked or answered."""
    if error := member_error(group, event):
        return error
    if event.protocol_type not in (None, group.protocol_type) or event.protocol_name not in (None, group.protocol):
        return INCONSISTENT_GROUP_PROTOCOL
    return REBALANCE_IN_PROGRESS if group.state is PREPARING else NONE


def commit_error(group: ClassicGroup, event: Commit) -> ErrorCode:
    """What is wrong with an OffsetCommit, or NONE. A group without members takes commits from anybody."""
    if event.generation < 0 and group.state is EMPTY:
        return NONE
    if event.names_member:
        return member_error(group, event) or COMMIT[group.state]
    return UNKNOWN_MEMBER_ID


def transactional_commit_error(group: ClassicGroup, event: Commit) -> ErrorCode:
    """What is wrong with a TxnOffsetCommit, or NONE: the state of the group does not matter."""
    return member_error(group, event) if event.names_member else NONE


# Refusals of a JoinGroup before its member is looked up: the first that holds is the answer.
JOIN_CHECKS: tuple[tuple[ErrorCode, Callable[[ClassicGroup, Join], bool]], ...] = (
    (ErrorCode.GROUP_MAX_SIZE_REACHED, lambda group, event: not has_room(group, event)),
    (INCONSISTENT_GROUP_PROTOCOL, lambda group, event: not protocols_fit(group, event)),
    # the id was given to a dynamic member
    (ErrorCode.UNKNOWN_SERVER_ERROR, lambda group, event: static_join_with_pending_id(group, event)),
)
WITHOUT_MEMBER_ID = {ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNKNOWN_SERVER_ERROR}  # refusals that echo no id

# Room for a JoinGroup, by state. Ids that were only given out do not count.
ROOM: Mapping[State, Callable[[ClassicGroup, Member | None], bool]] = {
    EMPTY: lambda _group, _member: True,
    PREPARING: lambda group, member: has_joined(member) or group.parked_joins < group.max_size,
    COMPLETING: lambda group, member: member is not None or len(group.members) < group.max_size,
    STABLE: lambda group, member: member is not None or len(group.members) < group.max_size,
}

# A member that joins again with the protocols it had gets the current generation, without a rebalance: (state, leads).
# A leader of a stable group that joins again wants to assign again.
CURRENT_GENERATION = {(COMPLETING, True), (COMPLETING, False), (STABLE, False)}


def join_error(group: ClassicGroup, event: Join) -> ErrorCode:
    """Return why a JoinGroup is refused, or NONE. A client without id, or with one that was just given, is new."""
    for error, holds in JOIN_CHECKS:
        if holds(group, event):
            return error
    return NONE if not event.member_id or event.member_id in group.pending else identity_error(group, event)


def exhausts_ids(event: Join, unused_ids: int, limit: int) -> bool:
    """True if a member id would have to be given out, and ``limit`` are that no member uses yet."""
    needs_id = event.id_required and not event.member_id and event.instance_id is None
    return needs_id and unused_ids >= limit


def has_room(group: ClassicGroup, event: Join) -> bool:
    """True if the group takes one more, by group.max.size."""
    return ROOM[group.state](group, group.members.get(event.member_id))


def has_joined(member: Member | None) -> bool:
    """True if a JoinGroup of the member is pending."""
    return member is not None and member.join is not None


def static_join_with_pending_id(group: ClassicGroup, event: Join) -> bool:
    """True for a static member with an id that was given out and not used yet."""
    return event.instance_id is not None and event.member_id in group.pending


def gets_current_generation(group: ClassicGroup, member: Member, event: Join) -> bool:
    """True if a member that joins again is answered at once."""
    same = list(member.protocols) == list(event.protocols)
    return same and (group.state, member.member_id == group.leader) in CURRENT_GENERATION


def protocols_fit(group: ClassicGroup, event: Join) -> bool:
    """True if the group can take a member with these protocols."""
    if not group.members:
        return bool(event.protocol_type) and bool(event.protocols)
    return event.protocol_type == group.protocol_type and any(group.all_can(name) for name, _ in event.protocols)


def choose_protocol(group: ClassicGroup) -> str:
    """Each member votes for the first name it offers that all can do; most votes win, ties by HashMap order."""
    votes = Counter(
        next(name for name, _ in member.protocols if group.all_can(name)) for member in group.members.values()
    )
    names = map_order(votes)
    return max(reversed(names) if group.quirks.last_protocol_wins_ties else names, key=lambda name: votes[name])
