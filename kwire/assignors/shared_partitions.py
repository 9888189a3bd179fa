"""Balancing of partitions that several members may share, for the assignor ``simple``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from math import ceil
from typing import TypeVar

from kwire.java import bucket_order, computed_order

_Key = TypeVar("_Key", bound=Hashable)


def balanced(
    targets: Sequence[_Key],
    held: Mapping[int, Sequence[_Key]],
    subscribers: Sequence[int],
    hash_of: Callable[[_Key], int],
) -> dict[int, set[_Key]]:
    """Return the balanced partitions of each member, by the member's number.

    Args:
        targets: partitions to assign.
        held: partitions that members have now, by the member's number, in the order in which Kafka iterates them.
        subscribers: numbers of the members that may get partitions, ascending.
        hash_of: function that returns Java's hash code of a partition.

    Source: SimpleHomogeneousAssignmentBuilder.build and TopicAssignmentPartialBuilder.build of Kafka 4.2, whose result
    depends on the iteration order of its maps and sets.
    """
    sharing = -(-len(subscribers) // len(targets)) if targets else 0
    desired = _desired_counts(subscribers, sharing * len(targets))
    by_member: dict[int, dict[_Key, None]] = {place: dict.fromkeys(held.get(place, ())) for place in subscribers}
    by_partition: dict[_Key, dict[int, None]] = {}
    for place, keys in sorted(held.items()):
        by_member[place] = dict.fromkeys(keys)
        for key in keys:
            by_partition.setdefault(key, {})[place] = None
    peaks = {key: len(places) for key, places in by_partition.items()}  # the sizes of the sets decide their order
    _revoke_from_overfilled_members(by_member, by_partition, desired, hash_of)
    _revoke_overshared_partitions(by_member, by_partition, sharing, peaks)
    for key in targets:
        by_partition.setdefault(key, {})
    unfilled = [place for place in subscribers if len(by_member[place]) < desired[place]]
    order = computed_order(list(by_partition), hash_of, len(targets))
    _assign_remaining(order, by_partition, by_member, unfilled, desired, sharing)
    return {place: set(keys) for place, keys in by_member.items()}


def _desired_counts(subscribers: Sequence[int], assignments: int) -> dict[int, int]:
    """Return the number of partitions that each subscriber should have, with Kafka's rounding.

    Args:
        subscribers: numbers of the members that may get partitions.
        assignments: total number of assignments: a partition counts once for each member that shares it.
    """
    if not subscribers:
        return {}
    precise = assignments / len(subscribers)
    return {place: ceil(precise * (n + 1)) - ceil(precise * n) for n, place in enumerate(subscribers)}


def _revoke_from_overfilled_members(
    by_member: dict[int, dict[_Key, None]],
    by_partition: dict[_Key, dict[int, None]],
    desired: Mapping[int, int],
    hash_of: Callable[[_Key], int],
) -> None:
    for place, keys in by_member.items():
        excess = len(keys) - desired.get(place, 0)
        for key in bucket_order(keys, hash_of)[: max(0, excess)] if excess > 0 else ():
            del keys[key]
            del by_partition[key][place]


def _revoke_overshared_partitions(
    by_member: dict[int, dict[_Key, None]],
    by_partition: dict[_Key, dict[int, None]],
    sharing: int,
    peaks: Mapping[_Key, int],
) -> None:
    for key, places in by_partition.items():
        excess = len(places) - sharing
        for place in bucket_order(places, int, peaks[key])[:excess] if excess > 0 else ():
            del places[place]
            del by_member[place][key]


def _assign_remaining(
    order: Sequence[_Key],
    by_partition: Mapping[_Key, Mapping[int, None]],
    by_member: dict[int, dict[_Key, None]],
    unfilled: list[int],
    desired: Mapping[int, int],
    sharing: int,
) -> None:
    """Assign each partition that needs more members to members that are below their desired count, in turn.

    As in Kafka, the assignment ends at the first partition that needs more members although all members below their
    desired count have it already: this partition and all later ones get no more members.

    Args:
        order: the partitions in processing order.
        by_partition: members that have the partition so far, by partition; not updated.
        by_member: partitions by member, which are updated.
        unfilled: numbers of the members below their desired count. Members that reach this count are removed from the
            list.
        desired: desired number of partitions by member.
        sharing: number of members of each partition.
    """
    at, assigned_in_round = 0, False
    for key in order:
        missing = sharing - len(by_partition[key])
        while missing > 0 and unfilled:
            if at == len(unfilled):
                if not assigned_in_round:
                    break
                at, assigned_in_round = 0, False
            place = unfilled[at]
            at += 1
            if place in by_partition[key]:
                continue
            by_member[place][key] = None
            missing -= 1
            assigned_in_round = True
            if len(by_member[place]) >= desired[place]:
                at -= 1
                del unfilled[at]
        if not unfilled:
            break
