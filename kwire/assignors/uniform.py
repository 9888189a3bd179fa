"""``uniform``, the broker's default: as equal as can be, and what a member owns stays with it where that allows.

This file is for members that subscribe to the same topics, ``uniform_mixed`` for others; it is told apart by the names
they gave, so also by names of topics that do not exist. Source: UniformAssignor and
UniformHomogeneousAssignmentBuilder of Kafka 4.2 (4.0 and before gave the larger shares to other members: see
``first_are_larger``, and ``uniform_3_9`` for members that do not subscribe alike).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress, islice
from uuid import UUID

from kwire.assignors import uniform_mixed
from kwire.assignors.server import (
    GroupAssignment,
    MemberAssignment,
    Members,
    MemberSubscription,
    Partitions,
    partitions_of,
    subscribed_alike,
)
from kwire.java import copy_order, uuid_hash

_Partition = tuple[UUID, int]


def assign(
    members: Members, partitions: Partitions, alike: bool | None = None, *, first_are_larger: bool = False
) -> GroupAssignment:
    """The assignment; ``alike``: whether all gave the same names; None: derived from the ids. Raises AssignorError.

    ``first_are_larger``: where all subscribe alike, the larger shares are those of the first members, as before 4.1.
    """
    if subscribed_alike(members.values()) if alike is None else alike:
        return assign_alike(members, partitions, first_are_larger=first_are_larger)
    return uniform_mixed.assign(members, partitions)


def assign_alike(members: Members, partitions: Partitions, *, first_are_larger: bool = False) -> GroupAssignment:
    """Everyone keeps up to its share; what is nobody's, then what was cut off, goes to those below theirs."""
    if not members:
        return {}
    topic_ids = next(iter(members.values())).topic_ids
    counts = partitions_of(copy_order(dict.fromkeys(topic_ids), uuid_hash), partitions)
    share, larger = divmod(sum(counts.values()), len(members))

    target: GroupAssignment = {}
    free = {topic: bytearray(b"\1" * count) for topic, count in counts.items()}  # by partition: 1 while it is nobody's
    cut: list[_Partition] = []
    missing: dict[str, int] = {}  # member id -> how many it is below its share
    for behind, (member_id, member) in zip(range(len(members), 0, -1), members.items(), strict=True):
        room = share + (larger > 0)
        target[member_id], over = _kept(member, free, room)
        cut += over
        room -= sum(map(len, target[member_id].values()))
        takes_larger = larger > 0
        if (
            room and takes_larger and behind > larger and not first_are_larger
        ):  # left to a later member; there are enough of them
            room -= 1
            takes_larger = False
        if room:
            missing[member_id] = room
        larger -= takes_larger

    nobodys = [(topic, n) for topic, unowned in free.items() for n in compress(range(len(unowned)), unowned)]
    given = iter(nobodys + cut)
    for member_id, room in missing.items():
        for topic, n in islice(given, room):
            target[member_id].setdefault(topic, []).append(n)
    for kept in target.values():
        for held in kept.values():
            held.sort()
    return target


def _kept(
    member: MemberSubscription, free: Mapping[UUID, bytearray], room: int
) -> tuple[MemberAssignment, list[_Partition]]:
    """The first ``room`` partitions that a member owns of topics that it still subscribes to, and those over it.

    None of them is ``free`` any more.
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
