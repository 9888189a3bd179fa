"""DeleteTopics."""

from __future__ import annotations

from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness, commit_without_member, committed

from kwire import ErrorCode as E
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.schema import ZERO_UUID
from mockbroker.base.effects import Call, Client, Ticket

Topic = DeleteTopicsRequest.Topic


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(topics={"t": 2, "u": 1})


@pytest.mark.parametrize("version", range(1, 6))
def test_delete_by_name(harness, version):
    response = harness.ask(DeleteTopicsRequest(topic_names=["t", "nothing"], timeout_ms=1_000), version)
    assert [(t.name, t.error_code) for t in response.responses] == [
        ("t", E.NONE),
        ("nothing", E.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [bool(t.error_message) for t in response.responses] == [False, version >= 5]
    assert set(harness.broker.cluster.topics) == {"__consumer_offsets", "u"}


def test_delete_by_id(harness):
    topic_id = harness.topic_id("t")
    request = DeleteTopicsRequest(topics=[Topic(topic_id=topic_id)], timeout_ms=1_000)
    responses = [harness.ask(request, 6).responses for _ in range(2)]
    assert [(t.name, t.error_code) for (t,) in responses] == [("t", E.NONE), (None, E.UNKNOWN_TOPIC_ID)]
    assert topic_id not in harness.broker.cluster.by_id


def test_name_and_id_together_are_rejected(harness):
    response = harness.ask(
        DeleteTopicsRequest(topics=[Topic(name="t", topic_id=harness.topic_id("t"))], timeout_ms=1_000), 6
    )
    assert response.responses[0].error_code == E.INVALID_REQUEST


def test_neither_name_nor_id_is_rejected(harness):
    response = harness.ask(DeleteTopicsRequest(topics=[Topic(), Topic(), Topic(name="t")], timeout_ms=1_000), 6)
    text = "Neither topic name nor id were specified."
    assert [(t.name, t.error_code, t.error_message) for t in response.responses] == [
        ("t", E.NONE, None),
        (None, E.INVALID_REQUEST, text),
        (None, E.INVALID_REQUEST, text),
    ]


def test_committed_offsets_are_deleted(harness):
    commit_without_member(harness, "g")
    commit_without_member(harness, "g", topic="u")
    harness.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 3)
    assert committed(harness, "g") == {("u", 0): 5}


def test_deletion_completes_a_delayed_fetch(harness):
    request = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    waiting = harness.send(
        FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchRequest.Topic(topic="t", partitions=[request])]), 11
    )
    assert waiting.parked
    harness.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 3)
    assert waiting.answer.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [5, 6])
def test_a_slice_has_a_limited_number_of_partitions(version):
    """The topics a and b have four partitions, and fill a slice of three, as c does."""
    harness = BrokerHarness(topics={"a": 1, "b": 3, "c": 3, "d": 1})
    commit_without_member(harness, "g", topic="a")
    harness.broker.slice_size = 3
    names = ["a", "b", "c", "d"]
    fields = {"topics": [Topic(name=name) for name in names]} if version == 6 else {"topic_names": names}
    request = DeleteTopicsRequest(**fields, timeout_ms=1_000)
    call = Call(Ticket(1, 1, 20, version), Client(0, "c", "/h"), request)
    *_, work = harness.router.handlers[20].handle(harness.broker, call, 0.0)
    steps = [list(harness.broker.cluster.topics)]
    steps += [list(harness.broker.cluster.topics) for _ in work.steps]
    assert steps == [["__consumer_offsets", "c", "d"], ["__consumer_offsets", "d"]]
    assert list(harness.broker.cluster.topics) == ["__consumer_offsets"]
    assert committed(harness, "g") == {}


def test_recreated_topic_has_a_new_id(harness):
    before = harness.topic_id("t")
    harness.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 3)
    harness.broker.cluster.create_topic("t", [[0]])
    assert harness.topic_id("t") not in (before, ZERO_UUID)


def test_internal_topics_cannot_be_deleted(harness):
    response = harness.ask(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1_000), 3)
    assert response.responses[0].error_code == E.INVALID_REQUEST


@pytest.mark.parametrize("version", range(1, 7))
def test_deletion_disabled(version):
    """Existing and missing topics get the same error, as recorded with 3.9.1 and 4.2.0."""
    harness = BrokerHarness(topics={"t": 1}, config={"delete.topic.enable": "false"})
    fields = {"topics": [Topic(name="t"), Topic(name="nothing")]} if version == 6 else {"topic_names": ["t", "nothing"]}
    response = harness.ask(DeleteTopicsRequest(**fields, timeout_ms=1_000), version)
    error = E.TOPIC_DELETION_DISABLED if version >= 3 else E.INVALID_REQUEST
    assert [(t.name, t.error_code) for t in response.responses] == [("t", error), ("nothing", error)]
    assert "t" in harness.broker.cluster.topics


@pytest.mark.parametrize("timeout_ms", [0, -1])
@pytest.mark.parametrize("version", [1, 5])
def test_expired_request_deletes_nothing(harness, version, timeout_ms):
    response = harness.ask(DeleteTopicsRequest(topic_names=["t", "nothing"], timeout_ms=timeout_ms), version)
    expected = [(name, E.REQUEST_TIMED_OUT, None) for name in ("t", "nothing")]
    assert [(each.name, each.error_code, each.error_message) for each in response.responses] == expected
    assert "t" in harness.broker.cluster.topics


@pytest.mark.parametrize(
    ("topics", "error"),
    [
        ([Topic(topic_id=UUID(int=5))], E.REQUEST_TIMED_OUT),
        ([Topic()], E.INVALID_REQUEST),
        ([Topic(name="t", topic_id=UUID(int=5))], E.INVALID_REQUEST),
        ([Topic(name="t"), Topic(name="t")], E.INVALID_REQUEST),
    ],
    ids=["id", "neither name nor id", "name and id", "duplicate"],
)
def test_expired_request_without_a_valid_topic(harness, topics, error):
    response = harness.ask(DeleteTopicsRequest(topics=topics, timeout_ms=0), 6)
    assert [each.error_code for each in response.responses] == [error]
