"""Fetch sessions: what they keep and tell, and who has to make room. That it is so in Kafka: conversations."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.broker.fetch.session_cache import LAST_EPOCH, SHARDS, STALE_AFTER, FetchSessionCache

Topic = FetchRequest.Topic
DATA = build_batch([Record(value=b"v" * 40)])


class Reader:
    """A client with a session on topic t."""

    def __init__(self, harness: BrokerHarness, version: int = 11) -> None:
        self.harness, self.version, self.session, self.epoch = harness, version, 0, 0

    def send(self, *wanted: tuple[int, int], forget: tuple[int, ...] = (), **changes: Any) -> Any:
        named = {"topic_id": self.harness.topic_id("t")} if self.version >= 13 else {"topic": "t"}
        fields = {"max_wait_ms": 0, "min_bytes": 1, "session_id": self.session, "session_epoch": self.epoch}
        places = [Topic.Partition(partition=n, fetch_offset=at, partition_max_bytes=10**6) for n, at in wanted]
        request = FetchRequest(
            **fields | changes,
            topics=[Topic(**named, partitions=places)] if places else [],
            forgotten_topics_data=[FetchRequest.ForgottenTopic(**named, partitions=list(forget))] if forget else [],
        )
        self.epoch += 1
        sent = self.harness.send(request, self.version, node=0)
        if sent.done and not sent.answer.error_code:
            self.session = sent.answer.session_id
        return sent

    def fetch(self, *wanted: tuple[int, int], **changes: Any) -> dict[int, tuple[int, int]]:
        """Partitions that are told, with high watermark and bytes of records."""
        return told(self.send(*wanted, **changes).answer)


def told(answer: Any) -> dict[int, tuple[int, int]]:
    assert answer.error_code == E.NONE
    return {
        each.partition_index: (each.high_watermark, len(each.records))
        for topic in answer.responses
        for each in topic.partitions
    }


def fill(harness: BrokerHarness, index: int) -> None:
    harness.broker.cluster.topics["t"].partitions[index].append(read_batch(DATA))


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(topics={"t": 3})


@pytest.fixture(params=[7, 11, 13, 18])
def reader(harness: BrokerHarness, request: pytest.FixtureRequest) -> Reader:
    return Reader(harness, request.param)


def test_only_news_is_told(harness, reader):
    assert reader.fetch((0, 0), (1, 0), (2, 0)) == {0: (0, 0), 1: (0, 0), 2: (0, 0)}
    assert reader.session > 0
    assert reader.fetch() == {}
    fill(harness, 1)
    assert reader.fetch() == {1: (1, len(DATA))}
    assert reader.fetch((1, 1)) == {}
    fill(harness, 0)
    assert reader.fetch((2, 0), forget=(0,)) == {}
    assert reader.fetch((0, 1)) == {0: (1, 0)}


def test_a_fetch_without_news_waits_for_some(harness, reader):
    reader.fetch((0, 0), (1, 0))
    sent = reader.send(max_wait_ms=500)
    assert sent.parked
    fill(harness, 1)
    harness.wait(0.5)
    assert told(sent.answer) == {1: (1, len(DATA))}


def test_a_session_that_is_empty_is_closed(harness, reader):
    reader.fetch((0, 0))
    assert reader.fetch(forget=(0,)) == {}
    assert reader.session == 0
    assert reader.send().answer.error_code == E.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_begin_anew_at_1(harness):
    reader = Reader(harness)
    reader.fetch((0, 0))
    sessions = harness.broker.fetch_sessions(0)
    kept = next(shard.sessions[reader.session] for shard in sessions._shards if reader.session in shard.sessions)
    kept.epoch = reader.epoch = LAST_EPOCH
    assert reader.fetch() == {}
    reader.epoch = 1
    assert reader.fetch() == {}


def test_sessions_are_of_one_broker():
    harness = BrokerHarness(brokers=2, topics={"t": 2})
    reader = Reader(harness)
    reader.fetch((0, 0))
    request = FetchRequest(session_id=reader.session, session_epoch=1)
    assert harness.ask(request, 11, node=1).error_code == E.FETCH_SESSION_ID_NOT_FOUND


def test_who_waits_is_told_when_the_topic_goes(harness, reader):
    reader.fetch((0, 0))
    sent = reader.send(max_wait_ms=5000)
    harness.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="t")], timeout_ms=0), 6)
    assert [p.error_code for t in sent.answer.responses for p in t.partitions] == [E.UNKNOWN_TOPIC_OR_PARTITION]


# --- room ---------------------------------------------------------------------------------------------------------


class Room:
    """Sessions without a cluster: one slot in each shard, and all of them taken by sessions of two partitions."""

    def __init__(self, slots: int = SHARDS) -> None:
        ids = iter(range(1, 10_000))
        self.sessions = FetchSessionCache(slots, lambda: UUID(int=next(ids)))

    def begin(self, partitions: int, now: float) -> int:
        places = [Topic.Partition(partition=n) for n in range(partitions)]
        request = FetchRequest(session_epoch=0, topics=[Topic(topic="t", partitions=places)])
        context = self.sessions.open(request, 11, now)
        assert not isinstance(context, E)
        return self.sessions.begin(context)

    def use(self, session_id: int, epoch: int, now: float) -> Any:
        return self.sessions.open(FetchRequest(session_id=session_id, session_epoch=epoch), 11, now)


@pytest.mark.parametrize(("slots", "expected"), [(0, 0), (7, 0), (8, 8), (9, 8), (16, 16), (1000, 1000)])
def test_slots_are_shared_out_to_shards(slots, expected):
    room = Room(slots)
    ids = [room.begin(1, 0.0) for _ in range(expected + SHARDS)]
    assert [bool(each) for each in ids] == [True] * expected + [False] * SHARDS
    assert len({each for each in ids if each}) == expected


def test_a_session_that_nobody_uses_makes_room():
    room = Room()
    first = [room.begin(2, 0.0) for _ in range(SHARDS)]
    assert room.begin(1, STALE_AFTER) == 0
    for _ in range(SHARDS - 1):
        assert room.begin(9, STALE_AFTER) == 0
    assert room.begin(1, STALE_AFTER + 1)
    assert room.use(first[0], 1, STALE_AFTER + 1) == E.FETCH_SESSION_ID_NOT_FOUND
    assert not isinstance(room.use(first[1], 1, STALE_AFTER + 1), E)


@pytest.mark.parametrize(("partitions", "makes_room"), [(1, False), (2, False), (3, True)])
def test_an_old_session_makes_room_for_a_larger_one(partitions, makes_room):
    room = Room()
    first = [room.begin(2, 0.0) for _ in range(SHARDS)]
    for each in first:  # in use, for longer than it takes to become stale
        room.use(each, 1, STALE_AFTER - 1)
        room.use(each, 2, STALE_AFTER + 1)
    assert bool(room.begin(partitions, STALE_AFTER + 2)) is makes_room
    assert (room.use(first[0], 3, STALE_AFTER + 3) == E.FETCH_SESSION_ID_NOT_FOUND) is makes_room


def test_a_young_session_makes_no_room():
    room = Room()
    for _ in range(SHARDS):
        room.begin(2, 0.0)
    assert room.begin(100, 1.0) == 0
