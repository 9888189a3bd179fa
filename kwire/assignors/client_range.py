"""``range`` as members run it: of each topic, every subscriber gets neighbouring partitions, the first ones one more.

Where racks decide for at least one topic, members first take partitions with a replica in their rack, of topics with
as many partitions and the same subscribers the same ones (KIP-881). Source: RangeAssignor of kafka-clients.
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
    partition_order,
    static_first,
    subscribed_topics,
    walked,
)
from kwire.assignors.range import shares as cut


def share_out(topics: Topics, members: Subscriptions) -> GroupAssignment:
    """The assignment: topics in the order of the leader's HashMap, or sorted where racks decide."""
    listed = walked(members)
    found = subscribed_topics(topics, listed)
    subscribers: dict[str, list[tuple[str, Subscription]]] = {topic: [] for topic in found}
    for member_id in static_first(listed):
        for topic in dict.fromkeys(members[member_id].topics):
            if topic in found:
                subscribers[topic].append((member_id, members[member_id]))
    states = [_Topic(topic, partitions, subscribers[topic]) for topic, partitions in found.items()]
    shares: GroupAssignment = {member_id: [] for member_id in members}
    if any(state.racks.members for state in states):
        _near(states, shares)
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
    name = "range"

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        return assigned(share_out(topics, members))


class _Topic:
    """A topic while it is shared out; ``subscribers`` in their order."""

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
        """How many more the member may have; one that has its larger share already may come out below zero."""
        return self._least + (self._larger > 0) - self._held[member_id]

    def give(self, member_id: str, numbers: Sequence[int], shares: GroupAssignment) -> None:
        shares[member_id] += ((self.topic, number) for number in numbers)
        self._held[member_id] += len(numbers)
        self._larger -= self._held[member_id] > self._least
        for number in numbers:
            del self.free[number]

    def take_ranges(self, shares: GroupAssignment, near: bool = False) -> None:
        """Every member, in order, takes what is free up to its share; ``near``: only what is in its rack."""
        for member_id in self.members:
            wanted = (n for n in self.free if not near or self.match(member_id, n))
            if numbers := list(islice(wanted, max(0, self.room(member_id)))):
                self.give(member_id, numbers, shares)


def _near(states: Sequence[_Topic], shares: GroupAssignment) -> None:
    """What is in the racks of members, topics alike together."""
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for state in states:
        if state.has_racks:
            alike.setdefault((tuple(state.members), len(state.free)), []).append(state)
    for group in alike.values():
        if len(group) > 1:
            _near_together(group, shares)
        elif group[0].racks.members:
            group[0].take_ranges(shares, near=True)


def _near_together(states: Sequence[_Topic], shares: GroupAssignment) -> None:
    """Each partition, of all topics at once, to the first member that is near it in all of them."""
    left = list(states[0].members)
    for number in range(len(states[0].free)):
        for member_id in left:
            if all(state.match(member_id, number) and state.room(member_id) > 0 for state in states):
                for state in states:
                    state.give(member_id, [number], shares)
                if all(state.room(member_id) <= 0 for state in states):
                    left.remove(member_id)
                break
