"""DescribeProducers: the producers on every replica, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch

LEADER, FOLLOWER, OTHER = range(3)


@pytest.fixture
def harness() -> BrokerHarness:
    """Return a cluster whose topic ``two`` has replicas on brokers 0 and 1, and a record of an idempotent producer."""
    harness = BrokerHarness(brokers=3, topics={})
    places = CreateTopicsRequest.Topic.Assignment(partition_index=0, broker_ids=[LEADER, FOLLOWER])
    topic = CreateTopicsRequest.Topic(name="two", num_partitions=-1, replication_factor=-1, assignments=[places])
    harness.ask(CreateTopicsRequest(topics=[topic]), 7)
    producer = harness.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4)
    records = build_batch([Record(value=b"v")], producer_id=producer.producer_id, producer_epoch=0, base_sequence=0)
    data = ProduceRequest.Topic.Partition(index=0, records=records)
    sent = ProduceRequest(acks=-1, topic_data=[ProduceRequest.Topic(name="two", partition_data=[data])])
    harness.ask(sent, 9, node=LEADER)
    return harness


def described(harness: BrokerHarness, node: int, topic: str = "two", index: int = 0) -> Any:
    requested = DescribeProducersRequest.Topic(name=topic, partition_indexes=[index])
    return harness.ask(DescribeProducersRequest(topics=[requested]), 0, node=node).topics[0].partitions[0]


@pytest.mark.parametrize("node", [LEADER, FOLLOWER])
def test_every_replica_describes_producers(harness, node):
    partition = described(harness, node)
    assert (partition.error_code, len(partition.active_producers)) == (E.NONE, 1)


REFUSED = [
    pytest.param(OTHER, "two", 0, E.NOT_LEADER_OR_FOLLOWER, id="not a replica"),
    pytest.param(FOLLOWER, "two", 1, E.UNKNOWN_TOPIC_OR_PARTITION, id="unknown partition"),
    pytest.param(OTHER, "none", 0, E.UNKNOWN_TOPIC_OR_PARTITION, id="unknown topic"),
    pytest.param(OTHER, "a/b", 0, E.INVALID_TOPIC_EXCEPTION, id="invalid topic name"),
]


@pytest.mark.parametrize(("node", "topic", "index", "error"), REFUSED)
def test_rejected(harness, node, topic, index, error):
    partition = described(harness, node, topic, index)
    assert (partition.error_code, partition.active_producers) == (error, [])
