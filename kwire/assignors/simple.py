"""The assignor ``simple`` of share groups (KIP-932): a partition may have several members.

Each partition is shared by the same number of members: the number of members divided by the number of partitions,
rounded up. The numbers of partitions of two members differ by at most one. Within these limits, members keep their
partitions. If all members subscribe to the same topics, all topics are balanced together, else each topic separately.

Source: SimpleAssignor, SimpleHomogeneousAssignmentBuilder and SimpleHeterogeneousAssignmentBuilder of Kafka 4.2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from kwire.assignors.server import (
    GroupAssignment,
    MemberAssignment,
    Members,
    Partitions,
    is_homogeneous,
    numbers_by_key,
    partitions_of,
)
from kwire.assignors.shared_partitions import balanced
from kwire.java import bucket_order, copy_order, share_partition_hash, uuid_hash

Assignable = Mapping[UUID, Collection[int]]  # topic id -> partitions that may be assigned

_Partition = tuple[UUID, int]


def assign(
    members: Members,
    partitions: Partitions,
    homogeneous: bool | None = None,
    *,
    assignable: Assignable | None = None,
) -> GroupAssignment:
    """Return the target assignment of a share group: member id -> topic id -> partition numbers.

    Args:
        members: subscription and current assignment of each member, by member id. The order decides ties; in a broker,
            it is the order of a HashMap.
        partitions: number of partitions by topic id.
        homogeneous: whether all members subscribe to the same topic names; None to compare their topic ids.
        assignable: partitions that may be assigned, because their share state is initialized; None for all.

    Raises: AssignorError for a subscribed topic that is not in ``partitions``.
    """
    if is_homogeneous(members.values()) if homogeneous is None else homogeneous:
        return _assign_homogeneous(members, partitions, assignable)
    return _assign_heterogeneous(members, partitions, assignable)


def _assign_homogeneous(members: Members, partitions: Partitions, assignable: Assignable | None) -> GroupAssignment:
    topic_ids = next((member.topic_ids for member in members.values()), ())
    if not topic_ids:
        return {member_id: {} for member_id in members}
    counts = partitions_of(dict.fromkeys(topic_ids), partitions)
    targets = [(topic_id, index) for topic_id in counts for index in _assignable(topic_id, counts, assignable)]
    held = [
        [
            (topic_id, index)
            for topic_id in bucket_order(member.assigned, uuid_hash)
            if topic_id in counts
            for index in copy_order(member.assigned[topic_id], int)
        ]
        for member in members.values()
    ]
    assigned = balanced(targets, dict(enumerate(held)), range(len(members)), _hash_of)
    return {member_id: numbers_by_key(assigned[place]) for place, member_id in enumerate(members)}


def _assign_heterogeneous(members: Members, partitions: Partitions, assignable: Assignable | None) -> GroupAssignment:
    subscribers: dict[UUID, list[int]] = {}
    held: dict[UUID, dict[int, list[int]]] = {}
    for place, member in enumerate(members.values()):
        for topic_id in dict.fromkeys(member.topic_ids):
            subscribers.setdefault(topic_id, []).append(place)
        for topic_id, indexes in member.assigned.items():
            held.setdefault(topic_id, {})[place] = copy_order(indexes, int)
    counts = partitions_of(subscribers, partitions)
    target: list[MemberAssignment] = [  # a topic to which no member subscribes stays with its owners, as in Kafka
        {topic_id: sorted(indexes) for topic_id, indexes in member.assigned.items() if topic_id not in subscribers}
        for member in members.values()
    ]
    for topic_id, places in subscribers.items():
        targets = _assignable(topic_id, counts, assignable)
        for place, indexes in balanced(targets, held.get(topic_id, {}), places, int).items():
            if indexes:
                target[place][topic_id] = sorted(indexes)
    return dict(zip(members, target, strict=True))


def _assignable(topic_id: UUID, counts: Partitions, assignable: Assignable | None) -> list[int]:
    if assignable is None:
        return list(range(counts[topic_id]))
    allowed = assignable.get(topic_id, ())
    return [index for index in range(counts[topic_id]) if index in allowed]


def _hash_of(partition: _Partition) -> int:
    return share_partition_hash(*partition)
