"""The client-side assignors that leaders of classic groups use in the simulation. The functions are pure.

These assignors are simpler than Kafka's. The difference does not matter, because the broker never decodes assignments.
"""

from __future__ import annotations

from collections.abc import Mapping

from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.lazy_dataclass import dataclass

Place = tuple[str, int]  # topic name and partition


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a member.

    Attributes:
        topics: subscribed topics.
        owned: partitions that the member owns.
        generation: generation in which the member was assigned ``owned``; -1 without owned partitions.
    """

    topics: tuple[str, ...]
    owned: frozenset[Place] = frozenset()
    generation: int = -1

    def encoded(self) -> bytes:
        line = ConsumerProtocolSubscription.TopicPartition
        return encode_stored(
            ConsumerProtocolSubscription(
                topics=list(self.topics),
                owned_partitions=[line(topic=t, partitions=p) for t, p in by_topic(self.owned).items()],
                generation_id=self.generation,
            ),
            2,
        )


def decoded_subscription(metadata: bytes) -> Subscription:
    subscription, _ = decode_stored(ConsumerProtocolSubscription, metadata)
    owned = frozenset((line.topic, index) for line in subscription.owned_partitions for index in line.partitions)
    return Subscription(tuple(subscription.topics), owned, subscription.generation_id)


def encoded_share(share: frozenset[Place]) -> bytes:
    line = ConsumerProtocolAssignment.TopicPartition
    lines = [line(topic=topic, partitions=indexes) for topic, indexes in by_topic(share).items()]
    return encode_stored(ConsumerProtocolAssignment(assigned_partitions=lines), 1)


def decoded_share(assignment: bytes) -> frozenset[Place]:
    if not assignment:
        return frozenset()
    message, _ = decode_stored(ConsumerProtocolAssignment, assignment)
    return frozenset((line.topic, index) for line in message.assigned_partitions for index in line.partitions)


def by_topic(share: frozenset[Place]) -> dict[str, list[int]]:
    """Return the partition indexes of each topic; topics and indexes are sorted.

    ``share``: set of partitions, as (topic, index).
    """
    partitions: dict[str, list[int]] = {}
    for topic, index in sorted(share):
        partitions.setdefault(topic, []).append(index)
    return partitions


def round_robin(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> dict[str, frozenset[Place]]:
    """Assign each partition to the subscribed member that has the fewest partitions.

    Args:
        members: member -> subscription.
        partitions: topic -> number of partitions.

    Returns: member -> assigned partitions.
    """
    return _filled(members, partitions, {name: set() for name in sorted(members)})


def cooperative(members: Mapping[str, Subscription], partitions: Mapping[str, int]) -> dict[str, frozenset[Place]]:
    """Assign partitions cooperatively: a partition that moves is unassigned until its owner has revoked it.

    A member keeps at most n of its partitions, where n is the number of all partitions divided by the number of
    members, rounded up.

    Args:
        members: member -> subscription.
        partitions: topic -> number of partitions.

    Returns: member -> assigned partitions.
    """
    owners: dict[Place, tuple[int, str]] = {}
    for name, subscription in sorted(members.items()):
        for place in sorted(subscription.owned):
            owners[place] = max(owners.get(place, (-1, "")), (subscription.generation, name))
    there = {(topic, index) for topic, count in partitions.items() for index in range(count)}
    most = -(-len(there) // max(len(members), 1))
    kept: dict[str, set[Place]] = {name: set() for name in sorted(members)}
    for place, (_, name) in sorted(owners.items()):
        if place in there and place[0] in members[name].topics and len(kept[name]) < most:
            kept[name].add(place)
    target = _filled(members, partitions, kept)
    return {
        name: frozenset(place for place in share if place not in owners or owners[place][1] == name)
        for name, share in target.items()
    }


def _filled(
    members: Mapping[str, Subscription], partitions: Mapping[str, int], kept: dict[str, set[Place]]
) -> dict[str, frozenset[Place]]:
    taken = {place for share in kept.values() for place in share}
    for topic, count in sorted(partitions.items()):
        readers = [name for name in sorted(members) if topic in members[name].topics]
        for index in range(count):
            if readers and (topic, index) not in taken:
                kept[min(readers, key=lambda name: len(kept[name]))].add((topic, index))
    return {name: frozenset(share) for name, share in kept.items()}
