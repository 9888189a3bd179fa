"""Fetch: reading, size limits, the purgatory and its completion."""

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


def wanted(index: int = 0, offset: int = 0, limit: int = 10**6, epoch: int = -1) -> Topic.Partition:
    return Topic.Partition(partition=index, fetch_offset=offset, partition_max_bytes=limit, current_leader_epoch=epoch)


def fetch(
    harness: BrokerHarness,
    version: int,
    *partitions: Any,
    topic: str = "t",
    wait: int = 0,
    least: int = 1,
    most: int = 10**7,
    node: int | None = None,
    **given: Any,
) -> Any:
    known = harness.broker.cluster.topics.get(topic)
    topic_id = known.topic_id if known else UUID(int=999_999)
    topics = [Topic(topic=topic, topic_id=topic_id, partitions=list(partitions))] if partitions else []
    request = FetchRequest(max_wait_ms=wait, min_bytes=least, max_bytes=most, topics=topics, **given)
    return harness.send(request, version, node=harness.leader("t", 0) if node is None else node)


def lines(sent: Any) -> list[Any]:
    return [found for topic in sent.answer.responses for found in topic.partitions]


def count(found: Any) -> int:
    return len(list(batches(found.records)))


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
    sent = fetch(harness, version, wanted(), wait=500)
    assert (sent.answer.error_code, sent.answer.session_id) == (E.NONE, 0)
    (topic,) = sent.answer.responses
    if version >= 13:
        assert (topic.topic, topic.topic_id) == ("", harness.topic_id("t"))
    else:
        assert topic.topic == "t"
    (found,) = topic.partitions
    assert (found.partition_index, found.error_code, found.high_watermark, found.last_stable_offset) == (0, 0, 2, 2)
    assert found.log_start_offset == (0 if version >= 5 else -1)
    assert found.aborted_transactions is None
    assert count(found) == 2


@pytest.mark.parametrize("version", [4, 11, 18])
def test_read_committed_without_transactions(harness, version):
    fill(harness)
    (found,) = lines(fetch(harness, version, wanted(), isolation_level=1))
    assert found.aborted_transactions == []


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_fetch_expires_with_an_empty_response(harness, version):
    sent = fetch(harness, version, wanted(), wait=700)
    harness.wait(0.699)
    assert sent.parked
    harness.wait(1.0)
    assert sent.at == pytest.approx(0.7)
    (found,) = lines(sent)
    assert (found.error_code, found.high_watermark, found.records) == (E.NONE, 0, b"")


def left(harness: BrokerHarness) -> tuple:
    purgatory = harness.broker.fetch_purgatory
    return purgatory.pending, purgatory.watchers, purgatory.watched, len(harness.broker.deadlines)


@pytest.mark.parametrize("version", VERSIONS)
def test_produce_completes_a_delayed_fetch(harness, version):
    sent = fetch(harness, version, wanted(0), wanted(1), wait=5_000)
    harness.wait(0.3)
    assert sent.parked
    produce(harness, 1)
    assert sent.at == pytest.approx(0.3)
    assert [count(found) for found in lines(sent)] == [0, 1]
    assert left(harness) == ({}, {}, {}, 0)


def test_other_partition_does_not_complete_it(harness):
    sent = fetch(harness, 11, wanted(0), wait=5_000)
    produce(harness, 1)
    produce(harness, 0, "u")
    assert sent.parked


def test_fetch_waits_for_min_bytes(harness):
    sent = fetch(harness, 11, wanted(), wait=5_000, least=SIZE * 2)
    produce(harness)
    assert sent.parked
    produce(harness)
    assert count(lines(sent)[0]) == 2


def test_min_bytes_counts_all_partitions(harness):
    sent = fetch(harness, 11, wanted(0), wanted(1), wait=5_000, least=SIZE * 2)
    produce(harness, 0)
    produce(harness, 1)
    assert [count(found) for found in lines(sent)] == [1, 1]


def test_expired_fetch_returns_available_records(harness):
    sent = fetch(harness, 11, wanted(), wait=500, least=SIZE * 2)
    produce(harness)
    harness.wait(0.5)
    assert (sent.at, count(lines(sent)[0])) == (0.5, 1)
    assert left(harness) == ({}, {}, {}, 0)


def test_oldest_delayed_fetch_completes_first(harness):
    sents = [fetch(harness, 11, wanted(), wait=5_000) for _ in range(3)]
    produce(harness)
    assert not any(sent.parked for sent in sents)
    assert list(harness.broker.fetch_purgatory.pending) == []


@pytest.mark.parametrize(
    ("wait", "least"),
    [pytest.param(0, 1, id="no wait"), pytest.param(-1, 1, id="negative"), pytest.param(500, 0, id="0")],
)
def test_fetch_without_wait(harness, wait, least):
    assert lines(fetch(harness, 11, wanted(), wait=wait, least=least))[0].records == b""


def test_fetch_without_partitions_does_not_wait(harness):
    assert fetch(harness, 11, wait=500).answer.responses == []


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


@pytest.mark.parametrize(("most", "first", "second", "counts"), LIMITS)
def test_size_limits(harness, most, first, second, counts):
    fill(harness, 0, 3)
    fill(harness, 1, 3)
    sent = fetch(harness, 11, wanted(0, limit=first), wanted(1, limit=second), most=most)
    assert [count(found) for found in lines(sent)] == counts


def test_first_nonempty_partition_returns_one_batch(harness):
    fill(harness, 1, 3)
    assert [count(found) for found in lines(fetch(harness, 11, wanted(0), wanted(1), wanted(2), most=1))] == [0, 1, 0]


def test_fetch_max_bytes_of_the_broker():
    harness = BrokerHarness(config={"fetch.max.bytes": 1_024})
    fill(harness, 0, 40)
    (found,) = lines(fetch(harness, 11, wanted()))
    assert len(found.records) <= 1_024
    assert count(found) == 1_024 // SIZE


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [3, 99, -1, -(2**63)])
def test_offset_out_of_range_fails_at_once(harness, version, offset):
    fill(harness, count=2)
    (found,) = lines(fetch(harness, version, wanted(offset=offset), wait=500))
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (E.OFFSET_OUT_OF_RANGE, -1, -1)
    assert (found.log_start_offset, found.records) == (-1, b"")


def test_fetch_at_the_log_end_waits(harness):
    fill(harness, count=2)
    assert fetch(harness, 11, wanted(offset=2), wait=500).parked


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partition_does_not_end_the_wait(harness, version):
    fill(harness)
    sent = fetch(harness, version, wanted(9), wanted(0), wait=500, least=10**6)
    assert sent.parked
    harness.wait(0.5)
    found = lines(sent)
    assert [(each.partition_index, each.error_code) for each in found] == [
        (9, E.UNKNOWN_TOPIC_OR_PARTITION),
        (0, E.NONE),
    ]
    assert (found[0].high_watermark, found[0].records, count(found[1])) == (-1, b"", 1)
    (nowhere,) = lines(fetch(harness, version, wanted(), topic="no-such-topic", wait=500))
    assert nowhere.error_code == (E.UNKNOWN_TOPIC_ID if version >= 13 else E.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("version", [9, 18])
@pytest.mark.parametrize(
    ("epoch", "error"), [(0, 0), (-1, 0), (1, E.UNKNOWN_LEADER_EPOCH), (-2, E.FENCED_LEADER_EPOCH)]
)
def test_leader_epochs(harness, version, epoch, error):
    assert lines(fetch(harness, version, wanted(epoch=epoch)))[0].error_code == error


def test_not_the_leader():
    harness = BrokerHarness(brokers=2)
    (found,) = lines(fetch(harness, 11, wanted(), node=1 - harness.leader("t", 0), wait=500))
    assert found.error_code == E.NOT_LEADER_OR_FOLLOWER


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
    sent = fetch(harness, version, wanted(), session_id=session_id, session_epoch=epoch)
    assert bool(sent.answer.session_id) is (epoch == 0)
    assert sent.answer.error_code == (E.FETCH_SESSION_ID_NOT_FOUND if refused else E.NONE)
    assert bool(sent.answer.responses) is not refused


def test_closed_connection_leaves_the_purgatory(harness):
    for _ in range(1_000):
        sent = fetch(harness, 11, wanted(0), wanted(1), wait=86_400_000)
        harness.router.forget(sent.ticket)
    assert left(harness) == ({}, {}, {}, 0)
    assert len(harness.broker.deadlines._heap) < 200
    produce(harness)


DIVERGING = [  # entries of the epochs; fetched epoch and offset of the reader; result: epoch and end offset, or an error
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
    """From v12 on the response has the epoch and offset where the logs diverge, not OFFSET_OUT_OF_RANGE (KIP-595)."""
    fill(harness, count=4)
    place = harness.broker.cluster.topics["t"].partitions[0]
    place.epochs.entries = list(entries)
    asked = wanted(offset=offset)
    asked.last_fetched_epoch = epoch if version >= 12 else -1
    (found,) = lines(fetch(harness, version, asked))
    diverging = found.diverging_epoch.epoch, found.diverging_epoch.end_offset
    if version < 12:
        assert (found.error_code, diverging) == (E.OFFSET_OUT_OF_RANGE if offset > 4 else E.NONE, (-1, -1))
    elif isinstance(expected, tuple):
        assert (found.error_code, diverging, found.records, found.high_watermark) == (E.NONE, expected, b"", 4)
    else:
        assert (found.error_code, diverging) == (expected or E.NONE, (-1, -1))
        assert count(found) == (0 if expected else 4 - offset)


def test_out_of_range_precedes_a_diverging_epoch(harness):
    fill(harness, count=4)
    place = harness.broker.cluster.topics["t"].partitions[0]
    place.log.delete_before(2)
    place.epochs.entries = [(0, 0)]
    asked = wanted(offset=1)
    asked.last_fetched_epoch = 0
    (found,) = lines(fetch(harness, 18, asked))
    assert found.error_code == E.OFFSET_OUT_OF_RANGE
