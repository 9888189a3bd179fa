"""The assignor ``uniform`` for a group in which few members have joined or left since the last target assignment.

The result equals the result of ``uniform.assign``, which processes all members at each change. The condition is that
each member has an equal share, or one partition more. A change then moves only the partitions of members that join or
leave, and the partitions that must move to restore the balance. Source: UniformHomogeneousAssignmentBuilder of Kafka
4.2.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from kwire.assignors.server import GroupAssignment, MemberAssignment
from kwire.java import bucket_of, copy_order, string_hash, table_size, uuid_hash

_Place: TypeAlias = tuple[int, int, str]  # the position in the map order: bucket, number of the insertion, member id
_Partition: TypeAlias = tuple[UUID, int]


class UniformTarget:
    """A balanced target assignment of ``uniform``, updated for members that join and leave.

    Args:
        target: target assignment of all members, as ``uniform.assign`` returned it; ``update`` changes it.
        member_ids: the members, in the order in which they joined.
        peak: largest number of members that the group ever had, which determines the iteration order of Kafka's hash
            map.
        counts: number of partitions by subscribed topic id.
    """

    def __init__(
        self, target: GroupAssignment, member_ids: Sequence[str], peak: int, counts: Mapping[UUID, int]
    ) -> None:
        self._target, self._counts = target, counts
        self._buckets = table_size(peak)
        self._topics = {topic: rank for rank, topic in enumerate(copy_order(dict.fromkeys(counts), uuid_hash))}
        self._partition_count = sum(counts.values())
        self._share = self._partition_count // len(member_ids)
        self._insertions = 0
        self._places: dict[str, _Place] = {}
        self._joined: list[_Place] = []
        self._free: list[_Partition] = []
        by_place: list[_Place] = sorted(self._new_place(member_id) for member_id in member_ids)
        self._larger = [place for place in by_place if _size(target[place[2]]) > self._share]
        self._smaller = [place for place in by_place if _size(target[place[2]]) <= self._share]

    def _new_place(self, member_id: str) -> _Place:
        self._insertions += 1
        place = (bucket_of(string_hash(member_id), self._buckets), self._insertions, member_id)
        self._places[member_id] = place
        return place

    @classmethod
    def of(
        cls, target: GroupAssignment, member_ids: Sequence[str], peak: int, counts: Mapping[UUID, int]
    ) -> UniformTarget | None:
        """Return a UniformTarget for the target assignment; None if the assignment is not balanced.

        An assignment in which two members own the same partition also counts as not balanced. Damaged records may
        contain such an assignment. For the arguments, see the class.
        """
        share, larger = divmod(sum(counts.values()), len(member_ids))
        sizes = Counter(_size(target[member_id]) for member_id in member_ids)
        is_balanced = sizes[share] + sizes[share + 1] == len(member_ids) and sizes[share + 1] == larger
        return cls(target, member_ids, peak, counts) if is_balanced else None

    @property
    def first_member(self) -> str:
        """The id of the first member in the iteration order of Kafka's hash map. There must be a member."""
        return min(places[0] for places in (self._larger, self._smaller, self._joined) if places)[2]

    def add(self, member_id: str) -> None:
        """Add a member, which has no partitions yet."""
        insort(self._joined, self._new_place(member_id))

    def remove(self, member_id: str, assigned: MemberAssignment | None) -> None:
        """Remove a member; the next ``update`` assigns its partitions to remaining members.

        The caller removes the assignment of the member from the target assignment.

        Args:
            member_id: the member.
            assigned: target assignment of the member; None if the member joined after the last target assignment.
        """
        place = self._places.pop(member_id)
        for places in (self._joined, self._larger, self._smaller):
            at = bisect_left(places, place)
            if at < len(places) and places[at] == place:
                del places[at]
        self._free += _partitions(assigned or {})

    def is_for(self, counts: Mapping[UUID, int], peak: int) -> bool:
        """Return whether the target assignment can be updated instead of computed again.

        The result is True if the topics and partitions, the iteration order of Kafka's hash map and the size of a share
        are unchanged, and the group has a member.

        Args:
            counts: number of partitions by subscribed topic id.
            peak: largest number of members that the group ever had.
        """
        return (
            bool(self._places)
            and counts == self._counts
            and table_size(peak) == self._buckets
            and self._partition_count // len(self._places) == self._share
        )

    def update(self) -> None:
        """Update the target assignment for the members that were added or removed since the last update.

        Call this method only if ``is_for`` returns True. The work grows with the number of members that joined or left,
        and with the number of partitions that move.
        """
        larger = self._partition_count - self._share * len(self._places)
        rooms = dict.fromkeys(self._joined, self._share)
        changed: dict[_Place, MemberAssignment] = {}
        cut = self._cut(self._larger[larger:], changed)
        for place in self._last_smaller(larger - len(self._larger)):
            rooms[place] = rooms.get(place, 0) + 1
        unassigned = iter(sorted(self._free, key=lambda each: (self._topics[each[0]], each[1])) + cut)
        for place in sorted(rooms):
            assignment = changed[place] = _copy(self._target.get(place[2], {}))
            for _, (topic, number) in zip(range(rooms[place]), unassigned, strict=False):
                insort(assignment.setdefault(topic, []), number)
        self._regroup(larger, rooms)
        for place in sorted(changed):
            self._target[place[2]] = changed[place]
        self._joined, self._free = [], []

    def _cut(self, places: Iterable[_Place], changed: dict[_Place, MemberAssignment]) -> list[_Partition]:
        """Remove the last partition of each of the given members; return these partitions.

        Args:
            places: the members.
            changed: changed assignments so far, which are updated.
        """
        cut = []
        for place in places:
            assignment = changed[place] = _copy(self._target[place[2]])
            topic = next(reversed(assignment))
            cut.append((topic, assignment[topic].pop()))
            if not assignment[topic]:
                del assignment[topic]
        return cut

    def _last_smaller(self, count: int) -> list[_Place]:
        """Return the last ``count`` members that have exactly the smaller share, or have joined without partitions.

        "Last" refers to the iteration order of Kafka's hash map.
        """
        return sorted(self._smaller[-count:] + self._joined[-count:])[-count:] if count > 0 else []

    def _regroup(self, larger: int, rooms: Mapping[_Place, int]) -> None:
        """Update the two lists of members: members with exactly an equal share, and members with one partition more.

        Args:
            larger: number of members that may have one partition more.
            rooms: number of partitions that each member may still get, by the position of the member in the hash map.
        """
        for place in self._larger[larger:]:
            insort(self._smaller, place)
        del self._larger[larger:]
        joined = set(self._joined)
        for place, room in rooms.items():
            if place not in joined:
                del self._smaller[bisect_left(self._smaller, place)]
            insort(self._larger if room > self._share * (place in joined) else self._smaller, place)


def _size(assignment: MemberAssignment) -> int:
    return sum(map(len, assignment.values()))


def _partitions(assignment: MemberAssignment) -> list[_Partition]:
    return [(topic, number) for topic, numbers in assignment.items() for number in numbers]


def _copy(assignment: MemberAssignment) -> MemberAssignment:
    return {topic: list(numbers) for topic, numbers in assignment.items()}
