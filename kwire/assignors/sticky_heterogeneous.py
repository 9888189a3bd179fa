"""The sticky algorithm for members that subscribe to different topics.

First, members keep the partitions that they own. Then partitions move to other members until the group is balanced.
Before Kafka 2.4 this was the algorithm for all groups. Source: AbstractStickyAssignor.GeneralAssignmentBuilder and
PartitionMovements of kafka-clients.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence

from kwire.assignors.client import GroupAssignment, Racks, Subscription, TopicPartition, Topics
from kwire.assignors.movements import Movements
from kwire.assignors.sticky_history import Ownership
from kwire.java import partition_hash, utf16


def share_out(
    topics: Topics,
    members: Sequence[tuple[str, Subscription]],
    before: Ownership,
    earlier: Mapping[TopicPartition, str],
    racks: Racks,
) -> GroupAssignment:
    """Return the assigned partitions by member id, for members that subscribe to different topics.

    Args:
        topics: partitions by topic name.
        members: member ids with their subscriptions.
        before: partitions that members own according to their accepted claims.
        earlier: last owner of each partition in generations before the newest.
        racks: racks that matter for the assignment.
    """
    group = _Group(topics, members, earlier, racks)
    must_revoke = group.keep(before)
    first = not any(group.shares)
    free = [partition for partition in group.partitions if partition not in group.owners]
    group.fill(free)
    group.freeze()
    group.balance(free, must_revoke=must_revoke, first=first)
    return {member_id: group.shares[place] for member_id, place in group.places.items()}


class _Group:
    """The state of one assignment of a group. A member is represented by its index among all sorted member ids.

    Args:
        topics, members, earlier, racks: arguments of ``share_out``.

    Attributes:
        places: index by member id.
        partitions: all partitions; the partitions of topics with the fewest subscribers come first.
        shares: assigned partitions by member index.
        owners: member index by assigned partition.
    """

    def __init__(
        self,
        topics: Topics,
        members: Sequence[tuple[str, Subscription]],
        earlier: Mapping[TopicPartition, str],
        racks: Racks,
    ) -> None:
        ids = sorted((member_id for member_id, _ in members), key=utf16)
        self.places = {member_id: place for place, member_id in enumerate(ids)}
        self._ids = ids
        self._topics = topics
        self._earlier = earlier
        self._racks = racks
        self._subscribed: list[list[str]] = [[] for _ in ids]  # topics that a member subscribes to
        self._subscribers: dict[str, list[int]] = {topic: [] for topic in topics}
        for member_id, member in members:
            place = self.places[member_id]
            self._subscribed[place] = [topic for topic in member.topics if topic in topics]
            for topic in self._subscribed[place]:
                self._subscribers[topic].append(place)
        self._subscribed_sets = [frozenset(topics) for topics in self._subscribed]
        self._limits = [self._limit(topics) for topics in self._subscribed]
        ordered = sorted(topics, key=lambda topic: (len(self._subscribers[topic]), utf16(topic)))
        self.partitions = [(topic, number) for topic in ordered for number in range(len(topics[topic]))]
        self.shares: list[list[TopicPartition]] = [[] for _ in ids]
        self.owners: dict[TopicPartition, int] = {}
        self._holders: dict[str, dict[int, int]] = {topic: {} for topic in topics}  # partitions held, by member
        self._ranks: list[tuple[int, int]] = []
        self._movements = Movements(partition_hash)
        self._balanced: bool | None = None  # None: unknown since the last move

    def _limit(self, subscribed: Sequence[str]) -> int:
        """Return the maximum number of partitions of a member: all partitions of its subscribed topics."""
        counted = self._topics if len(subscribed) == len(self._topics) else subscribed
        return sum(len(self._topics[topic]) for topic in counted)

    def keep(self, before: Ownership) -> bool:
        """Assign to members the partitions that they own, except where a topic or a rack does not fit.

        A partition is not kept if its owner no longer subscribes to the topic, or if none of its replicas is in the
        owner's rack. Return True if any partition was not kept. ``before``: the accepted claims.
        """
        revoked = False
        for member_id, owned in before.owned.items():
            place = self.places[member_id]
            for partition in owned:
                if partition[0] in self._subscribed_sets[place] and self._racks.match(member_id, partition):
                    self._put(partition, place)
                else:
                    revoked = True
        self._ranks = sorted((len(share), place) for place, share in enumerate(self.shares))
        return revoked

    def fill(self, free: Iterable[TopicPartition]) -> None:
        """Assign each free partition to its least loaded subscriber.

        If racks matter, subscribers in the rack of one of its replicas are preferred.
        """
        if self._racks.members:
            free = [partition for partition in free if not self._fill_one(partition, near=True)]
        for partition in free:
            self._fill_one(partition, near=False)

    def _fill_one(self, partition: TopicPartition, *, near: bool) -> bool:
        topic = partition[0]
        for at, (load, place) in enumerate(self._ranks):
            if topic in self._subscribed_sets[place] and (not near or self._racks.match(self._ids[place], partition)):
                del self._ranks[at]
                self._put(partition, place)
                insort(self._ranks, (load + 1, place))
                return True
        return False

    def freeze(self) -> None:
        """Exclude members from balancing if no partition can be moved to them or from them.

        Such a member has all partitions of its topics, and no other member subscribes to these topics.
        """
        self._ranks = [(load, place) for load, place in self._ranks if self._can_change(place)]

    def _can_change(self, place: int) -> bool:
        share = self.shares[place]
        return len(share) < self._limits[place] or any(self._is_shared(topic) for topic, _ in share)

    def _is_shared(self, topic: str) -> bool:
        return len(self._subscribers[topic]) > 1

    def balance(self, free: Sequence[TopicPartition], *, must_revoke: bool, first: bool) -> None:
        """Move partitions until the group is balanced. If the result is not better than before, undo the moves.

        Args:
            free: partitions that had no owner at the beginning.
            must_revoke: True if some partition was not kept by its owner.
            first: True in the first generation, in which no member owned a partition.
        """
        taking_part = [place for _, place in self._ranks]
        shares = {place: list(self.shares[place]) for place in taking_part}
        if not must_revoke:
            self._move([partition for partition in free if self._is_shared(partition[0])])
        moved = self._move([partition for partition in self.partitions if self._is_shared(partition[0])])
        if moved and not first:
            loads = [load for load, _ in self._ranks]
            if _imbalance(loads) >= _imbalance(sorted(map(len, shares.values()))):
                for place, share in shares.items():
                    self.shares[place] = share

    def _move(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions to better owners, repeatedly, until no partition moves. Return True if any partition was
        moved.
        """
        moved = False
        while True:
            again = False
            for partition in partitions:
                if self._is_balanced():
                    break
                taker = self._taker(partition)
                if taker is not None:
                    self._hand_over(self._movements.instead(partition, self.owners[partition], taker), taker)
                    again = moved = True
            if not again:
                return moved

    def _taker(self, partition: TopicPartition) -> int | None:
        """Return the index of the member that a partition should move to; None to leave it with its owner.

        The result is the earlier owner of the partition, else the least loaded subscriber. It must have at least two
        partitions fewer than the owner.
        """
        load = len(self.shares[self.owners[partition]])
        had = self._earlier.get(partition)
        if had is not None:
            place = self.places[had]
            count = len(self.shares[place])
            at = bisect_left(self._ranks, (count, place))  # Java raises for a member that does not take part
            if load > count + 1 and at < len(self._ranks) and self._ranks[at] == (count, place):
                return place
        topic = partition[0]
        least, place = next(rank for rank in self._ranks if topic in self._subscribed_sets[rank[1]])
        return place if load > least + 1 else None

    def _is_balanced(self) -> bool:
        if self._balanced is None:
            self._balanced = self._find_balanced()
        return self._balanced

    def _find_balanced(self) -> bool:
        """Return True if the group is balanced.

        It is balanced if no member could get a partition from a member that has at least two partitions more.
        """
        if self._ranks[0][0] >= self._ranks[-1][0] - 1:
            return True
        fullest: dict[str, int] = {}  # by topic: largest load of a member that has a partition of it
        for load, place in self._ranks:
            if load == self._limits[place]:
                continue
            for topic in self._subscribed[place]:
                if topic not in fullest:
                    fullest[topic] = max(len(self.shares[holder]) for holder in self._holders[topic])
                if fullest[topic] > load + 1:
                    return False
        return True

    def _put(self, partition: TopicPartition, place: int) -> None:
        self.shares[place].append(partition)
        self.owners[partition] = place
        holders = self._holders[partition[0]]
        holders[place] = holders.get(place, 0) + 1

    def _hand_over(self, partition: TopicPartition, taker: int) -> None:
        giver = self.owners[partition]
        self._movements.add(partition, giver, taker)
        for place in {giver, taker}:
            del self._ranks[bisect_left(self._ranks, (len(self.shares[place]), place))]
        self.shares[giver].remove(partition)
        holders = self._holders[partition[0]]
        holders[giver] -= 1
        if not holders[giver]:
            del holders[giver]
        self._put(partition, taker)
        for place in {giver, taker}:
            insort(self._ranks, (len(self.shares[place]), place))
        self._balanced = None


def _imbalance(loads: Sequence[int]) -> int:
    """Return the imbalance of an assignment: the sum of the load differences of all pairs of members.

    ``loads``: number of partitions of each member, in ascending order.
    """
    return sum((2 * at - len(loads) + 1) * load for at, load in enumerate(loads))
