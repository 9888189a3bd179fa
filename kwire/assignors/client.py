"""What an assignor of a classic group is: the leader's own code, which every member brings along.

The coordinator passes its bytes on and reads none of them. Source: ConsumerPartitionAssignor of kafka-clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kwire.assignors.server import AssignorError
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.java import map_order, utf16

EAGER = "eager"  # members give up everything before they join again
COOPERATIVE = "cooperative"  # members keep what they own, and give up only what the assignment takes from them

UNKNOWN_GENERATION = -1

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Partition:
    """``racks``: of the brokers with a replica, alive or not; None for a broker without rack."""

    racks: Sequence[str | None] = ()
    leader_rack: str | None = None


Topics = Mapping[str, Sequence[Partition]]  # by name: what the leader's metadata has, partition 0 first


def without_racks(counts: Mapping[str, int]) -> Topics:
    """Topics of so many partitions, where no broker has a rack."""
    return {topic: [Partition()] * count for topic, count in counts.items()}


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the leader knows of a member; ``owned`` and ``generation`` are those of the subscription, v1 and v2."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int = UNKNOWN_GENERATION
    rack_id: str | None = None
    instance_id: str | None = None


Subscriptions = Mapping[str, Subscription]  # by member id, in the order of the JoinGroup answer


@dataclass(frozen=True, slots=True)
class Assignment:
    """What one member gets, in the order in which it is written."""

    partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None


GroupAssignment = dict[str, list[TopicPartition]]  # by member id; every member is in it


class Assignor(ABC):
    """A way to share partitions out, as a member of a classic group carries it. Write your own by deriving from it.

    ``name``: of the protocol in JoinGroup. ``protocols``: what it supports, see ``common_protocol``.
    """

    name: str
    protocols: Sequence[str] = (EAGER,)

    def user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - others put it to use
        """What this member tells the leader's assignor in its next subscription to ``topics``."""
        return None

    @abstractmethod
    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        """Called by the leader. Topics that members subscribe to may be missing in ``topics``."""

    def on_assignment(self, assignment: Assignment, generation: int) -> None:  # noqa: B027 - most need not know
        """Called by every member with what it got."""


class PlainAssignor(Assignor):
    """One that has to know no more than how many partitions there are, and who subscribes to what.

    User data, racks and what is owned are taken off; whoever wants them derives from ``Assignor``.
    Source: AbstractPartitionAssignor of kafka-clients 0.9. Since 0.11 it hands all of it on.
    """

    @abstractmethod
    def share(self, counts: Mapping[str, int], subscribed: Mapping[str, Sequence[str]]) -> GroupAssignment:
        """``counts``: partitions by topic; ``subscribed``: topics by member id."""

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        counts = {topic: len(partitions) for topic, partitions in topics.items()}
        return assigned(self.share(counts, {member_id: list(member.topics) for member_id, member in members.items()}))


def by_name(assignors: Iterable[Assignor]) -> dict[str, Assignor]:
    """Those that one member carries, by name, in its order of preference. Raises AssignorError if two have one name."""
    found: dict[str, Assignor] = {}
    for one in assignors:
        if other := found.get(one.name):
            kinds = f"{type(other).__name__} and {type(one).__name__}"
            raise AssignorError(f"{kinds} have one name, {one.name!r}, by which members choose between them")
        found[one.name] = one
    return found


def common_protocol(assignors: Collection[Assignor]) -> str:
    """How a member that carries these rebalances: COOPERATIVE if all of them can. Raises AssignorError.

    Source: the constructor of ConsumerCoordinator.
    """
    for protocol in (COOPERATIVE, EAGER):
        if all(protocol in one.protocols for one in assignors):
            return protocol
    raise AssignorError(f"{', '.join(one.name for one in assignors)} support no protocol that all of them do")


def assigned(shares: GroupAssignment) -> dict[str, Assignment]:
    """Assignments without user data."""
    return {member_id: Assignment(partitions) for member_id, partitions in shares.items()}


def check(assignments: Mapping[str, Assignment], topics: Topics, members: Subscriptions, protocol: str = EAGER) -> None:
    """Raises AssignorError, with member and partition, for what no assignor may answer.

    That is a member that is not in the group, a partition that is not there, or not subscribed to, or given twice; with
    COOPERATIVE, one that another member gives up only now. Partitions may be left out: cooperative assignors withhold
    them for a generation. Source of the last rule: ConsumerCoordinator.validateCooperativeAssignment.
    """
    owners: dict[TopicPartition, str] = {}
    for member_id, assignment in assignments.items():
        if member_id not in members:
            raise AssignorError(f"{member_id!r} is given partitions and is no member of the group")
        subscribed = set(members[member_id].topics)
        for topic, number in assignment.partitions:
            given = f"{member_id!r} is given {topic}-{number}"
            if not 0 <= number < len(topics.get(topic, ())):
                raise AssignorError(f"{given}, which is not in the metadata")
            if topic not in subscribed:
                raise AssignorError(f"{given} and does not subscribe to {topic}")
            if (other := owners.setdefault((topic, number), member_id)) != member_id:
                raise AssignorError(f"{given}, which {other!r} has already")
        if len(set(assignment.partitions)) != len(assignment.partitions):
            twice = next(p for n, p in enumerate(assignment.partitions) if p in assignment.partitions[:n])
            raise AssignorError(f"{member_id!r} is given {twice[0]}-{twice[1]} twice")
    if protocol == COOPERATIVE:
        _check_withheld(owners, members)


def _check_withheld(owners: Mapping[TopicPartition, str], members: Subscriptions) -> None:
    for member_id, member in members.items():
        for partition in member.owned:
            owner = owners.get(partition, member_id)
            if owner != member_id and partition not in members[owner].owned:
                given = f"{owner!r} is given {partition[0]}-{partition[1]}"
                raise AssignorError(f"{given}, which {member_id!r} owns and has to give up first")


def read_subscription(blob: ConsumerProtocolSubscription, instance_id: str | None = None) -> Subscription:
    """A decoded subscription as assignors take it; ``instance_id`` stands beside it in the JoinGroup answer."""
    return Subscription(
        topics=blob.topics,
        user_data=blob.user_data,
        owned=_flat(blob.owned_partitions),
        generation=blob.generation_id,
        rack_id=blob.rack_id,
        instance_id=instance_id,
    )


def write_subscription(subscription: Subscription) -> ConsumerProtocolSubscription:
    """The blob of a subscription: topics and what is owned sorted, as Java writes them."""
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
    """A decoded assignment."""
    return Assignment(_flat(blob.assigned_partitions), blob.user_data)


def write_assignment(assignment: Assignment) -> ConsumerProtocolAssignment:
    """The blob of an assignment: partitions by topic, topics in the order in which they come first."""
    part = ConsumerProtocolAssignment.TopicPartition
    grouped = by_topic(assignment.partitions)
    listed = [part(topic=topic, partitions=numbers) for topic, numbers in grouped.items()]
    return ConsumerProtocolAssignment(assigned_partitions=listed, user_data=assignment.user_data)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Numbers by topic, both in the order in which they come."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


def walked(members: Subscriptions) -> list[tuple[str, Subscription]]:
    """Members in the order of the leader's HashMap, which decides ties."""
    return [(member_id, members[member_id]) for member_id in map_order(members)]


def subscribed_topics(topics: Topics, members: Iterable[tuple[str, Subscription]]) -> Topics:
    """The topics with partitions that ``members``, walked, subscribe to, in the order of the leader's HashMap."""
    wanted = map_order(dict.fromkeys(topic for _, member in members for topic in member.topics))
    found = [topic for topic in wanted if topics.get(topic)]
    return {topic: topics[topic] for topic in map_order(found)}


def static_first(members: Iterable[tuple[str, Subscription]]) -> list[str]:
    """Ids of members: static ones by instance id, then the others by member id."""

    def place(member: tuple[str, Subscription]) -> tuple[bool, bytes]:
        member_id, subscription = member
        instance_id = subscription.instance_id
        return instance_id is None, utf16(member_id if instance_id is None else instance_id)

    return [member_id for member_id, _ in sorted(members, key=place)]


def partition_order(partition: TopicPartition) -> tuple[bytes, int]:
    """A sort key: by topic, then by number."""
    return utf16(partition[0]), partition[1]


@dataclass(frozen=True, slots=True)
class Racks:
    """Where racks decide: rack by member id, and racks with a replica, for each partition of each topic.

    Both are empty where they do not decide: no member has a rack that a replica has, or all partitions have replicas
    in all racks. ``nearby``: how many members are in the racks of a partition, told whenever a member has a rack.
    """

    members: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)
    nearby: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, topics: Topics, members: Iterable[tuple[str, Subscription]]) -> Racks:
        """What decides for these members over these topics."""
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
        """True if the member has no rack, or one with a replica."""
        rack = self.members.get(member_id)
        return rack is None or rack in self.replicas[partition[0]][partition[1]]


def _flat(
    grouped: Iterable[ConsumerProtocolSubscription.TopicPartition | ConsumerProtocolAssignment.TopicPartition],
) -> list[TopicPartition]:
    return [(part.topic, number) for part in grouped for number in part.partitions]
