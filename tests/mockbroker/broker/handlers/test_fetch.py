"""Fetch: reads, size limits, and the purgatory with the completion of its requests."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.fetch import FetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.records.batch import Record, batches, build_batch, read_batch

Topic = FetchRequest.Topic
VERSIONS = range(4, 19)
DATA = build_batch([Record(timestamp=1, value=b"v" * 40)])
SIZE = len(DATA)


def fill(harness: BrokerHarness, index: int = 0, count: int = 1) -> None:
    for _ in range(count):
        harness.broker.cluster.topics["t"].partitions[index].log.append(read_batch(DATA), 0)


def requested(index: int = 0, offset: int = 0, limit: int = 10**6, epoch: int = -1) -> Topic.Partition:
    return Topic.Partition(partition=index, fetch_offset=offset, partition_max_bytes=limit, current_leader_epoch=epoch)


def fetch(
    harness: BrokerHarness,
    version: int,
    *partitions: Any,
    topic: str = "t",
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 10**7,
    node: int | None = None,
    **fields: Any,
) -> Any:
    existing = harness.broker.cluster.topics.get(topic)
    topic_id = existing.topic_id if existing else UUID(int=999_999)
    topics = [Topic(topic=topic, topic_id=topic_id, partitions=list(partitions))] if partitions else []
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **fields)
    return harness.send(request, version, node=harness.leader("t", 0) if node is None else node)


def results_of(sent: Any) -> list[Any]:
    return [result for topic in sent.answer.responses for result in topic.partitions]


def count(result: Any) -> int:
    return len(list(batches(result.records)))


def produce(harness: BrokerHarness, index: int = 0, topic: str = "t") -> None:
    data = ProduceRequest.Topic.Partition(index=index, records=DATA)
    topics = [ProduceRequest.Topic(name=topic, partition_data=[data])]
    harness.ask(ProduceRequest(acks=1, timeout_ms=0, topic_data=topics), 7)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(topics={"t": 3, "u": 1})


@pytest.mark.parametrize("version", VERSIONS)
def test_available_records_are_returned_at_once(harness, version):
    fill(harness, count=2)
    sent = fetch(harness, version, requested(), max_wait_ms=500)
    assert (sent.answer.error_code, sent.answer.session_id) == (E.NONE, 0)
    (topic,) = sent.answer.responses
    if version >= 13:
        assert (topic.topic, topic.topic_id) == ("", harness.topic_id("t"))
    else:
        assert topic.topic == "t"
    (result,) = topic.partitions
    assert (result.partition_index, result.error_code, result.high_watermark, result.last_stable_offset) == (0, 0, 2, 2)
    assert result.log_start_offset == (0 if version >= 5 else -1)
    assert result.aborted_transactions is None
    assert count(result) == 2


@pytest.mark.parametrize("version", [4, 11, 18])
def test_read_committed_without_transactions(harness, version):
    fill(harness)
    (result,) = results_of(fetch(harness, version, requested(), isolation_level=1))
    assert result.aborted_transactions == []


@pytest.mark.parametrize("isolation_level", [-1, 2, 7])
@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
def test_unknown_isolation_level_is_a_server_error(harness, version, isolation_level):
    fill(harness)
    fields = {"isolation_level": isolation_level, "session_epoch": 0} if version >= 7 else {"isolation_level": 7}
    sent = fetch(harness, version, requested(), requested(9), **fields)
    assert (sent.answer.error_code, sent.answer.session_id) == (E.UNKNOWN_SERVER_ERROR if version >= 7 else 0, 0)
    errors = [(each.partition_index, each.error_code, each.high_watermark, each.records) for each in results_of(sent)]
    assert errors == ([(0, E.UNKNOWN_SERVER_ERROR, -1, b""), (9, E.UNKNOWN_SERVER_ERROR, -1, b"")] * (version < 13))


def test_fetch_that_reads_nothing_has_any_isolation_level(harness):
    (result,) = results_of(fetch(harness, 11, requested(9), isolation_level=7))
    assert result.error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(harness, 13, session_epoch=0, isolation_level=7).answer.error_code == E.NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_fetch_expires_with_an_empty_response(harness, version):
    sent = fetch(harness, version, requested(), max_wait_ms=700)
    harness.wait(0.699)
    assert sent.parked
    harness.wait(1.0)
    assert sent.at == pytest.approx(0.7)
    (result,) = results_of(sent)
    assert (result.error_code, result.high_watermark, result.records) == (
        E.NONE,
        0,
        b"",
    )


def purgatory_state(harness: BrokerHarness) -> tuple:
    purgatory = harness.broker.fetch_purgatory
    return purgatory.pending, purgatory.watchers, purgatory.watched, len(harness.broker.client_deadlines)


@pytest.mark.parametrize("version", VERSIONS)
def test_produce_completes_a_delayed_fetch(harness, version):
    sent = fetch(harness, version, requested(0), requested(1), max_wait_ms=5_000)
    harness.wait(0.3)
    assert sent.parked
    produce(harness, 1)
    assert sent.at == pytest.approx(0.3)
    assert [count(result) for result in results_of(sent)] == [0, 1]
    assert purgatory_state(harness) == ({}, {}, {}, 0)


def test_other_partition_does_not_complete_it(harness):
    sent = fetch(harness, 11, requested(0), max_wait_ms=5_000)
    produce(harness, 1)
    produce(harness, 0, "u")
    assert sent.parked


def test_fetch_waits_for_min_bytes(harness):
    sent = fetch(harness, 11, requested(), max_wait_ms=5_000, min_bytes=SIZE * 2)
    produce(harness)
    assert sent.parked
    produce(harness)
    assert count(results_of(sent)[0]) == 2


def test_min_bytes_counts_all_partitions(harness):
    sent = fetch(harness, 11, requested(0), requested(1), max_wait_ms=5_000, min_bytes=SIZE * 2)
    produce(harness, 0)
    produce(harness, 1)
    assert [count(result) for result in results_of(sent)] == [1, 1]


def test_expired_fetch_returns_available_records(harness):
    sent = fetch(harness, 11, requested(), max_wait_ms=500, min_bytes=SIZE * 2)
    produce(harness)
    harness.wait(0.5)
    assert (sent.at, count(results_of(sent)[0])) == (0.5, 1)
    assert purgatory_state(harness) == ({}, {}, {}, 0)


def test_oldest_delayed_fetch_completes_first(harness):
    sents = [fetch(harness, 11, requested(), max_wait_ms=5_000) for _ in range(3)]
    produce(harness)
    assert not any(sent.parked for sent in sents)
    assert list(harness.broker.fetch_purgatory.pending) == []


@pytest.mark.parametrize(
    ("max_wait_ms", "min_bytes"),
    [pytest.param(0, 1, id="no wait"), pytest.param(-1, 1, id="negative"), pytest.param(500, 0, id="0")],
)
def test_fetch_without_wait(harness, max_wait_ms, min_bytes):
    assert results_of(fetch(harness, 11, requested(), max_wait_ms=max_wait_ms, min_bytes=min_bytes))[0].records == b""


def test_fetch_without_partitions_does_not_wait(harness):
    assert fetch(harness, 11, max_wait_ms=500).answer.responses == []


LIMITS = [  # max_bytes of request, first and second partition; returned batches of each partition
    pytest.param(10**6, 10**6, 10**6, [3, 3], id="limits above the records"),
    pytest.param(SIZE * 4, 10**6, 10**6, [3, 1], id="the request's limit"),
    pytest.param(10**6, SIZE * 2, SIZE, [2, 1], id="the partitions' limits"),
    pytest.param(1, 10**6, 10**6, [1, 0], id="at least one batch, of the first partition"),
    pytest.param(10**6, 1, 1, [1, 0], id="at least one batch, above the limit of its partition"),
    pytest.param(0, 0, 0, [1, 0], id="at least one batch, with limits of 0"),
    pytest.param(SIZE * 2 - 1, 10**6, 10**6, [1, 0], id="a byte short of two"),
    pytest.param(-1, -1, -1, [1, 0], id="negative"),
]


@pytest.mark.parametrize(("max_bytes", "first", "second", "counts"), LIMITS)
def test_size_limits(harness, max_bytes, first, second, counts):
    fill(harness, 0, 3)
    fill(harness, 1, 3)
    sent = fetch(harness, 11, requested(0, limit=first), requested(1, limit=second), max_bytes=max_bytes)
    assert [count(result) for result in results_of(sent)] == counts


def test_first_nonempty_partition_returns_one_batch(harness):
    fill(harness, 1, 3)
    assert [
        count(result)
        for result in results_of(fetch(harness, 11, requested(0), requested(1), requested(2), max_bytes=1))
    ] == [0, 1, 0]


def test_fetch_max_bytes_of_the_broker():
    harness = BrokerHarness(config={"fetch.max.bytes": 1_024})
    fill(harness, 0, 40)
    (result,) = results_of(fetch(harness, 11, requested()))
    assert len(result.records) <= 1_024
    assert count(result) == 1_024 // SIZE


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [3, 99, -1, -(2**63)])
def test_offset_out_of_range_fails_at_once(harness, version, offset):
    fill(harness, count=2)
    (result,) = results_of(fetch(harness, version, requested(offset=offset), max_wait_ms=500))
    assert (result.error_code, result.high_watermark, result.last_stable_offset) == (E.OFFSET_OUT_OF_RANGE, -1, -1)
    assert (result.log_start_offset, result.records) == (-1, b"")


def test_fetch_at_the_log_end_waits(harness):
    fill(harness, count=2)
    assert fetch(harness, 11, requested(offset=2), max_wait_ms=500).parked


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partition_does_not_end_the_wait(harness, version):
    fill(harness)
    sent = fetch(harness, version, requested(9), requested(0), max_wait_ms=500, min_bytes=10**6)
    assert sent.parked
    harness.wait(0.5)
    results = results_of(sent)
    assert [(each.partition_index, each.error_code) for each in results] == [
        (0, E.NONE),
        (9, E.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert (results[1].high_watermark, results[1].records, count(results[0])) == (
        -1,
        b"",
        1,
    )
    (unknown,) = results_of(fetch(harness, version, requested(), topic="no-such-topic", max_wait_ms=500))
    assert unknown.error_code == (E.UNKNOWN_TOPIC_ID if version >= 13 else E.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("version", [9, 18])
@pytest.mark.parametrize(
    ("epoch", "error"), [(0, 0), (-1, 0), (1, E.UNKNOWN_LEADER_EPOCH), (-2, E.FENCED_LEADER_EPOCH)]
)
def test_leader_epochs(harness, version, epoch, error):
    assert results_of(fetch(harness, version, requested(epoch=epoch)))[0].error_code == error


def test_not_the_leader():
    harness = BrokerHarness(brokers=2)
    (result,) = results_of(fetch(harness, 11, requested(), node=1 - harness.leader("t", 0), max_wait_ms=500))
    assert result.error_code == E.NOT_LEADER_OR_FOLLOWER


SESSIONS = [  # session id, session epoch, error
    pytest.param(0, -1, False, id="none"),
    pytest.param(0, 0, False, id="new session"),
    pytest.param(12_345, 1, True, id="unknown session"),
    pytest.param(0, 1, True, id="epoch without id"),
    pytest.param(12_345, -1, False, id="session is closed"),
    pytest.param(12_345, 0, False, id="session is replaced"),
]


@pytest.mark.parametrize("version", [7, 12, 18])
@pytest.mark.parametrize(("session_id", "epoch", "refused"), SESSIONS)
def test_session_errors(harness, version, session_id, epoch, refused):
    fill(harness)
    sent = fetch(harness, version, requested(), session_id=session_id, session_epoch=epoch)
    assert bool(sent.answer.session_id) is (epoch == 0)
    assert sent.answer.error_code == (E.FETCH_SESSION_ID_NOT_FOUND if refused else E.NONE)
    assert bool(sent.answer.responses) is not refused


def test_closed_connection_leaves_the_purgatory(harness):
    for _ in range(1_000):
        sent = fetch(harness, 11, requested(0), requested(1), max_wait_ms=86_400_000)
        harness.router.forget(sent.ticket)
    assert purgatory_state(harness) == ({}, {}, {}, 0)
    assert len(harness.broker.deadlines._heap) < 200
    produce(harness)


DIVERGING = [  # epoch entries; fetched epoch and offset of the reader; result: epoch and end offset, or an error
    ([(0, 0)], 0, 2, None),
    ([(0, 0)], 0, 9, (0, 4)),
    ([(0, 0), (1, 3)], 0, 4, (0, 3)),
    ([(0, 0), (1, 3)], 0, 3, None),
    ([(0, 0), (2, 3)], 1, 3, (0, 3)),
    ([(0, 0)], 5, 2, E.OFFSET_OUT_OF_RANGE),
    ([], 0, 2, E.OFFSET_OUT_OF_RANGE),
]


@pytest.mark.parametrize("version", [11, 12, 18])
@pytest.mark.parametrize(("entries", "epoch", "offset", "expected"), DIVERGING)
def test_diverging_epoch(harness, version, entries, epoch, offset, expected):
    """From v12 on, the response has the epoch and offset where the logs diverge, not OFFSET_OUT_OF_RANGE (KIP-595)."""
    fill(harness, count=4)
    partition = harness.broker.cluster.topics["t"].partitions[0]
    partition.epochs.entries = list(entries)
    request_partition = requested(offset=offset)
    request_partition.last_fetched_epoch = epoch if version >= 12 else -1
    (result,) = results_of(fetch(harness, version, request_partition))
    diverging = result.diverging_epoch.epoch, result.diverging_epoch.end_offset
    if version < 12:
        assert (result.error_code, diverging) == (E.OFFSET_OUT_OF_RANGE if offset > 4 else E.NONE, (-1, -1))
    elif isinstance(expected, tuple):
        assert (result.error_code, diverging, result.records, result.high_watermark) == (E.NONE, expected, b"", 4)
    else:
        assert (result.error_code, diverging) == (expected or E.NONE, (-1, -1))
        assert count(result) == (0 if expected else 4 - offset)


def test_out_of_range_precedes_a_diverging_epoch(harness):
    fill(harness, count=4)
    partition = harness.broker.cluster.topics["t"].partitions[0]
    partition.log.delete_before(2)
    partition.epochs.entries = [(0, 0)]
    request_partition = requested(offset=1)
    request_partition.last_fetched_epoch = 0
    (result,) = results_of(fetch(harness, 18, request_partition))
    assert result.error_code == E.OFFSET_OUT_OF_RANGE
