"""Custom assignors: random, by weight, and by rack of the partition leader. User data carries each member's input."""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from kwire.assignors import (
    Assignment,
    Assignor,
    Partition,
    PlainAssignor,
    Subscription,
    Subscriptions,
    TopicPartition,
    Topics,
    check,
)


def share_out(
    topics: Topics, members: Subscriptions, choose: Callable[[list[str], Partition, Mapping[str, int]], str]
) -> dict[str, Assignment]:
    """Assign each partition to the subscriber that ``choose`` returns; it also gets how many partitions each has."""
    shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
    for topic, partitions in sorted(topics.items()):
        subscribers = sorted(member_id for member_id, member in members.items() if topic in member.topics)
        for number, partition in enumerate(partitions if subscribers else ()):
            loads = {member_id: len(share) for member_id, share in shares.items()}
            shares[choose(subscribers, partition, loads)].append((topic, number))
    return {member_id: Assignment(share) for member_id, share in shares.items()}


class RandomAssignor(PlainAssignor):
    """Chooses a random subscriber. It needs only the subscriptions."""

    name = "random"

    def __init__(self, random: Random) -> None:
        self.random = random

    def share(
        self, counts: Mapping[str, int], subscribed: Mapping[str, Sequence[str]]
    ) -> dict[str, list[TopicPartition]]:
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscribed}
        for topic, count in sorted(counts.items()):
            subscribers = sorted(member_id for member_id, topics in subscribed.items() if topic in topics)
            for number in range(count if subscribers else 0):
                shares[self.random.choice(subscribers)].append((topic, number))
        return shares


class WeightedAssignor(Assignor):
    """Assigns by weight: a member of weight 2 gets twice as many partitions as one of weight 1."""

    name = "weighted"

    def __init__(self, weight: int = 1) -> None:
        self.weight = weight

    def user_data(self, topics: Collection[str]) -> bytes:
        return self.weight.to_bytes(4, "big")

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        weights = {member_id: int.from_bytes(member.user_data or b"\1", "big") for member_id, member in members.items()}

        def choose(subscribers: list[str], _: Partition, loads: Mapping[str, int]) -> str:
            return min(subscribers, key=lambda member_id: (loads[member_id] + 1) / max(1, weights[member_id]))

        return share_out(topics, members, choose)


class NearLeaderAssignor(Assignor):
    """Chooses the subscriber with the fewest partitions, in the rack of the partition's leader if there is one."""

    name = "near-leader"

    def __init__(self, rack: str = "") -> None:
        self.rack = rack

    def user_data(self, topics: Collection[str]) -> bytes:
        return self.rack.encode()

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        racks = {member_id: (member.user_data or b"").decode() for member_id, member in members.items()}

        def choose(subscribers: list[str], partition: Partition, loads: Mapping[str, int]) -> str:
            near = [member_id for member_id in subscribers if racks[member_id] == partition.leader_rack]
            return min(near or subscribers, key=loads.__getitem__)

        return share_out(topics, members, choose)


def show(assignor: Assignor, topics: Topics, carried: Mapping[str, Assignor]) -> None:
    """Print the assignment by a group leader with this assignor."""
    members = {name: Subscription(list(topics), one.user_data(topics)) for name, one in carried.items()}
    shares = assignor.assign(topics, members)
    check(shares, topics, members)  # raises with member and partition if the assignment is invalid
    print(assignor.name, {name: [number for _, number in share.partitions] for name, share in shares.items()})


if __name__ == "__main__":
    orders = {"orders": [Partition(leader_rack=rack) for rack in ("a", "b", "b", "c", "b", "a")]}
    show(RandomAssignor(Random(7)), orders, dict.fromkeys(["one", "two"], RandomAssignor(Random(0))))
    show(WeightedAssignor(), orders, {"small": WeightedAssignor(1), "large": WeightedAssignor(2)})
    show(NearLeaderAssignor(), orders, {"in a": NearLeaderAssignor("a"), "in b": NearLeaderAssignor("b")})
