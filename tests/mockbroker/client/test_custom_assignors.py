"""Custom assignors in consumers of one group: user data, arguments and results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
from tools.in_process_streams import InProcessNetwork

from kwire.assignors import COOPERATIVE, EAGER, Assignment, Assignor, Subscription, Subscriptions, Topics
from kwire.messages.fetch import FetchResponse
from kwire.messages.metadata import MetadataResponse
from mockbroker import Cluster, open_cluster
from mockbroker.consumer import Consumer, open_consumer
from tools import own_assignors

OWN = own_assignors.load()
QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
RACKS = {0: "rack1", 1: "rack2"}


class RackNetwork(InProcessNetwork):
    """Connections to brokers with racks. ``read``: bytes of records received from each broker."""

    def __init__(self, cluster: Cluster, client_id: str) -> None:
        super().__init__(cluster, client_id)
        self.read = dict.fromkeys(RACKS, 0)

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        stream = await super().connect(host, port)
        node, inside = self.streams[-1]
        send = inside.line.ask

        async def ask(*request: Any) -> Any:
            answer = await send(*request)
            match answer:
                case MetadataResponse(brokers=brokers):
                    for broker in brokers:
                        broker.rack = RACKS[broker.node_id]
                case FetchResponse(responses=topics):
                    self.read[node] += sum(len(line.records or b"") for topic in topics for line in topic.partitions)
            return answer

        inside.line.ask = ask  # type: ignore[method-assign]
        return stream


@asynccontextmanager
async def members(
    cluster: Cluster,
    carried: Mapping[str, str | Assignor],
    network: Mapping[str, InProcessNetwork] | None = None,
    *,
    static: bool = False,
    **options: Any,
) -> AsyncIterator[Any]:
    """Open consumers by name, each with its assignor, in one group, and wait until the group is stable."""
    async with AsyncExitStack() as stack:
        consumers: dict[str, Consumer] = {}
        for name, assignor in carried.items():
            consumer = open_consumer(
                cluster.bootstrap_servers,
                group="g",
                topics=["t"],
                client_id=name,
                group_instance_id=name if static else None,
                assignors=[assignor],
                connect=(network[name] if network else InProcessNetwork(cluster, name)).connect,
                auto_offset_reset="earliest",
                **options,
            )
            consumers[name] = await stack.enter_async_context(consumer)
        await poll_for_a_while(consumers)
        yield consumers


async def poll_for_a_while(consumers: Mapping[str, Consumer]) -> list[int]:
    """Poll each consumer for a while. Return the number of records that each has read."""
    counts = dict.fromkeys(consumers, 0)
    for _ in range(12):
        for name, consumer in consumers.items():
            counts[name] += len(await consumer.poll(1.0))
    return list(counts.values())


def assignments(consumers: Mapping[str, Consumer]) -> dict[str, list[int]]:
    return {name: sorted(number for _, number in consumer.assignment) for name, consumer in consumers.items()}


@pytest.mark.parametrize(("aware", "crossing"), [(False, 1.0), (True, 0.0)], ids=["range", "near-leader"])
async def test_bytes_that_cross_racks(autojump_clock, aware: bool, crossing: float) -> None:
    """With two racks, each with a consumer and a broker, count the fetched bytes by consumer and broker."""
    racks = {"consumer1": "rack1", "consumer2": "rack2"}
    config = QUICK | {"default.replication.factor": 2}
    async with open_cluster(brokers=2, topics={"t": 4}, config=config) as cluster:
        for number, node in enumerate((1, 1, 0, 0)):
            cluster.move_leader("t", number, node)
        carried = {name: OWN.NearLeaderAssignor(rack) if aware else "range" for name, rack in racks.items()}
        network = {name: RackNetwork(cluster, name) for name in racks}
        async with members(cluster, carried, network) as consumers:
            assert cluster.groups()["g"].protocol == ("near-leader" if aware else "range")
            near, far = [0, 1], [2, 3]
            assert assignments(consumers) == {"consumer1": far if aware else near, "consumer2": near if aware else far}
            for number in range(4):
                cluster.produce("t", [b"x" * 100] * (number + 1), partition=number)
            assert sorted(await poll_for_a_while(consumers)) == [3, 7]
            read = {
                (racks[name], RACKS[node]): size for name, wire in network.items() for node, size in wire.read.items()
            }
        total = sum(read.values())
        assert total > 10 * 100
        assert sum(size for (here, there), size in read.items() if here != there) == crossing * total


async def test_assignor_with_user_data(autojump_clock) -> None:
    """The leader gets the other member's weight from the user data of its JoinGroup."""
    async with open_cluster(topics={"t": 6}, config=QUICK) as cluster:
        carried = {"light": OWN.WeightedAssignor(1), "heavy": OWN.WeightedAssignor(2)}
        async with members(cluster, carried) as consumers:
            assert cluster.groups()["g"].protocol == "weighted"
            assert {name: len(share) for name, share in assignments(consumers).items()} == {"light": 2, "heavy": 4}


@pytest.mark.parametrize(("name", "kept"), [("sticky", 4), ("roundrobin", 2)])
async def test_sticky_assignor_keeps_its_assignment_between_rounds(autojump_clock, name: str, kept: int) -> None:
    """The sticky assignor stores the assignment of on_assignment, so members keep theirs; roundrobin does not."""
    carried = dict.fromkeys(("C0", "C1", "C2"), name)
    async with open_cluster(topics={"t": 6}, config=QUICK) as cluster, members(cluster, carried) as consumers:
        before = assignments(consumers)
        assert [len(share) for share in before.values()] == [2, 2, 2]
        await consumers.pop("C1").unsubscribe()
        await poll_for_a_while(consumers)
        after = assignments(consumers)
        assert [len(share) for share in after.values()] == [3, 3]
        assert sum(len({*share} & {*before[name]}) for name, share in after.items()) == kept


class RecordingAssignor(Assignor):
    """Assigns everything to the first instance id. ``saw``: the members of each call; ``heard``: its assignments."""

    name = "curious"
    protocols = (COOPERATIVE, EAGER)

    def __init__(self) -> None:
        self.saw: list[dict[str, Subscription]] = []
        self.heard: list[tuple[int, Sequence[tuple[str, int]]]] = []

    def user_data(self, topics: Collection[str]) -> bytes:
        return ",".join(sorted(topics)).encode()

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        self.saw.append({member.instance_id or "": member for member in members.values()})
        first = min(members, key=lambda member_id: members[member_id].instance_id or "")
        every = [(topic, number) for topic, listed in topics.items() for number in range(len(listed))]
        return {member_id: Assignment(every if member_id == first else []) for member_id in members}

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        self.heard.append((generation, list(assignment.partitions)))


async def test_arguments_of_the_assignor_interface(autojump_clock) -> None:
    """Assignors get user data, owned partitions with a generation, instance ids, racks, and the generation."""
    curious = {name: RecordingAssignor() for name in ("first", "second")}
    every = [("t", 0), ("t", 1)]
    async with open_cluster(topics={"t": 2}, config=QUICK) as cluster:
        async with members(cluster, curious, static=True, client_rack="here") as consumers:
            assert assignments(consumers) == {"first": [0, 1], "second": []}
            joined = cluster.groups()["g"].generation
        leader = curious["first"]
        assert leader.saw[0] == {"first": Subscription(["t"], b"t", [], -1, "here", "first")}
        last = leader.saw[-1]
        assert sorted(last) == ["first", "second"]
        assert last["first"] == Subscription(["t"], b"t", every, joined - 1, "here", "first")
        assert (last["second"].user_data, last["second"].instance_id, last["second"].owned) == (b"t", "second", [])
        assert leader.heard == [(generation, every) for generation in range(1, joined + 1)]
        assert curious["second"].heard == [(joined, [])]
        assert curious["second"].saw == []
