"""Facts about assignors, on small groups with unique names: docs/sources.md, under "Assignors" and "Misreadings"."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random
from types import ModuleType

import pytest
from client_groups import Group, Shares, named, shares
from hypothesis import given
from hypothesis import strategies as st

from kwire.assignors import Assignor, Partition, Subscription, assignor, check, without_racks
from tools import own_assignors


@pytest.fixture(scope="module")
def own() -> ModuleType:
    return own_assignors.load()


def loads(found: Shares) -> list[int]:
    return sorted(map(len, found.values()))


def best_loads(group: Group) -> list[int]:
    """Return the most even loads that are possible; every assignment is tried."""
    every = [(topic, n) for topic, listed in group.topics.items() for n in range(len(listed))]
    subscribers = [[m for m, member in group.members.items() if topic in member.topics] for topic, _ in every]
    tried = (sorted(map(owners.count, group.members)) for owners in product(*subscribers))
    return min(tried, key=lambda counts: sum(count * count for count in counts))


def stay(before: Shares, after: Shares) -> int:
    """Return how many partitions the remaining members keep."""
    return sum(len({*listed} & {*before[member_id]}) for member_id, listed in after.items())


@pytest.mark.parametrize("topics", [1, 2, 5, 20])
def test_the_imbalance_of_range_adds_up_over_topics(topics: int) -> None:
    counts = without_racks({f"t{number}": 3 for number in range(topics)})
    members = {name: Subscription(list(counts)) for name in ("C0", "C1")}
    few, many = loads(shares(assignor("range").assign(counts, members)))
    assert many - few == topics
    few, many = loads(shares(assignor("roundrobin").assign(counts, members)))
    assert many - few <= 1


def test_mixed_subscriptions_round_robin_uneven_sticky_even() -> None:
    uneven, even = named("rr-mixed-subscription", "roundrobin"), named("sticky-mixed", "sticky")
    assert loads(uneven.assigned()) == [1, 1, 4]
    assert loads(even.assigned()) == best_loads(even) == best_loads(uneven) == [1, 2, 3]


def test_sticky_moves_less_than_round_robin_when_one_leaves() -> None:
    """All members subscribe to the same topics, and the remaining members have five of eight partitions."""
    first = named("sticky-first", "sticky")
    ring = shares(assignor("roundrobin").assign(first.topics, first.members))
    round_robin, sticky = named("rr-after-C1-leaves", "roundrobin"), named("sticky-after-C1-leaves", "sticky")
    assert (stay(ring, round_robin.assigned()), stay(first.expected, sticky.assigned())) == (3, 5)
    assert loads(sticky.assigned()) == loads(round_robin.assigned()) == [4, 4]


def test_mixed_subscriptions_sticky_keeps_owned() -> None:
    ring, ring_after = named("rr-mixed-subscription", "roundrobin"), named("rr-mixed-after-C0-leaves", "roundrobin")
    sticky, sticky_after = named("sticky-mixed", "sticky"), named("sticky-mixed-after-C0-leaves", "sticky")
    assert stay(ring.expected, ring_after.assigned()) == 3
    assert stay(sticky.expected, sticky_after.assigned()) == 5


def test_at_random_everyone_gets_some_now_and_then(own: ModuleType) -> None:
    topics = without_racks({"t": 1, "u": 1})
    members = {"a": Subscription(["t"]), "b": Subscription(["t"]), "c": Subscription(["u"])}
    random: Assignor = own.RandomAssignor(Random(1))
    seen = [shares(random.assign(topics, members)) for _ in range(20)]
    assert {member_id for found in seen for member_id, listed in found.items() if ("t", 0) in listed} == {"a", "b"}
    assert all(found["c"] == [("u", 0)] for found in seen)
    again: Assignor = own.RandomAssignor(Random(1))
    assert [shares(again.assign(topics, members)) for _ in range(20)] == seen


@given(
    st.dictionaries(st.sampled_from("tuvw"), st.lists(st.sampled_from(["x", "y", None]), max_size=5), min_size=1),
    st.lists(
        st.tuples(st.sets(st.sampled_from("tuvw")), st.integers(0, 3), st.sampled_from(["x", "y", "z"])), min_size=1
    ),
    st.integers(),
)
def test_own_assignors_give_each_partition_one_subscribed_owner(leaders, wishes, seed) -> None:
    """Assignors at random, by weight and near the leader may be uneven, but assign each partition exactly once."""
    own = own_assignors.load()
    topics = {topic: [Partition(leader_rack=rack) for rack in racks] for topic, racks in leaders.items()}
    kinds = [
        [own.RandomAssignor(Random(seed)) for _ in wishes],
        [own.WeightedAssignor(weight) for _, weight, _ in wishes],
        [own.NearLeaderAssignor(rack) for *_, rack in wishes],
    ]
    for carried in kinds:
        members = {
            f"m{n}": Subscription(sorted(wish[0]), one.user_data(wish[0]))
            for n, (one, wish) in enumerate(zip(carried, wishes, strict=True))
        }
        answer = carried[0].assign(topics, members)
        check(answer, topics, members)
        wanted = {topic for member in members.values() for topic in member.topics}
        every = [(topic, n) for topic in topics if topic in wanted for n in range(len(topics[topic]))]
        assert sorted(partition for share in answer.values() for partition in share.partitions) == sorted(every)
        assert answer.keys() == members.keys()


def test_weights_travel_in_the_user_data(own: ModuleType) -> None:
    topics = without_racks({"t": 30})
    members = {f"of {n}": Subscription(["t"], own.WeightedAssignor(n).user_data(["t"])) for n in (1, 2, 3)}
    result = shares(own.WeightedAssignor().assign(topics, members))
    assert {member_id: len(listed) for member_id, listed in result.items()} == {"of 1": 5, "of 2": 10, "of 3": 15}


def test_near_the_leaders_nothing_crosses_racks(own: ModuleType) -> None:
    """One member and one broker in each of two racks."""
    topics = {"t": [Partition(leader_rack="rack1"), Partition(leader_rack="rack2")] * 2}
    racks = {"consumer1": "rack1", "consumer2": "rack2"}
    members = {m: Subscription(["t"], own.NearLeaderAssignor(rack).user_data(["t"])) for m, rack in racks.items()}

    def crossing(assignor: Assignor) -> int:
        result = shares(assignor.assign(topics, members))
        return sum(topics[topic][n].leader_rack != racks[m] for m, listed in result.items() for topic, n in listed)

    assert (crossing(assignor("range")), crossing(own.NearLeaderAssignor())) == (2, 0)
    alone = own.NearLeaderAssignor().assign(topics, {"consumer1": members["consumer1"]})
    assert len(alone["consumer1"].partitions) == 4  # no member is in rack2: a remote member gets its partitions


def test_built_in_assignors_use_racks_of_replicas_not_of_leaders(own: ModuleType) -> None:
    """Kafka's assignors use the racks of all replicas (KIP-881); older descriptions use the leader's rack."""
    racks = {"consumer1": "rack1", "consumer2": "rack2"}
    leaders = ["rack2", "rack1", "rack2", "rack1"]
    everywhere = {"t": [Partition(["rack1", "rack2"], rack) for rack in leaders]}
    alone = {"t": [Partition([rack], rack) for rack in leaders]}

    def found(name: str, topics: Mapping[str, list[Partition]]) -> dict[str, list[int]]:
        chosen: Assignor = own.NearLeaderAssignor() if name == "near-leader" else assignor(name)
        reported = {m: own.NearLeaderAssignor(rack).user_data(["t"]) for m, rack in racks.items()}
        members = {m: Subscription(["t"], reported[m], rack_id=rack) for m, rack in racks.items()}
        return {m: [number for _, number in listed] for m, listed in shares(chosen.assign(topics, members)).items()}

    near = {"consumer1": [1, 3], "consumer2": [0, 2]}
    assert found("near-leader", everywhere) == found("near-leader", alone) == near
    assert found("range", alone) == near
    assert found("range", everywhere) == {"consumer1": [0, 1], "consumer2": [2, 3]}


def test_only_t1p1_can_move_in_the_uneven_ring() -> None:
    """One document names t1p2 of a topic with partitions 0 and 1; the other document has the right name."""
    group = named("rr-mixed-subscription", "roundrobin")
    results = {member_id: set(listed) for member_id, listed in group.assigned().items()}
    assert len(group.topics["t1"]) == 2
    assert ("t1", 1) in results["C2"]
    assert "t1" in group.members["C1"].topics
    results["C2"].remove(("t1", 1))
    results["C1"].add(("t1", 1))
    assert sorted(map(len, results.values())) == best_loads(group)
