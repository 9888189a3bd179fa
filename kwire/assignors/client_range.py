"""The client-side assignor ``range``: each subscriber gets adjacent partitions of each topic.

If the partitions of a topic cannot be divided equally, the first subscribers get one partition more. If racks matter
for at least one topic, members first get partitions with a replica in their rack. For topics with the same number of
partitions and the same subscribers, a member then gets the same partition numbers (KIP-881). Source: RangeAssignor of
kafka-clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from kwire.assignors.client import (
    Assignment,
    Assignor,
    GroupAssignment,
    Partition,
    Racks,
    Subscription,
    Subscriptions,
    Topics,
    assigned,
    in_map_order,
    partition_order,
    static_first,
    subscribed_topics,
)
from kwire.assignors.range import shares as cut


def share_out(topics: Topics, members: Subscriptions) -> GroupAssignment:
    """Return the assigned partitions of ``range`` by member id.

    Topics are processed in the order of the leader's HashMap, or sorted by name if racks matter.
    """
    listed = in_map_order(members)
    existing = subscribed_topics(topics, listed)
    subscribers: dict[str, list[tuple[str, Subscription]]] = {topic: [] for topic in existing}
    for member_id in static_first(listed):
        for topic in dict.fromkeys(members[member_id].topics):
            if topic in existing:
                subscribers[topic].append((member_id, members[member_id]))
    states = [_TopicState(topic, partitions, subscribers[topic]) for topic, partitions in existing.items()]
    shares: GroupAssignment = {member_id: [] for member_id in members}
    if any(state.racks.members for state in states):
        _assign_in_racks(states, shares)
        for state in states:
            state.take_ranges(shares)
        for share in shares.values():
            share.sort(key=partition_order)
    else:
        for state in states:
            for member_id, numbers in cut(len(state.free), state.members):
                shares[member_id] += ((state.topic, number) for number in numbers)
    return shares


class RangeAssignor(Assignor):
    """The client-side assignor ``range``, with the algorithm of ``share_out``."""

    name = "range"

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        return assigned(share_out(topics, members))


class _TopicState:
    """The state of a topic while it is assigned: its free partitions, and the number of partitions of each member.

    Args:
        topic: name of the topic.
        partitions: partitions of the topic, partition 0 first.
        subscribers: members with their subscriptions, in assignment order.

    Attributes:
        members: ids of the subscribers, in assignment order.
        racks: racks that matter for the topic.
        has_racks: True if a subscriber has a rack.
        free: numbers of the partitions that are not assigned yet, as keys.
    """

    def __init__(
        self, topic: str, partitions: Sequence[Partition], subscribers: Sequence[tuple[str, Subscription]]
    ) -> None:
        self.topic = topic
        self.members = [member_id for member_id, _ in subscribers]
        self.racks = Racks.of({topic: partitions}, subscribers)
        self.has_racks = bool(self.racks.nearby)
        self.free = dict.fromkeys(range(len(partitions)))
        self._rack = {member_id: member.rack_id for member_id, member in subscribers if member.rack_id}
        self._partitions = partitions
        self._held = dict.fromkeys(self.members, 0)
        self._least, self._larger = divmod(len(partitions), len(self.members))

    def match(self, member_id: str, number: int) -> bool:
        rack = self._rack.get(member_id)
        return rack is None or rack in self._partitions[number].racks

    def room(self, member_id: str) -> int:
        """Return how many partitions of the topic a member may still get.

        If the partitions cannot be divided equally, some shares are larger by one. The result is negative if the member
        has a larger share and all larger shares are given.
        """
        return self._least + (self._larger > 0) - self._held[member_id]

    def give(self, member_id: str, numbers: Sequence[int], shares: GroupAssignment) -> None:
        shares[member_id] += ((self.topic, number) for number in numbers)
        self._held[member_id] += len(numbers)
        self._larger -= self._held[member_id] > self._least
        for number in numbers:
            del self.free[number]

    def take_ranges(self, shares: GroupAssignment, near: bool = False) -> None:
        """Assign free partitions of the topic to every member up to its share.

        Args:
            shares: assigned partitions by member id, which are updated.
            near: True to assign only partitions with a replica in the rack of the member.
        """
        for member_id in self.members:
            candidates = (n for n in self.free if not near or self.match(member_id, n))
            if numbers := list(islice(candidates, max(0, self.room(member_id)))):
                self.give(member_id, numbers, shares)


def _assign_in_racks(states: Sequence[_TopicState], shares: GroupAssignment) -> None:
    """Assign partitions to members that have a replica of them in their rack.

    Topics with equal partition counts and equal subscribers are assigned together, so that a member gets the same
    partition numbers of each topic.

    Args:
        states: the topics.
        shares: assigned partitions by member id, which are updated.
    """
    equal_topics: dict[tuple[tuple[str, ...], int], list[_TopicState]] = {}
    for state in states:
        if state.has_racks:
            equal_topics.setdefault((tuple(state.members), len(state.free)), []).append(state)
    for group in equal_topics.values():
        if len(group) > 1:
            _assign_in_racks_together(group, shares)
        elif group[0].racks.members:
            group[0].take_ranges(shares, near=True)


def _assign_in_racks_together(states: Sequence[_TopicState], shares: GroupAssignment) -> None:
    """Assign partitions by rack, and give each member the same partition numbers of several topics (co-partitioning).

    A partition number goes to the first member that has a replica of this partition in its rack for every topic.

    Args:
        states: the topics, which have equal partition counts and equal subscribers.
        shares: assigned partitions by member id, which are updated.
    """
    candidates = list(states[0].members)
    for number in range(len(states[0].free)):
        for member_id in candidates:
            if all(state.match(member_id, number) and state.room(member_id) > 0 for state in states):
                for state in states:
                    state.give(member_id, [number], shares)
                if all(state.room(member_id) <= 0 for state in states):
                    candidates.remove(member_id)
                break
