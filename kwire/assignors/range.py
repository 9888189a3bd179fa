"""The server-side assignor ``range``: each subscriber gets adjacent partitions of each topic.

If the partitions of a topic cannot be divided equally, the first subscribers get one partition more. The assignor
ignores the current assignment. Source: RangeAssignor of Kafka's group coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from kwire.assignors.server import (
    GroupAssignment,
    Members,
    MemberSubscription,
    Partitions,
    is_homogeneous,
    partitions_of,
)
from kwire.java import utf16


def assign(members: Members, partitions: Partitions, homogeneous: bool | None = None) -> GroupAssignment:
    """Return the target assignment of the group: member id -> topic id -> partition numbers.

    Static members are processed first, by instance id, then dynamic members by member id.

    Args:
        members: subscription of each member, by member id.
        partitions: number of partitions by topic id.
        homogeneous: whether all members subscribe to the same topics; None to compare the topic ids. The value does not
            change the result, but a known value saves time.

    Raises: AssignorError for a subscribed topic that is not in ``partitions``.
    """
    target: GroupAssignment = {member_id: {} for member_id in members}
    walked = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    for topic_id, subscribers in _subscribers(walked, members, homogeneous).items():
        (count,) = partitions_of([topic_id], partitions).values()
        for member_id, share in shares(count, subscribers):
            target[member_id][topic_id] = list(share)
    return target


def shares(count: int, members: Sequence[str]) -> Iterator[tuple[str, range]]:
    """Yield each member that gets partitions of one topic, with its range of partition numbers.

    If the partitions cannot be divided equally, the first members get one partition more.

    Args:
        count: number of partitions of the topic.
        members: ids of the subscribers, in assignment order.
    """
    least, larger = divmod(count, len(members))
    start = 0
    for member_id in members[:count]:
        end = start + least + (larger > 0)
        yield member_id, range(start, end)
        start, larger = end, larger - 1


def _place(member_id: str, member: MemberSubscription) -> tuple[bool, bytes]:
    return member.instance_id is None, utf16(member_id if member.instance_id is None else member.instance_id)


def _subscribers(walked: list[str], members: Members, homogeneous: bool | None) -> Mapping[UUID, list[str]]:
    if walked and (is_homogeneous(members.values()) if homogeneous is None else homogeneous):
        return dict.fromkeys(members[walked[0]].topic_ids, walked)
    subscribers: dict[UUID, list[str]] = {}
    for member_id in walked:
        for topic_id in dict.fromkeys(members[member_id].topic_ids):
            subscribers.setdefault(topic_id, []).append(member_id)
    return subscribers
