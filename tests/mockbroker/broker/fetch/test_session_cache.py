"""Fetch sessions: incremental responses and eviction. Recorded conversations show the same behavior of Kafka."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.broker.fetch.session_cache import EVICTION_AFTER, LAST_EPOCH, SHARDS, FetchSessionCache

Topic = FetchRequest.Topic
DATA = build_batch([Record(value=b"v" * 40)])


class Reader:
    """A client with a fetch session on topic t."""

    def __init__(self, harness: BrokerHarness, version: int = 11) -> None:
        self.harness, self.version, self.session, self.epoch = harness, version, 0, 0

    def send(self, *fetched: tuple[int, int], forget: tuple[int, ...] = (), **changes: Any) -> Any:
        topic_name_or_id = {"topic_id": self.harness.topic_id("t")} if self.version >= 13 else {"topic": "t"}
        fields = {"max_wait_ms": 0, "min_bytes": 1, "session_id": self.session, "session_epoch": self.epoch}
        partitions = [Topic.Partition(partition=n, fetch_offset=at, partition_max_bytes=10**6) for n, at in fetched]
        request = FetchRequest(
            **fields | changes,
            topics=[Topic(**topic_name_or_id, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[FetchRequest.ForgottenTopic(**topic_name_or_id, partitions=list(forget))]
            if forget
            else [],
        )
        self.epoch += 1
        sent = self.harness.send(request, self.version, node=0)
        if sent.done and not sent.answer.error_code:
            self.session = sent.answer.session_id
        return sent

    def fetch(self, *fetched: tuple[int, int], **changes: Any) -> dict[int, tuple[int, int]]:
        """Send a Fetch; return the high watermark and the size of the records of each returned partition."""
        return partitions_of(self.send(*fetched, **changes).answer)


def partitions_of(response: Any) -> dict[int, tuple[int, int]]:
    assert response.error_code == E.NONE
    return {
        each.partition_index: (each.high_watermark, len(each.records))
        for topic in response.responses
        for each in topic.partitions
    }


OTHER_EPOCHS = [(0, E.INVALID_FETCH_SESSION_EPOCH), (1, E.NONE), (2, E.INVALID_FETCH_SESSION_EPOCH)]


@pytest.mark.parametrize(("added", "error"), OTHER_EPOCHS)
def test_only_the_next_epoch_of_a_session_is_accepted(added: int, error: E) -> None:
    """FetchManager.newContext has this rule. The epochs 0 and -1 are full requests."""
    reader = Reader(BrokerHarness())
    reader.fetch((0, 0))
    reader.fetch()
    assert reader.send(session_epoch=1 + added).answer.error_code == error


def test_unknown_session() -> None:
    reader = Reader(BrokerHarness())
    reader.fetch((0, 0))
    assert reader.send(session_id=reader.session + 1).answer.error_code == E.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(("first", "then"), [(12, 13), (13, 12)])
def test_session_keeps_names_or_topic_ids(first: int, then: int) -> None:
    reader = Reader(BrokerHarness(), first)
    reader.fetch((0, 0))
    reader.version = then
    assert reader.send().answer.error_code == E.FETCH_SESSION_TOPIC_ID_ERROR


def fill(harness: BrokerHarness, index: int) -> None:
    harness.broker.cluster.topics["t"].partitions[index].append(read_batch(DATA))


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(topics={"t": 3})


@pytest.fixture(params=[7, 11, 13, 18])
def reader(harness: BrokerHarness, request: pytest.FixtureRequest) -> Reader:
    return Reader(harness, request.param)


def test_only_changed_partitions_are_returned(harness, reader):
    assert reader.fetch((0, 0), (1, 0), (2, 0)) == {0: (0, 0), 1: (0, 0), 2: (0, 0)}
    assert reader.session > 0
    assert reader.fetch() == {}
    fill(harness, 1)
    assert reader.fetch() == {1: (1, len(DATA))}
    assert reader.fetch((1, 1)) == {}
    fill(harness, 0)
    assert reader.fetch((2, 0), forget=(0,)) == {}
    assert reader.fetch((0, 1)) == {0: (1, 0)}


def test_fetch_without_changed_partition_is_delayed(harness, reader):
    reader.fetch((0, 0), (1, 0))
    sent = reader.send(max_wait_ms=500)
    assert sent.parked
    fill(harness, 1)
    harness.wait(0.5)
    assert partitions_of(sent.answer) == {1: (1, len(DATA))}


def test_session_without_partitions_is_closed(harness, reader):
    reader.fetch((0, 0))
    assert reader.fetch(forget=(0,)) == {}
    assert reader.session == 0
    assert reader.send().answer.error_code == E.FETCH_SESSION_ID_NOT_FOUND


def test_epoch_after_the_largest_is_1(harness):
    reader = Reader(harness)
    reader.fetch((0, 0))
    shards = harness.broker.fetch_sessions(0)._shards
    session = next(shard.sessions[reader.session] for shard in shards if reader.session in shard.sessions)
    session.epoch = reader.epoch = LAST_EPOCH
    assert reader.fetch() == {}
    reader.epoch = 1
    assert reader.fetch() == {}


def test_session_is_unknown_to_other_brokers():
    harness = BrokerHarness(brokers=2, topics={"t": 2})
    reader = Reader(harness)
    reader.fetch((0, 0))
    request = FetchRequest(session_id=reader.session, session_epoch=1)
    assert harness.ask(request, 11, node=1).error_code == E.FETCH_SESSION_ID_NOT_FOUND


def test_deleted_topic_completes_a_delayed_fetch(harness, reader):
    reader.fetch((0, 0))
    sent = reader.send(max_wait_ms=5000)
    harness.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")], timeout_ms=1_000), 6)
    assert [p.error_code for t in sent.answer.responses for p in t.partitions] == [E.UNKNOWN_TOPIC_OR_PARTITION]


# --- eviction ---------------------------------------------------------------------------------------------------------


class FullCache:
    """A session cache without a cluster, by default with one slot in each shard."""

    def __init__(self, slots: int = SHARDS) -> None:
        ids = iter(range(1, 10_000))
        self.cache = FetchSessionCache(slots, lambda: UUID(int=next(ids)))

    def create(self, partitions: int, now: float) -> int:
        partitions = [Topic.Partition(partition=n) for n in range(partitions)]
        request = FetchRequest(session_epoch=0, topics=[Topic(topic="t", partitions=partitions)])
        context = self.cache.new_context(request, 11, now)
        assert not isinstance(context, E)
        return self.cache.create(context)

    def use(self, session_id: int, epoch: int, now: float) -> Any:
        return self.cache.new_context(FetchRequest(session_id=session_id, session_epoch=epoch), 11, now)


@pytest.mark.parametrize(("slots", "expected"), [(0, 0), (7, 0), (8, 8), (9, 8), (16, 16), (1000, 1000)])
def test_slots_are_divided_among_shards(slots, expected):
    cache = FullCache(slots)
    ids = [cache.create(1, 0.0) for _ in range(expected + SHARDS)]
    assert [bool(each) for each in ids] == [True] * expected + [False] * SHARDS
    assert len({each for each in ids if each}) == expected


def test_unused_session_is_evicted():
    cache = FullCache()
    first = [cache.create(2, 0.0) for _ in range(SHARDS)]
    assert cache.create(1, EVICTION_AFTER) == 0
    for _ in range(SHARDS - 1):
        assert cache.create(9, EVICTION_AFTER) == 0
    assert cache.create(1, EVICTION_AFTER + 1)
    assert cache.use(first[0], 1, EVICTION_AFTER + 1) == E.FETCH_SESSION_ID_NOT_FOUND
    assert not isinstance(cache.use(first[1], 1, EVICTION_AFTER + 1), E)


@pytest.mark.parametrize(("partitions", "evicts"), [(1, False), (2, False), (3, True)])
def test_old_session_is_evicted_for_a_larger_one(partitions, evicts):
    cache = FullCache()
    first = [cache.create(2, 0.0) for _ in range(SHARDS)]
    for each in first:  # the sessions are in use for longer than the eviction time
        cache.use(each, 1, EVICTION_AFTER - 1)
        cache.use(each, 2, EVICTION_AFTER + 1)
    assert bool(cache.create(partitions, EVICTION_AFTER + 2)) is evicts
    assert (cache.use(first[0], 3, EVICTION_AFTER + 3) == E.FETCH_SESSION_ID_NOT_FOUND) is evicts


def test_new_session_is_not_evicted():
    cache = FullCache()
    for _ in range(SHARDS):
        cache.create(2, 0.0)
    assert cache.create(100, 1.0) == 0
