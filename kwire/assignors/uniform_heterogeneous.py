"""The server-side assignor ``uniform`` for members that subscribe to different topics.

First, members keep partitions of topics that they still subscribe to. Then each partition without an owner is assigned
to the least loaded subscriber. Then, topic by topic, partitions move from the most loaded to the least loaded members
until no partition moves. Topics with most partitions per subscriber come first. Source:
UniformHeterogeneousAssignmentBuilder of Kafka 4.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import cycle, islice
from uuid import UUID

from kwire.assignors.server import GroupAssignment, Members, Partitions, partitions_of
from kwire.java import uuid_order
from kwire.lazy_dataclass import dataclass

MAX_ROUNDS = 16  # iterations over all topics, as in Kafka, even if the group is not balanced then

NO_OWNER = -1


@dataclass(slots=True)
class Topic:
    """A topic during an assignment: its subscribers, and the current owner of each partition.

    Attributes:
        id: topic id.
        subscribers: numbers of the members that subscribe to the topic.
        owners: for each partition the number of its owner, or NO_OWNER.
    """

    id: UUID
    subscribers: list[int]  # member numbers
    owners: list[int]  # by partition: a member number, or NO_OWNER

    @property
    def order(self) -> tuple[float, int, int]:
        count = len(self.subscribers)
        return -len(self.owners) / count, count, uuid_order(self.id)


def assign(members: Members, partitions: Partitions) -> GroupAssignment:
    """Return the target assignment of a group whose members subscribe to different topics: member id -> topic id ->
    numbers.

    The numbers are partition numbers. Raises: AssignorError for a subscribed topic that is not in ``partitions``.

    Args:
        members: subscription and current assignment of each member, by member id.
        partitions: number of partitions by topic id.
    """
    topics, loads = owned_topics(members, partitions)
    ordered = in_order(topics)
    for topic in ordered:
        _fill(topic, loads)
    _balance([topic for topic in ordered if len(topic.subscribers) > 1], loads)
    return target_of(list(members), ordered)


def owned_topics(members: Members, partitions: Partitions) -> tuple[list[Topic], list[int]]:
    """Return the subscribed topics with their current owners, and the number of partitions of each member.

    Raises: AssignorError for a subscribed topic that is not in ``partitions``.
    """
    topics = _topics(members, partitions)
    loads = [0] * len(members)
    for place, member in enumerate(members.values()):
        for topic_id in set(member.topic_ids).intersection(member.assigned):
            owners = topics[topic_id].owners
            for number in member.assigned[topic_id]:
                if number < len(owners):
                    owners[number] = place
                    loads[place] += 1
    return list(topics.values()), loads


def in_order(topics: Iterable[Topic]) -> list[Topic]:
    """Return the topics sorted by the ratio of partitions to subscribers, the largest ratio first."""
    return sorted(topics, key=lambda topic: topic.order)


def _topics(members: Members, partitions: Partitions) -> dict[UUID, Topic]:
    subscribers = _subscribers(members)
    counts = partitions_of(subscribers, partitions)
    return {topic: Topic(topic, subscribers[topic], [NO_OWNER] * count) for topic, count in counts.items()}


def _subscribers(members: Members) -> dict[UUID, list[int]]:
    """Return the subscribers of each topic, as member numbers by topic id.

    To save time, members whose ``topic_ids`` are the same object are processed together.
    """
    same_collection: dict[int, list[int]] = {}
    collections: dict[int, Collection[UUID]] = {}
    for place, member in enumerate(members.values()):
        collections[id(member.topic_ids)] = member.topic_ids
        same_collection.setdefault(id(member.topic_ids), []).append(place)
    members_of: dict[UUID, list[int]] = {}
    mixed: set[UUID] = set()
    for number, topic_ids in collections.items():
        for topic_id in dict.fromkeys(topic_ids):
            if topic_id not in members_of:
                members_of[topic_id] = same_collection[number]
                continue
            if topic_id not in mixed:
                mixed.add(topic_id)
                members_of[topic_id] = members_of[topic_id].copy()
            members_of[topic_id] += same_collection[number]
    for topic_id in mixed:
        members_of[topic_id].sort()
    return members_of


def _fill(topic: Topic, loads: list[int]) -> None:
    free = [number for number, owner in enumerate(topic.owners) if owner == NO_OWNER]
    if free:
        for number, (_, place) in zip(free, _least_loaded(_by_load(topic, loads), loads), strict=False):
            topic.owners[number] = place
            loads[place] += 1


def _balance(topics: list[Topic], loads: list[int]) -> None:
    """Move partitions, topic by topic, so that the loads of each topic's subscribers differ as little as possible.

    The topics are repeated until no partition moves, but at most MAX_ROUNDS times. ``loads``: number of partitions of
    each member, which is updated.
    """
    last = 0
    for turn, (at, topic) in enumerate(islice(cycle(enumerate(topics)), MAX_ROUNDS * len(topics))):
        if turn and at == last:
            return
        if _even_out(topic, loads):
            last = at


def _even_out(topic: Topic, loads: list[int]) -> int:
    """Move partitions of one topic from its most to its least loaded subscribers; return the number of moves.

    No partition moves twice. ``loads``: number of partitions of each member, which is updated.
    """
    held = [loads[place] for place in topic.subscribers]
    if max(held) - min(held) <= 1:
        return 0
    gives: dict[int, list[int]] = {}
    for number, owner in enumerate(topic.owners):
        gives.setdefault(owner, []).append(number)
    by_load = _by_load(topic, loads)
    moved = 0
    for (most, giver), (least, taker) in zip(
        _most_loaded(by_load, loads, gives), _least_loaded(by_load, loads), strict=False
    ):
        if most - least <= 1:
            break
        topic.owners[gives[giver].pop()] = taker
        loads[giver] -= 1
        loads[taker] += 1
        moved += 1
    return moved


def _by_load(topic: Topic, loads: list[int]) -> list[int]:
    return sorted(topic.subscribers, key=loads.__getitem__)  # stable: ties keep the order of members


def _least_loaded(by_load: list[int], loads: list[int]) -> Iterator[tuple[int, int]]:
    """Yield, endlessly, the smallest load and the number of a member that has this load.

    After each yield, the caller assigns one partition to this member. A member with a larger load is included when the
    smallest load reaches it.

    Args:
        by_load: member numbers, sorted by load.
        loads: number of partitions of each member.
    """
    end = 0
    level = loads[by_load[0]]
    while True:
        while end < len(by_load) and loads[by_load[end]] == level:
            end += 1
        for place in by_load[:end]:
            yield level, place
        level += 1


def _most_loaded(by_load: list[int], loads: list[int], gives: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield the largest load and the number of a member that has this load, until no member has a partition to give.

    After each yield, the caller takes one partition from this member.

    Args:
        by_load: member numbers, sorted by load.
        loads: number of partitions of each member.
        gives: partitions that each member can give, by member number.
    """
    rest = list(by_load)
    walked: list[int] = []
    level = first = 0
    while rest or first < len(walked):
        level = level - 1 if first < len(walked) else loads[rest[-1]]
        while rest and loads[rest[-1]] == level:
            walked.append(rest.pop())
        for at in range(first, len(walked)):
            if gives.get(walked[at]):
                yield level, walked[at]
            else:  # the first takes its place, as in Kafka, which changes the order of the next iteration
                walked[at] = walked[first]
                first += 1


def target_of(member_ids: list[str], topics: list[Topic]) -> GroupAssignment:
    target: GroupAssignment = {member_id: {} for member_id in member_ids}
    for topic in topics:
        for number, owner in enumerate(topic.owners):
            target[member_ids[owner]].setdefault(topic.id, []).append(number)
    return target
