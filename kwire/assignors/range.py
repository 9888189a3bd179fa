"""``range``: of each topic, every subscriber gets neighbouring partitions, the first ones one more.

Nothing is kept from before. Source: RangeAssignor of Kafka's group coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from kwire.assignors.server import (
    GroupAssignment,
    Members,
    MemberSubscription,
    Partitions,
    partitions_of,
    subscribed_alike,
)
from kwire.java import utf16


def assign(members: Members, partitions: Partitions, alike: bool | None = None) -> GroupAssignment:
    """The assignment; ``alike`` changes nothing here but the time it takes.

    Members are walked static ones first, by instance id, the others by member id. Raises AssignorError.
    """
    target: GroupAssignment = {member_id: {} for member_id in members}
    walked = sorted(members, key=lambda member_id: _place(member_id, members[member_id]))
    for topic_id, subscribers in _subscribers(walked, members, alike).items():
        (count,) = partitions_of([topic_id], partitions).values()
        for member_id, share in shares(count, subscribers):
            target[member_id][topic_id] = list(share)
    return target


def shares(count: int, members: Sequence[str]) -> Iterator[tuple[str, range]]:
    """Partitions 0 to ``count`` cut into neighbouring shares, larger ones first; who gets none is left out."""
    least, larger = divmod(count, len(members))
    start = 0
    for member_id in members[:count]:
        end = start + least + (larger > 0)
        yield member_id, range(start, end)
        start, larger = end, larger - 1


def _place(member_id: str, member: MemberSubscription) -> tuple[bool, bytes]:
    return member.instance_id is None, utf16(member_id if member.instance_id is None else member.instance_id)


def _subscribers(walked: list[str], members: Members, alike: bool | None) -> Mapping[UUID, list[str]]:
    if walked and (subscribed_alike(members.values()) if alike is None else alike):
        return dict.fromkeys(members[walked[0]].topic_ids, walked)
    found: dict[UUID, list[str]] = {}
    for member_id in walked:
        for topic_id in dict.fromkeys(members[member_id].topic_ids):
            found.setdefault(topic_id, []).append(member_id)
    return found
