"""The interface of client-side assignors, which the leader of a classic group runs.

The coordinator forwards subscriptions and assignments without decoding them. Source: ConsumerPartitionAssignor of
kafka-clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from kwire.assignors.server import AssignorError
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.java import map_order, utf16
from kwire.lazy_dataclass import dataclass

EAGER = "eager"  # members revoke all partitions before they rejoin
COOPERATIVE = "cooperative"  # members keep their partitions and revoke only those that the assignment moves

UNKNOWN_GENERATION = -1

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition in the leader's metadata.

    Attributes:
        racks: racks of all brokers with a replica, also of brokers that are not alive; None for a broker without a
            rack.
        leader_rack: rack of the partition leader; None if unknown.
    """

    racks: Sequence[str | None] = ()
    leader_rack: str | None = None


Topics = Mapping[str, Sequence[Partition]]  # partitions by topic, from the leader's metadata, partition 0 first


def without_racks(counts: Mapping[str, int]) -> Topics:
    """Return topics whose partitions have no racks. ``counts``: number of partitions by topic."""
    return {topic: [Partition()] * count for topic, count in counts.items()}


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a member, the input of an assignor.

    Attributes:
        topics: names of the subscribed topics.
        user_data: data of the assignor in the subscription; None for none.
        owned: partitions that the member owns; empty before subscription v1.
        generation: generation of ``owned``; UNKNOWN_GENERATION before subscription v2.
        rack_id: rack of the member; None for none.
        instance_id: group instance id of a static member; None for a dynamic member.
    """

    topics: Sequence[str]
    user_data: bytes | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int = UNKNOWN_GENERATION
    rack_id: str | None = None
    instance_id: str | None = None


Subscriptions = Mapping[str, Subscription]  # by member id, in the order of the JoinGroup response


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of a member, the output of an assignor.

    Attributes:
        partitions: assigned partitions, in the order in which they are encoded.
        user_data: data of the assignor for the member; None for none.
    """

    partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None


GroupAssignment = dict[str, list[TopicPartition]]  # partitions by member id, with every member


class Assignor(ABC):
    """The base class of client-side assignors.

    To write your own, derive from this class, set ``name`` and implement ``assign``. An assignor with user data or with
    state between generations also overrides ``user_data`` and ``on_assignment``.

    Attributes:
        name: protocol name in JoinGroup.
        protocols: supported rebalance protocols, see ``common_protocol``.
    """

    name: str
    protocols: Sequence[str] = (EAGER,)

    def user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - for subclasses
        """Return the user data for the next subscription of this member; None for no user data.

        ``topics``: topics of the subscription. The method of this class returns None.
        """
        return None

    @abstractmethod
    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        """Return the assignment of each member, by member id. Only the leader of the group calls this method.

        Args:
            topics: partitions by topic name; some of the subscribed topics may be missing.
            members: subscription of each member, by member id.
        """

    def on_assignment(self, assignment: Assignment, generation: int) -> None:  # noqa: B027 - optional for subclasses
        """Process the new assignment of this member. Every member calls this method after SyncGroup.

        The method of this class does nothing.

        Args:
            assignment: partitions and user data that the leader assigned.
            generation: generation of the group.
        """


class PlainAssignor(Assignor):
    """The base class of custom assignors that need only partition counts and subscribed topics.

    Subclasses set ``name`` and implement ``share``. To use user data, racks or owned partitions, derive from
    ``Assignor``. Source: AbstractPartitionAssignor of kafka-clients 0.9. (In later releases, the Java class also
    supports user data, racks and owned partitions.)
    """

    @abstractmethod
    def share(self, counts: Mapping[str, int], subscribed: Mapping[str, Sequence[str]]) -> GroupAssignment:
        """Return the assigned partitions by member id.

        Args:
            counts: number of partitions by topic.
            subscribed: subscribed topics by member id.
        """

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        counts = {topic: len(partitions) for topic, partitions in topics.items()}
        return assigned(self.share(counts, {member_id: list(member.topics) for member_id, member in members.items()}))


def by_name(assignors: Iterable[Assignor]) -> dict[str, Assignor]:
    """Return the assignors of a member by name, in order of preference.

    Raises: AssignorError if two assignors have the same name.
    """
    named: dict[str, Assignor] = {}
    for one in assignors:
        if other := named.get(one.name):
            kinds = f"{type(other).__name__} and {type(one).__name__}"
            raise AssignorError(f"the assignors {kinds} have the same name {one.name!r}: give each its own name")
        named[one.name] = one
    return named


def common_protocol(assignors: Collection[Assignor]) -> str:
    """Return the rebalance protocol of a member with these assignors: COOPERATIVE if all support it, else EAGER.

    Raises: AssignorError if the assignors have no protocol in common. Source: the constructor of ConsumerCoordinator.
    """
    for protocol in (COOPERATIVE, EAGER):
        if all(protocol in one.protocols for one in assignors):
            return protocol
    raise AssignorError(
        f"{', '.join(one.name for one in assignors)} have no rebalance protocol "
        "in common: use only eager or only cooperative assignors"
    )


def assigned(shares: GroupAssignment) -> dict[str, Assignment]:
    """Convert assigned partitions to assignments without user data, by member id. ``shares``: assigned partitions by
    member id.
    """
    return {member_id: Assignment(partitions) for member_id, partitions in shares.items()}


def check(assignments: Mapping[str, Assignment], topics: Topics, members: Subscriptions, protocol: str = EAGER) -> None:
    """Check the assignment of a group.

    These are invalid:

    - an unknown member;
    - a partition that does not exist, or that is assigned twice;
    - a partition of a topic that the member does not subscribe to;
    - with COOPERATIVE, a partition that another member still owns.

    A partition may be unassigned: a cooperative assignor does not assign a moving partition for one generation.

    Args:
        assignments: assignment of each member, by member id.
        topics: partitions by topic name.
        members: subscription of each member, by member id.
        protocol: rebalance protocol of the group.

    Raises: AssignorError, with member and partition.

    Source of the rule for COOPERATIVE: ConsumerCoordinator.validateCooperativeAssignment.
    """
    owners: dict[TopicPartition, str] = {}
    for member_id, assignment in assignments.items():
        if member_id not in members:
            raise AssignorError(f"partitions are assigned to {member_id!r}, which is not a member of the group")
        subscribed = set(members[member_id].topics)
        for topic, number in assignment.partitions:
            label = f"{topic}-{number} is assigned to {member_id!r}"
            if not 0 <= number < len(topics.get(topic, ())):
                raise AssignorError(f"{label}, but the metadata has no such partition")
            if topic not in subscribed:
                raise AssignorError(f"{label}, which does not subscribe to {topic}")
            if (other := owners.setdefault((topic, number), member_id)) != member_id:
                raise AssignorError(f"{topic}-{number} is assigned to {member_id!r}, but also to {other!r}")
        if len(set(assignment.partitions)) != len(assignment.partitions):
            twice = next(p for n, p in enumerate(assignment.partitions) if p in assignment.partitions[:n])
            raise AssignorError(f"{twice[0]}-{twice[1]} is assigned to {member_id!r} twice")
    if protocol == COOPERATIVE:
        _check_withheld(owners, members)


def _check_withheld(owners: Mapping[TopicPartition, str], members: Subscriptions) -> None:
    for member_id, member in members.items():
        for partition in member.owned:
            owner = owners.get(partition, member_id)
            if owner != member_id and partition not in members[owner].owned:
                raise AssignorError(
                    f"{partition[0]}-{partition[1]} is assigned to {owner!r}, "
                    f"but {member_id!r} owns it and must revoke it first"
                )


def read_subscription(blob: ConsumerProtocolSubscription, instance_id: str | None = None) -> Subscription:
    """Convert a decoded subscription to the type that assignors use.

    Args:
        blob: decoded metadata of the member.
        instance_id: group instance id from the JoinGroup response; None for a dynamic member.
    """
    return Subscription(
        topics=blob.topics,
        user_data=blob.user_data,
        owned=_flat(blob.owned_partitions),
        generation=blob.generation_id,
        rack_id=blob.rack_id,
        instance_id=instance_id,
    )


def write_subscription(subscription: Subscription) -> ConsumerProtocolSubscription:
    """Convert a subscription to the message to encode. Topics and owned partitions are sorted, as in Java."""
    grouped = by_topic(sorted(subscription.owned, key=partition_order))
    part = ConsumerProtocolSubscription.TopicPartition
    return ConsumerProtocolSubscription(
        topics=sorted(subscription.topics, key=utf16),
        user_data=subscription.user_data,
        owned_partitions=[part(topic=topic, partitions=numbers) for topic, numbers in grouped.items()],
        generation_id=subscription.generation,
        rack_id=subscription.rack_id,
    )


def read_assignment(blob: ConsumerProtocolAssignment) -> Assignment:
    """Convert a decoded assignment to the type that assignors use."""
    return Assignment(_flat(blob.assigned_partitions), blob.user_data)


def write_assignment(assignment: Assignment) -> ConsumerProtocolAssignment:
    """Convert an assignment to the message to encode: partitions by topic, topics in order of first appearance."""
    part = ConsumerProtocolAssignment.TopicPartition
    grouped = by_topic(assignment.partitions)
    listed = [part(topic=topic, partitions=numbers) for topic, numbers in grouped.items()]
    return ConsumerProtocolAssignment(assigned_partitions=listed, user_data=assignment.user_data)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers by topic. Topics and numbers keep the order of ``partitions``."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


def in_map_order(members: Subscriptions) -> list[tuple[str, Subscription]]:
    """Return members in the iteration order of the leader's HashMap, because Kafka resolves ties in this order."""
    return [(member_id, members[member_id]) for member_id in map_order(members)]


def subscribed_topics(topics: Topics, members: Iterable[tuple[str, Subscription]]) -> Topics:
    """Return the subscribed topics that have partitions, in the iteration order of the leader's HashMap.

    Args:
        topics: partitions by topic name.
        members: members in the order of ``in_map_order``.
    """
    subscribed = map_order(dict.fromkeys(topic for _, member in members for topic in member.topics))
    existing = [topic for topic in subscribed if topics.get(topic)]
    return {topic: topics[topic] for topic in map_order(existing)}


def static_first(members: Iterable[tuple[str, Subscription]]) -> list[str]:
    """Return member ids: first static members sorted by instance id, then dynamic members sorted by member id."""

    def place(member: tuple[str, Subscription]) -> tuple[bool, bytes]:
        member_id, subscription = member
        instance_id = subscription.instance_id
        return instance_id is None, utf16(member_id if instance_id is None else instance_id)

    return [member_id for member_id, _ in sorted(members, key=place)]


def partition_order(partition: TopicPartition) -> tuple[bytes, int]:
    """Return the sort key of a partition: first its topic, then its partition number."""
    return utf16(partition[0]), partition[1]


@dataclass(frozen=True, slots=True)
class Racks:
    """The racks that an assignor has to consider (KIP-881).

    ``members`` and ``replicas`` are empty if racks do not affect the assignment: no member is in the rack of a replica,
    or all partitions have replicas in the same racks.

    Attributes:
        members: rack by member id.
        replicas: for each topic, the set of racks with replicas of each partition.
        nearby: for each topic, the number of members in the racks of each partition; empty if no member has a rack.
    """

    members: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)
    nearby: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, topics: Topics, members: Iterable[tuple[str, Subscription]]) -> Racks:
        """Return the racks to consider for these topics and members; empty Racks if racks do not matter."""
        by_member = {member_id: member.rack_id for member_id, member in members if member.rack_id}
        if not by_member:
            return cls()
        replicas = {
            topic: [frozenset(rack for rack in partition.racks if rack is not None) for partition in partitions]
            for topic, partitions in topics.items()
        }
        sizes: dict[str, int] = {}
        for rack in by_member.values():
            sizes[rack] = sizes.get(rack, 0) + 1
        nearby = {
            topic: [sum(sizes.get(rack, 0) for rack in racks) for racks in listed] for topic, listed in replicas.items()
        }
        every = frozenset[str]().union(*(racks for listed in replicas.values() for racks in listed))
        if every.isdisjoint(sizes) or all(racks == every for listed in replicas.values() for racks in listed):
            return cls(nearby=nearby)
        return cls(by_member, replicas, nearby)

    def match(self, member_id: str, partition: TopicPartition) -> bool:
        """Return True if the member has no rack, or is in the rack of a replica of the partition."""
        rack = self.members.get(member_id)
        return rack is None or rack in self.replicas[partition[0]][partition[1]]


def _flat(
    grouped: Iterable[ConsumerProtocolSubscription.TopicPartition | ConsumerProtocolAssignment.TopicPartition],
) -> list[TopicPartition]:
    return [(part.topic, number) for part in grouped for number in part.partitions]
