"""Fetching from followers (KIP-392): the replica that serves a consumer, and the preferred one."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker.api import records as inside
from mockbroker.api.records import Record
from mockbroker.base.settings import RACK_AWARE

RACKS = {"replica.selector.class": RACK_AWARE, "broker.rack": "a,b,b,c"}


def harness(**config: Any) -> BrokerHarness:
    """Return four brokers with a topic whose replicas are on the brokers 0, 1 and 2, in the racks a, b and b."""
    made = BrokerHarness(brokers=4, topics={}, config=RACKS | config)
    made.broker.cluster.create_topic("t", [[0, 1, 2]])
    inside.produce(made.broker, "t", [Record(value=b"v")], 0.0)
    return made


def fetch(of: BrokerHarness, node: int, rack: str = "", *, version: int = 11, **more: Any) -> Any:
    wanted = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1_000, **({"fetch_offset": 0} | more))
    topics = [FetchRequest.Topic(topic="t", partitions=[wanted])]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics, rack_id=rack)
    return of.ask(request, version, node=node).responses[0].partitions[0]


@pytest.mark.parametrize(("rack", "preferred"), [("a", -1), ("b", 2), ("c", -1), ("d", -1), ("", -1)])
def test_leader_names_the_replica_in_the_rack_of_the_consumer(rack, preferred):
    result = fetch(harness(), 0, rack)
    assert (result.error_code, result.preferred_read_replica, result.high_watermark) == (E.NONE, preferred, 1)
    assert bool(result.records) == (preferred == -1)


def test_without_the_selector_the_leader_serves_all_consumers():
    result = fetch(harness(**{"replica.selector.class": ""}), 0, "b")
    assert result.preferred_read_replica == -1
    assert result.records


def test_replica_that_is_not_in_sync_is_not_preferred():
    of = harness()
    for node in (2, 1):
        of.broker.cluster.down[node] = of.broker.cluster.nodes.pop(node)
        assert fetch(of, 0, "b").preferred_read_replica == (1 if node == 2 else -1)


@pytest.mark.parametrize(
    ("node", "version", "epoch", "error"),
    [
        (1, 11, -1, E.NONE),
        (1, 11, 0, E.NONE),
        (1, 11, 1, E.UNKNOWN_LEADER_EPOCH),
        (1, 10, 0, E.NOT_LEADER_OR_FOLLOWER),
        (3, 11, 0, E.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_follower_serves_consumers_of_new_versions(node, version, epoch, error):
    result = fetch(harness(), node, version=version, current_leader_epoch=epoch)
    assert result.error_code == error
    assert bool(result.records) == (error == E.NONE)


def test_follower_completes_a_waiting_fetch():
    of = harness()
    wanted = FetchRequest.Topic.Partition(partition=0, fetch_offset=1, partition_max_bytes=1_000)
    topics = [FetchRequest.Topic(topic="t", partitions=[wanted])]
    waiting = of.send(FetchRequest(max_wait_ms=5_000, min_bytes=1, topics=topics, rack_id="b"), 11, node=2)
    assert waiting.parked
    _, effects = inside.produce(of.broker, "t", [Record(value=b"w")], 0.0)
    of.finish(effects)
    assert waiting.answer.responses[0].partitions[0].records


def test_idle_session_is_redirected_too():
    of = harness()
    assert fetch(of, 0, "b", fetch_offset=1).preferred_read_replica == 2


def test_only_the_leader_lists_offsets():
    place = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name="t", partitions=[place])])
    of = harness()
    errors = [of.ask(request, 7, node=node).topics[0].partitions[0].error_code for node in (0, 1)]
    assert errors == [E.NONE, E.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(("racks", "reported"), [("a,b,b,c", ["a", "b", "b", "c"]), ("a", ["a"] * 4), ("", [None] * 4)])
def test_racks_of_brokers_are_reported(racks, reported):
    of = harness(**{"broker.rack": racks})
    assert [broker.rack for broker in of.ask(MetadataRequest(topics=[]), 9).brokers] == reported
    assert [broker.rack for broker in of.ask(DescribeClusterRequest(), 0).brokers] == reported
