"""DeleteRecords: log start offsets. Responses of Kafka: the conversation records_deleted."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.delete_records import DeleteRecordsRequest
from kwire.messages.fetch import FetchRequest
from kwire.records.batch import Record, build_batch, read_batch

Topic = DeleteRecordsRequest.Topic
DATA = build_batch([Record(value=b"v")] * 2)


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(brokers=2, topics={"t": 1})
    for _ in range(3):
        log(harness).append(read_batch(DATA), 0)
    return harness


def log(harness: BrokerHarness) -> Any:
    return harness.broker.cluster.topics["t"].partitions[0].log


def delete(
    harness: BrokerHarness, offset: int, version: int = 2, *, topic: str = "t", index: int = 0, node: int | None = None
) -> tuple[Any, ...]:
    requested = Topic.Partition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(topics=[Topic(name=topic, partitions=[requested])], timeout_ms=1000)
    ((partition_response,),) = [
        each.partitions
        for each in harness.ask(request, version, node=harness.leader("t", 0) if node is None else node).topics
    ]
    return partition_response.error_code, partition_response.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("offset", "start"), [(0, 0), (1, 1), (2, 2), (5, 5), (6, 6), (-1, 6)])
def test_log_start_offset_advances(harness, version, offset, start):
    assert delete(harness, offset, version) == (E.NONE, start)
    assert (log(harness).start, log(harness).end) == (start, 6)
    assert delete(harness, 0) == (E.NONE, start)
    assert log(harness).append(read_batch(DATA), 0) == 6


@pytest.mark.parametrize("offset", [7, -2, 2**40])
def test_out_of_range(harness, offset):
    assert delete(harness, offset) == (E.OFFSET_OUT_OF_RANGE, -1)
    assert log(harness).start == 0


def test_rejected_partitions(harness):
    assert delete(harness, 1, topic="no-such-topic") == (E.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(harness, 1, index=9) == (E.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(harness, 1, topic="__consumer_offsets") == (E.INVALID_TOPIC_EXCEPTION, -1)
    assert delete(harness, 1, node=1 - harness.leader("t", 0)) == (E.NOT_LEADER_OR_FOLLOWER, -1)


def test_deletion_completes_a_delayed_fetch(harness):
    fetched = FetchRequest.Topic.Partition(partition=0, fetch_offset=5, partition_max_bytes=10**6)
    topics = [FetchRequest.Topic(topic="t", partitions=[fetched])]
    sent = harness.send(FetchRequest(max_wait_ms=500, min_bytes=10**6, topics=topics), 11, node=harness.leader("t", 0))
    assert sent.parked
    delete(harness, 6)
    assert [each.error_code for topic in sent.answer.responses for each in topic.partitions] == [E.OFFSET_OUT_OF_RANGE]


def test_topic_without_partitions_is_not_in_the_response(harness):
    partition = Topic.Partition(partition_index=0, offset=1)
    topics = [Topic(name="unknown"), Topic(name="t", partitions=[partition]), Topic(name="t")]
    response = harness.ask(DeleteRecordsRequest(topics=topics), 2, node=harness.leader("t", 0))
    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("t", 1)]
