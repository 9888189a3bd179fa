"""Kafka's tool for share groups (kafka-share-groups.sh), with a group whose members are scripted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer
from interop.kafka_tools import share_groups
from interop.raw import Connection
from interop.sharers import GROUP, Sharer, sharer
from interop.stage import CONFIG, LIMIT, MARKS, Stage, stage_of

from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker import ThreadCluster, run_cluster

pytestmark = MARKS


@dataclass
class Packers:
    """The share group ``packers`` of two brokers, with one member.

    Attributes:
        cluster: The cluster.
        connection: The member's connection to the coordinator.
        coordinator: Broker id of the coordinator.
    """

    cluster: ThreadCluster
    connection: Connection
    coordinator: int

    def beat(self, epoch: int, topics: list[str] | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id="packers", member_id="packer-1", member_epoch=epoch, subscribed_topic_names=topics
        )
        answer = self.connection.ask(request, 1)
        assert answer.error_code == 0
        return answer

    def tool(self, *options: str) -> list[str]:
        return share_groups(self.cluster.bootstrap_servers, *options)


@pytest.fixture
def packers() -> Iterator[Packers]:
    with run_cluster(brokers=2, topics={"orders": 2}) as cluster:
        with Connection(cluster) as broker:
            node = broker.ask(FindCoordinatorRequest(coordinator_keys=["packers"]), 4).coordinators[0].node_id
        with Connection(cluster, node) as connection:
            yield Packers(cluster, connection, node)


def test_a_group_is_listed_and_described(packers: Packers) -> None:
    packers.beat(0, ["orders"])
    while (beat := packers.beat(1)).member_epoch == 1:  # until the coordinator has initialized the share partitions
        pass
    assert beat.assignment.topic_partitions[0].partitions == [0, 1]
    assert packers.tool("--list", "--state") == ["GROUP STATE", "packers Stable"]
    describe = ["--describe", "--group", "packers"]
    (_, state), (_, member) = (packers.tool(*describe, option, "--verbose") for option in ("--state", "--members"))
    assert state.split()[3:] == ["Stable", "2", "2", "1"]
    assert state.split()[2] == f"({packers.coordinator})"
    assert member == "packers packer-1 /127.0.0.1 raw 2 2 orders:0,1"
    assert packers.tool(*describe)[1:] == ["packers orders 0 - -", "packers orders 1 - -"]


def test_offsets_are_reset_and_the_group_deleted(packers: Packers) -> None:
    packers.beat(0, ["orders"])
    packers.beat(-1)
    reset = packers.tool("--reset-offsets", "--group", "packers", "--topic", "orders", "--to-earliest", "--execute")
    assert reset == ["GROUP TOPIC PARTITION NEW-OFFSET", "packers orders 0 0", "packers orders 1 0"]
    described = packers.tool("--describe", "--group", "packers", "--offsets", "--verbose")
    assert described[1:] == ["packers orders 0 0 0 -", "packers orders 1 0 0 -"]
    deleted = packers.tool("--delete-offsets", "--group", "packers", "--topic", "orders")
    assert deleted == ["TOPIC STATUS", "orders Successful"]
    packers.tool("--delete", "--group", "packers")
    assert packers.tool("--list") == []


def has_both(member: Sharer) -> bool:
    return len(member.taken) >= 2


@pytest.mark.long
def test_records_are_delivered_again_after_a_reset() -> None:
    config = CONFIG | {"group.share.min.heartbeat.interval.ms": 100, "group.share.heartbeat.interval.ms": 300}
    with run_cluster(brokers=2, topics={Stage.topic: 1}, config=config) as cluster, stage_of(cluster) as stage:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for value in (b"accept-1", b"accept-2"):
            producer.produce(Stage.topic, value)
        assert producer.flush(LIMIT) == 0
        reset = ["--reset-offsets", "--group", GROUP, "--topic", Stage.topic, "--to-earliest", "--execute"]
        share_groups(cluster.bootstrap_servers, *reset)
        for name in ("first", "second"):
            member = sharer(stage, "confluent-kafka", name)
            stage.wait("the records", partial(has_both, member))
            member.leave()
            assert sorted(member.taken) == [("accept-1", 1), ("accept-2", 1)], name
            assert share_groups(cluster.bootstrap_servers, *reset)[1:] == [f"{GROUP} {Stage.topic} 0 0"]
