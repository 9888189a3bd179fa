"""The server-side assignor ``uniform`` of Kafka 3.9; for homogeneous groups also of 4.0.

The first members in order may have one more partition, regardless of what they own. In heterogeneous groups partitions
are processed one by one, densest topics first, until no owner of a partition has at least two more partitions than
another subscriber. Partitions of topics with equal density are processed by partition number, then in the order of a
HashSet. Source: UniformHomogeneousAssignmentBuilder and UniformHeterogeneousAssignmentBuilder of Kafka 3.9.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Set
from itertools import groupby
from uuid import UUID

from kwire.assignors import uniform
from kwire.assignors.movements import Movements
from kwire.assignors.server import GroupAssignment, Members, Partitions, is_homogeneous
from kwire.assignors.uniform_heterogeneous import NO_OWNER, Topic, owned_topics, target_of
from kwire.java import bucket_of, bucket_order, id_partition_hash, table_size, utf16, uuid_hash


def assign(members: Members, partitions: Partitions, homogeneous: bool | None = None) -> GroupAssignment:
    """Return the target assignment of the group. For the arguments, see ``uniform.assign``.

    Raises: AssignorError for a subscribed topic that is not in ``partitions``.
    """
    if is_homogeneous(members.values()) if homogeneous is None else homogeneous:
        return uniform.assign_homogeneous(members, partitions, first_are_larger=True)
    group = _Group(members, partitions)
    group.fill()
    group.balance()
    return target_of(list(members), group.topics)


class _Dense:
    """The topics with the same density (partitions per subscriber), and their subscribers sorted by load.

    Attributes:
        topics: the topics.
        subscribers: for each topic its subscribers as (load, rank, member), least loaded first. The rank is the
            position of the member id in sorted order.
    """

    def __init__(self, topics: list[Topic]) -> None:
        self.topics = topics
        self.subscribers: list[list[tuple[int, int, int]]] = []
        self._topics_of: dict[int, list[int]] = {}  # topic indices by member
        for at, topic in enumerate(topics):
            for place in topic.subscribers:
                self._topics_of.setdefault(place, []).append(at)

    def sort(self, loads: list[int], ranks: list[int]) -> None:
        self.subscribers = [sorted((loads[at], ranks[at], at) for at in topic.subscribers) for topic in self.topics]

    def change(self, before: int, after: int, rank: int, place: int) -> None:
        """Update the load of a member in ``subscribers``, in all topics to which the member subscribes.

        Args:
            before: number of partitions before the change.
            after: number of partitions after the change.
            rank: position of the member id in sorted order.
            place: index of the member.
        """
        for at in self._topics_of[place]:
            by_load = self.subscribers[at]
            del by_load[bisect_left(by_load, (before, rank, place))]
            insort(by_load, (after, rank, place))

    def partitions(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield the partitions of the topics in processing order, each as index of the topic and partition number.

        Args:
            size: number of buckets of Java's HashSet, which determines the order.
        """
        count = len(self.topics[0].owners)
        if len(self.topics) == 1:
            yield from ((0, number) for number in range(count))
            return
        for number in range(count):
            hashes = [id_partition_hash(topic.id, number) for topic in self.topics]
            yield from ((at, number) for at in sorted(range(len(hashes)), key=lambda at: bucket_of(hashes[at], size)))


class _Group:
    """The state of one assignment of a group. A member is represented by its index in the order of the members.

    Args:
        members, partitions: arguments of ``assign``.

    Attributes:
        topics: topics with their owners, in the iteration order of Java's HashMap.
        loads: number of partitions of each member.
        ranks: position of each member id in the order of Java's String.compareTo.
        most: maximum number of partitions of each member: all partitions of its topics.
        below: loads of the members below their maximum, ascending.
    """

    def __init__(self, members: Members, partitions: Partitions) -> None:
        topics, self.loads = owned_topics(members, partitions)
        by_id = {topic.id: topic for topic in topics}
        self.topics = [by_id[topic_id] for topic_id in bucket_order(by_id, uuid_hash)]
        self._size = table_size(sum(len(topic.owners) for topic in topics))
        ordered = sorted(self.topics, key=_density)
        self._dense = [_Dense(list(tied)) for _, tied in groupby(ordered, key=_density)]
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
        """Assign each partition without an owner to the subscriber with the fewest partitions."""
        for dense in self._dense:
            dense.sort(self.loads, self.ranks)
            for at, number in dense.partitions(self._size):
                if dense.topics[at].owners[number] == NO_OWNER:
                    load, rank, place = dense.subscribers[at][0]
                    dense.topics[at].owners[number] = place
                    self.loads[place] = load + 1
                    dense.change(load, load + 1, rank, place)

    def balance(self) -> None:
        """Move partitions to less loaded members, in several passes, until no partition moves.

        A partition moves at most once.
        """
        self.below = sorted(load for load, most in zip(self.loads, self.most, strict=True) if load < most)
        shared = [dense for dense in self._dense if len(dense.topics[0].subscribers) > 1]
        settled: set[tuple[UUID, int]] = set()
        while moved := self._balance_once(shared, settled):
            settled.update(moved)

    def _balance_once(self, shared: list[_Dense], settled: Set[tuple[UUID, int]]) -> list[tuple[UUID, int]]:
        """Move partitions in one pass over all topics.

        Args:
            shared: topics with at least two subscribers, grouped by density.
            settled: partitions that moved in an earlier pass, and must not move again.

        Returns: the moved partitions; empty if the group is balanced, so that no further pass is needed.
        """
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
        """Return whether the group is balanced as Kafka defines it: the loads differ by at most one.

        Members that have the maximum number of partitions are ignored.
        """
        return self.below[0] >= self.below[-1] - 1

    def _move(self, dense: _Dense, topic: Topic, number: int, taker: int) -> tuple[UUID, int]:
        """Move a partition to another member. If ``Movements.instead`` returns a different partition, move that one
        instead.

        Args:
            dense: topics with the density of this topic.
            topic: topic of the partition.
            number: partition number.
            taker: index of the member that gets the partition.

        Returns: the moved partition.
        """
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
    """Return the sort key of a topic: topics with the most partitions per subscriber come first.

    Among topics with an equal ratio, topics with the fewest subscribers come first.
    """
    return -len(topic.owners) / len(topic.subscribers), len(topic.subscribers)
