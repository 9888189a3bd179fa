"""CreatePartitions."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.create_partitions import CreatePartitionsRequest

Topic = CreatePartitionsRequest.Topic


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(brokers=3, topics={"t": 2})


def create_partitions(harness: BrokerHarness, version: int = 3, *topics: Any, **how: Any) -> list[Any]:
    results = harness.ask(CreatePartitionsRequest(topics=list(topics), **how, timeout_ms=1_000), version).results
    return [(result.name, E(result.error_code)) for result in results]


def partition_count(harness: BrokerHarness) -> int:
    return len(harness.broker.cluster.topics["t"].partitions)


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(harness, version):
    assert create_partitions(harness, version, Topic(name="t", count=5, assignments=None)) == [("t", E.NONE)]
    assert [partition.index for partition in harness.broker.cluster.topics["t"].partitions] == list(range(5))


def test_validate_only(harness):
    assert create_partitions(harness, 3, Topic(name="t", count=5, assignments=None), validate_only=True) == [
        ("t", E.NONE)
    ]
    assert partition_count(harness) == 2


def assigned(*replicas: Any) -> list[Any]:
    return [Topic.Assignment(broker_ids=list(nodes)) for nodes in replicas]


REFUSED = [
    (Topic(name="nothing", count=5, assignments=None), E.UNKNOWN_TOPIC_OR_PARTITION),
    (Topic(name="t", count=2, assignments=None), E.INVALID_PARTITIONS),
    (Topic(name="t", count=1, assignments=None), E.INVALID_PARTITIONS),
    (Topic(name="t", count=2**31 - 1, assignments=None), E.INVALID_PARTITIONS),
    (Topic(name="t", count=4, assignments=[]), E.INVALID_REPLICA_ASSIGNMENT),
    (Topic(name="t", count=4, assignments=assigned([0])), E.INVALID_REPLICA_ASSIGNMENT),
    (Topic(name="t", count=3, assignments=assigned([])), E.INVALID_REPLICA_ASSIGNMENT),
    (Topic(name="t", count=3, assignments=assigned([9])), E.INVALID_REPLICA_ASSIGNMENT),
    (Topic(name="t", count=3, assignments=assigned([1, 1])), E.INVALID_REPLICA_ASSIGNMENT),
]


@pytest.mark.parametrize(("topic", "error"), REFUSED)
def test_rejected(harness, topic, error):
    assert create_partitions(harness, 3, topic) == [(topic.name, error)]
    assert partition_count(harness) == 2


def test_manual_assignment(harness):
    assert create_partitions(harness, 3, Topic(name="t", count=4, assignments=assigned([2], [1]))) == [("t", E.NONE)]
    assert [list(p.replicas) for p in harness.broker.cluster.topics["t"].partitions[2:]] == [[2], [1]]


def test_replication_factor_is_that_of_the_topic(harness):
    refused = create_partitions(harness, 3, Topic(name="t", count=4, assignments=assigned([2, 0], [1, 2])))
    assert refused == [("t", E.INVALID_REPLICA_ASSIGNMENT)]


def test_duplicate_topic(harness):
    twice = Topic(name="t", count=4, assignments=None)
    assert create_partitions(harness, 3, twice, twice) == [("t", E.INVALID_REQUEST)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_expired_request_adds_nothing(harness, timeout_ms):
    topics = [Topic(name=name, count=4, assignments=None) for name in ("t", "no-such-topic", "x", "x")]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms)
    results = harness.ask(request, 3).results
    expected = [(name, E.REQUEST_TIMED_OUT, None) for name in ("t", "no-such-topic", "x", "x")]
    assert [(each.name, each.error_code, each.error_message) for each in results] == expected
    assert partition_count(harness) == 2
    assert harness.ask(CreatePartitionsRequest(topics=[], timeout_ms=timeout_ms), 3).results == []
