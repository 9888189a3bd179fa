"""The server-side assignor ``uniform``, the default: balanced, and members keep partitions where possible.

This module assigns homogeneous groups, whose members subscribe to the same topics; ``uniform_heterogeneous`` assigns
all other groups. To distinguish both cases, Kafka compares topic names, including names of topics that do not exist.
Source: UniformAssignor and UniformHomogeneousAssignmentBuilder of Kafka 4.2. Kafka 4.0 and earlier gave the larger
shares to the first members (see ``first_are_larger``). For heterogeneous groups, see ``uniform_3_9``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress, islice
from uuid import UUID

from kwire.assignors import uniform_heterogeneous
from kwire.assignors.server import (
    GroupAssignment,
    MemberAssignment,
    Members,
    MemberSubscription,
    Partitions,
    is_homogeneous,
    partitions_of,
)
from kwire.java import copy_order, uuid_hash

_Partition = tuple[UUID, int]


def assign(
    members: Members, partitions: Partitions, homogeneous: bool | None = None, *, first_are_larger: bool = False
) -> GroupAssignment:
    """Return the target assignment of the group: member id -> topic id -> partition numbers.

    Args:
        members: subscription and current assignment of each member, by member id.
        partitions: number of partitions by topic id.
        homogeneous: whether all members subscribe to the same topic names; None to compare their topic ids.
        first_are_larger: True to give the larger shares of a homogeneous group to the first members, as before Kafka
            4.1.

    Raises: AssignorError for a subscribed topic that is not in ``partitions``.
    """
    if is_homogeneous(members.values()) if homogeneous is None else homogeneous:
        return assign_homogeneous(members, partitions, first_are_larger=first_are_larger)
    return uniform_heterogeneous.assign(members, partitions)


def assign_homogeneous(members: Members, partitions: Partitions, *, first_are_larger: bool = False) -> GroupAssignment:
    """Return the target assignment of a group whose members subscribe to the same topics.

    Members keep partitions up to their share. The remaining partitions go to members below their share: first the
    partitions without an owner, then the partitions that a member owned in excess of its share. A share is the number
    of partitions divided by the number of members, rounded down, or one more for some members.

    Args:
        members, partitions, first_are_larger: arguments of ``assign``.
    """
    if not members:
        return {}
    topic_ids = next(iter(members.values())).topic_ids
    counts = partitions_of(copy_order(dict.fromkeys(topic_ids), uuid_hash), partitions)
    share, larger = divmod(sum(counts.values()), len(members))

    target: GroupAssignment = {}
    free = {topic: bytearray(b"\1" * count) for topic, count in counts.items()}  # by partition: 1 while it has no owner
    cut: list[_Partition] = []
    missing: dict[str, int] = {}  # by member id: number of partitions below its share
    for remaining, (member_id, member) in zip(range(len(members), 0, -1), members.items(), strict=True):
        room = share + (larger > 0)
        target[member_id], over = _kept(member, free, room)
        cut += over
        room -= sum(map(len, target[member_id].values()))
        takes_larger = larger > 0
        if (
            room and takes_larger and remaining > larger and not first_are_larger
        ):  # left to a later member; enough of them remain
            room -= 1
            takes_larger = False
        if room:
            missing[member_id] = room
        larger -= takes_larger

    unowned = [(topic, n) for topic, unowned in free.items() for n in compress(range(len(unowned)), unowned)]
    unassigned = iter(unowned + cut)
    for member_id, room in missing.items():
        for topic, n in islice(unassigned, room):
            target[member_id].setdefault(topic, []).append(n)
    for kept in target.values():
        for held in kept.values():
            held.sort()
    return target


def _kept(
    member: MemberSubscription, free: Mapping[UUID, bytearray], room: int
) -> tuple[MemberAssignment, list[_Partition]]:
    """Return the partitions that a member keeps, and the partitions that it has in excess of its share.

    Partitions that do not exist, and partitions of topics to which the member does not subscribe, are ignored. For the
    returned partitions (kept and in excess), the byte in ``free`` is set to 0.

    Args:
        member: the member.
        free: for each topic, one byte per partition: 1 while no processed member owns the partition.
        room: number of partitions in the member's share.
    """
    kept: MemberAssignment = {}
    over: list[_Partition] = []
    for topic, assigned in member.assigned.items():
        unowned = free.get(topic)
        if unowned is None:
            continue
        held = [n for n in assigned if n < len(unowned)]
        for n in held:
            unowned[n] = 0
        if len(held) > room:
            over += [(topic, n) for n in held[room:]]
            held = held[:room]
        if held:
            kept[topic] = held
            room -= len(held)
    return kept, over
