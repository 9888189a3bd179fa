"""``uniform`` as Kafka 3.9 has it, and where members subscribe alike also 4.0.

There the first members in order may have one partition more, whatever they own. Where they do not subscribe alike,
partitions are looked at one by one, densest topics first, until none of them has an owner with two more than another
subscriber. Of topics that are as dense, the first partitions come first, in the order of a HashSet.
Source: UniformHomogeneousAssignmentBuilder and UniformHeterogeneousAssignmentBuilder of Kafka 3.9.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Set
from itertools import groupby
from uuid import UUID

from kwire.assignors import uniform
from kwire.assignors.movements import Movements
from kwire.assignors.server import GroupAssignment, Members, Partitions, subscribed_alike
from kwire.assignors.uniform_mixed import NOBODY, Topic, owned_topics, target_of
from kwire.java import bucket_of, bucket_order, id_partition_hash, table_size, utf16, uuid_hash


def assign(members: Members, partitions: Partitions, alike: bool | None = None) -> GroupAssignment:
    """The assignment; ``alike`` as of ``uniform.assign``. Raises AssignorError."""
    if subscribed_alike(members.values()) if alike is None else alike:
        return uniform.assign_alike(members, partitions, first_are_larger=True)
    group = _Group(members, partitions)
    group.fill()
    group.balance()
    return target_of(list(members), group.topics)


class _Dense:
    """Topics that are as dense, and their subscribers by load.

    ``subscribers``: for each topic load, rank and place of its subscribers, those with least first.
    """

    def __init__(self, topics: list[Topic]) -> None:
        self.topics = topics
        self.subscribers: list[list[tuple[int, int, int]]] = []
        self._of: dict[int, list[int]] = {}  # by place: which topics
        for at, topic in enumerate(topics):
            for place in topic.subscribers:
                self._of.setdefault(place, []).append(at)

    def sort(self, loads: list[int], ranks: list[int]) -> None:
        self.subscribers = [sorted((loads[at], ranks[at], at) for at in topic.subscribers) for topic in self.topics]

    def change(self, before: int, after: int, rank: int, place: int) -> None:
        """The load of a member."""
        for at in self._of[place]:
            by_load = self.subscribers[at]
            del by_load[bisect_left(by_load, (before, rank, place))]
            insort(by_load, (after, rank, place))

    def partitions(self, size: int) -> Iterator[tuple[int, int]]:
        """Partitions in order: their topic, by its number here, and theirs. ``size``: of the table of the HashSet."""
        count = len(self.topics[0].owners)
        if len(self.topics) == 1:
            yield from ((0, number) for number in range(count))
            return
        for number in range(count):
            hashes = [id_partition_hash(topic.id, number) for topic in self.topics]
            yield from ((at, number) for at in sorted(range(len(hashes)), key=lambda at: bucket_of(hashes[at], size)))


class _Group:
    """Members by their places. ``ranks``: of their ids, as Java compares strings; ``most``: partitions that a member
    could have; ``below``: loads of the members that have less than that, ascending."""

    def __init__(self, members: Members, partitions: Partitions) -> None:
        topics, self.loads = owned_topics(members, partitions)
        by_id = {topic.id: topic for topic in topics}
        self.topics = [by_id[topic_id] for topic_id in bucket_order(by_id, uuid_hash)]
        self._size = table_size(sum(len(topic.owners) for topic in topics))
        found = sorted(self.topics, key=_density)
        self._dense = [_Dense(list(tied)) for _, tied in groupby(found, key=_density)]
        names = [utf16(member_id) for member_id in members]
        self.ranks = [0] * len(names)
        for rank, place in enumerate(sorted(range(len(names)), key=names.__getitem__)):
            self.ranks[place] = rank
        self.most = [0] * len(names)
        for topic in topics:
            for place in topic.subscribers:
                self.most[place] += len(topic.owners)
        self.below: list[int] = []
        self._movements: Movements[UUID] = Movements(id_partition_hash)

    def fill(self) -> None:
        """Give each partition without an owner to the subscriber with least."""
        for dense in self._dense:
            dense.sort(self.loads, self.ranks)
            for at, number in dense.partitions(self._size):
                if dense.topics[at].owners[number] == NOBODY:
                    load, rank, place = dense.subscribers[at][0]
                    dense.topics[at].owners[number] = place
                    self.loads[place] = load + 1
                    dense.change(load, load + 1, rank, place)

    def balance(self) -> None:
        """Look at the partitions again and again, until none moves. One that has moved is not looked at again."""
        self.below = sorted(load for load, most in zip(self.loads, self.most, strict=True) if load < most)
        shared = [dense for dense in self._dense if len(dense.topics[0].subscribers) > 1]
        settled: set[tuple[UUID, int]] = set()
        while moved := self._balance_once(shared, settled):
            settled.update(moved)

    def _balance_once(self, shared: list[_Dense], settled: Set[tuple[UUID, int]]) -> list[tuple[UUID, int]]:
        """What has moved; nothing if that is all."""
        moved: list[tuple[UUID, int]] = []
        for dense in shared:
            dense.sort(self.loads, self.ranks)
            for at, number in dense.partitions(self._size):
                topic = dense.topics[at]
                load, _, taker = dense.subscribers[at][0]
                if self.loads[topic.owners[number]] > load + 1 and (topic.id, number) not in settled:
                    moved.append(self._move(dense, topic, number, taker))
                    if self._is_balanced():
                        return []
        return moved

    def _is_balanced(self) -> bool:
        """As Kafka sees it: a member that has all that it could have is left out, though it may have most."""
        return self.below[0] >= self.below[-1] - 1

    def _move(self, dense: _Dense, topic: Topic, number: int, taker: int) -> tuple[UUID, int]:
        """Move a partition, or the one that must move in its place; the one that has moved."""
        _, instead = self._movements.instead((topic.id, number), topic.owners[number], taker)
        giver = topic.owners[instead]
        self._movements.add((topic.id, instead), giver, taker)
        topic.owners[instead] = taker
        for place, by in ((giver, -1), (taker, 1)):
            before, after = self.loads[place], self.loads[place] + by
            dense.change(before, after, self.ranks[place], place)
            if before < self.most[place]:
                del self.below[bisect_left(self.below, before)]
            if after < self.most[place]:
                insort(self.below, after)
            self.loads[place] = after
        return topic.id, instead


def _density(topic: Topic) -> tuple[float, int]:
    """Those with most partitions a subscriber come first, of these those with fewest subscribers."""
    return -len(topic.owners) / len(topic.subscribers), len(topic.subscribers)
