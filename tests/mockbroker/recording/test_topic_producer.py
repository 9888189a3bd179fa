from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kwire.errorcodes import ErrorCode
from kwire.errors import WireError
from kwire.records import Record, build_batch
from kwire.records.batch import HEADER
from mockbroker import ThreadCluster, run_cluster
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.upstream import Upstream
from mockbroker.recording import topic_producer as module
from mockbroker.recording.record_batches import RecordBatch
from mockbroker.recording.topic_producer import RefusedError, TopicProducer


@pytest.fixture
def cluster() -> Iterator[ThreadCluster]:
    with run_cluster(brokers=2, topics={"frames": 2}) as cluster:
        yield cluster


@pytest.fixture
def producer(cluster: ThreadCluster) -> Iterator[TopicProducer]:
    made = TopicProducer(Upstream(addresses(cluster)), "frames")
    yield made
    made.close()


def addresses(cluster: ThreadCluster) -> list[Address]:
    found = [Address.parse(each) for each in cluster.bootstrap_servers.split(",")]
    return [each for each in found if each is not None]


def batch(*values: bytes, partition: int = 0) -> RecordBatch:
    body = build_batch([Record(value=value, timestamp=5) for value in values])[HEADER.size :]
    return RecordBatch(partition, 5, 5, len(values), len(body), [body])


def values(cluster: ThreadCluster, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in cluster.records("frames", partition)]


def test_batches_are_appended_to_their_partition(cluster: ThreadCluster, producer: TopicProducer) -> None:
    assert producer.partitions() == 2
    for each in (batch(b"1", b"2"), batch(b"3", partition=1), batch(b"4")):
        producer.write(each)
    assert (values(cluster), values(cluster, 1)) == ([b"1", b"2", b"4"], [b"3"])


def test_a_batch_is_not_stored_twice(cluster: ThreadCluster, producer: TopicProducer) -> None:
    """The broker stores the batch in the first attempt, but its response is lost."""
    producer.write(batch(b"1"))
    cluster.faults.add(api="Produce", disconnect="after", times=2)
    with pytest.raises(OSError, match="closed"):
        producer.write(batch(b"2"))
    producer.write(batch(b"2"))
    producer.write(batch(b"3"))
    assert values(cluster) == [b"1", b"2", b"3"]


def test_the_producer_follows_the_leader() -> None:
    with run_cluster(brokers=2, topics={"frames": 1}, config={"default.replication.factor": 2}) as cluster:
        producer = TopicProducer(Upstream(addresses(cluster)), "frames")
        producer.write(batch(b"1"))
        for node in (0, 1):
            cluster.move_leader("frames", 0, node)
            with suppress(RefusedError):  # the previous leader rejects the batch, if it was another broker
                producer.write(batch(b"2"))
        producer.write(batch(b"3"))
        producer.close()
        assert values(cluster)[0] == b"1"
        assert values(cluster)[-1] == b"3"


def test_a_refusal_by_a_former_leader_is_retriable() -> None:
    assert RefusedError(ErrorCode.NOT_LEADER_OR_FOLLOWER).is_retriable
    assert not RefusedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED).is_retriable


def test_a_closed_connection_is_replaced(cluster: ThreadCluster, producer: TopicProducer) -> None:
    producer.write(batch(b"1"))
    cluster.faults.add(api="Produce", disconnect="before", times=1)
    producer.write(batch(b"2"))
    assert values(cluster) == [b"1", b"2"]


def test_the_next_server_is_used_if_one_is_missing(cluster: ThreadCluster) -> None:
    producer = TopicProducer(Upstream([Address("127.0.0.1", 1), *addresses(cluster)]), "frames")
    producer.write(batch(b"1"))
    producer.close()
    assert values(cluster) == [b"1"]


def test_a_lost_producer_id_is_replaced(cluster: ThreadCluster, producer: TopicProducer) -> None:
    producer.write(batch(b"1"))
    cluster.faults.add(api="Produce", error="UNKNOWN_PRODUCER_ID", times=1)
    with pytest.raises(RefusedError, match="UNKNOWN_PRODUCER_ID") as refused:
        producer.write(batch(b"2"))
    assert refused.value.is_retriable
    producer.write(batch(b"2"))
    assert values(cluster) == [b"1", b"2"]


def test_a_batch_that_is_too_large_is_refused(cluster: ThreadCluster, producer: TopicProducer) -> None:
    with pytest.raises(RefusedError) as refused:
        producer.write(batch(bytes(1_100_000)))
    assert (refused.value.code, refused.value.is_retriable) == (ErrorCode.MESSAGE_TOO_LARGE, False)
    producer.write(batch(b"1"))
    assert values(cluster) == [b"1"]


TOPIC = {"name": "frames", "partitions": [{"partition_index": 0, "leader_id": 0}]}
INVALID = [
    ("Metadata", {"topics": []}, WireError, "has 0 topics"),
    ("Metadata", {"topics": [TOPIC, TOPIC]}, WireError, "has 2 topics"),
    ("Metadata", {"topics": [{"name": "frames"}]}, WireError, "the topic frames has no partitions"),
    ("Metadata", {"topics": [{"name": "frames", "error_code": 999}]}, RefusedError, "UNKNOWN_SERVER_ERROR"),
    (
        "Metadata",
        {"brokers": [{"node_id": 0, "host": "a..b", "port": 9092}], "topics": [TOPIC]},
        OSError,
        "a..b is not a valid host name",
    ),
    ("InitProducerId", {"error_code": 999}, RefusedError, "UNKNOWN_SERVER_ERROR"),
    ("Produce", {"responses": []}, WireError, "has 0 topics"),
    ("Produce", {"responses": [{"name": "frames"}]}, WireError, "has 0 topics"),
    (
        "Produce",
        {"responses": [{"name": "frames", "partition_responses": [{"error_code": 999}]}]},
        RefusedError,
        "UNKNOWN_SERVER_ERROR",
    ),
]


@pytest.mark.parametrize(("api", "body", "error", "text"), INVALID, ids=[f"{each[0]} {each[3]}" for each in INVALID])
def test_an_invalid_response_is_an_error_of_the_call(
    api: str, body: dict[str, Any], error: type[Exception], text: str
) -> None:
    with run_cluster(topics={"frames": 1}) as cluster:
        producer = TopicProducer(Upstream(addresses(cluster)), "frames")
        cluster.faults.add(api=api, respond=body, times="always")
        call = (
            producer.partitions if api == "Metadata" and error is not OSError else lambda: producer.write(batch(b"1"))
        )
        with pytest.raises(error, match=text):
            call()
        producer.close()


def test_a_call_after_abort_fails(
    cluster: ThreadCluster, producer: TopicProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer.write(batch(b"1"))
    producer.abort()
    monkeypatch.setattr(module, "BrokerConnection", pytest.fail)  # a connection would wait for a silent broker
    with pytest.raises(ConnectionAbortedError, match="the recording has ended"):
        producer.write(batch(b"2"))
    assert values(cluster) == [b"1"]
