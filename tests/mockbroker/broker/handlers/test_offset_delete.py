"""OffsetDelete."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness, commit_without_member, committed, stable_member

from kwire import ErrorCode as E
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.messages.offset_delete import OffsetDeleteRequest
from mockbroker.base.effects import Call, Client, Effects, Ticket
from mockbroker.base.release import RELEASES
from mockbroker.broker.handlers import offset_delete
from mockbroker.groups.offsets import Committed

READS_T = encode_stored(ConsumerProtocolSubscription(topics=["t"]), 1)
READS_U = encode_stored(ConsumerProtocolSubscription(topics=["u"]), 1)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(topics={"t": 2, "u": 1})


def delete(harness: BrokerHarness, group: str, *indexes: Any, topic: str = "t") -> tuple[Any, ...]:
    partitions = [OffsetDeleteRequest.Topic.Partition(partition_index=index) for index in indexes]
    request = OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequest.Topic(name=topic, partitions=partitions)])
    response = harness.ask(request, 0)
    return E(response.error_code), [E(p.error_code) for t in response.topics for p in t.partitions]


def test_empty_group(harness):
    commit_without_member(harness, "g")
    assert delete(harness, "g", 0, 1, 9) == (E.NONE, [E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE, E.NONE])
    assert committed(harness, "g") == {}


def request_in_slices(harness: BrokerHarness, monkeypatch: pytest.MonkeyPatch) -> tuple[Ticket, Effects]:
    """Commit three offsets, begin to delete them in slices of one, and return the effects of the first slice."""
    monkeypatch.setattr(offset_delete, "SLICE_SIZE", 1)
    for topic, index in (("t", 0), ("t", 1), ("u", 0)):
        group = harness.broker.groups.get("g") or harness.broker.groups.create("g", 0.0)
        group.offsets.store(topic, index, Committed(offset=1))
    kind = OffsetDeleteRequest.Topic
    topics = [
        kind(name=name, partitions=[kind.Partition(partition_index=index) for index in indexes])
        for name, indexes in (("t", (0, 1)), ("empty", ()), ("u", (0,)))
    ]
    ticket = Ticket(1, 1, 47, 0)
    call = Call(ticket, Client(0, "c", "/h"), OffsetDeleteRequest(group_id="g", topics=topics))
    return ticket, harness.router.handlers[47].handle(harness.broker, call, 0.0)


def test_large_request_is_handled_in_slices(harness, monkeypatch):
    ticket, (work,) = request_in_slices(harness, monkeypatch)
    offsets = harness.broker.groups["g"].offsets
    assert [list(offsets.committed), *(list(offsets.committed) for _ in work.steps)] == [
        [("t", 1), ("u", 0)],
        [("u", 0)],
    ]
    assert offsets.committed == {}
    _, (work,) = request_in_slices(harness, monkeypatch)
    *_, reply = harness.router.run(harness.router.finish([work], 0.0), 0.0)
    found = [
        (topic.name, [(p.partition_index, p.error_code) for p in topic.partitions]) for topic in reply.response.topics
    ]
    assert (reply.ticket, found) == (ticket, [("t", [(0, 0), (1, 0)]), ("empty", []), ("u", [(0, 0)])])


def test_group_that_is_deleted_between_two_slices(harness, monkeypatch):
    """The remaining partitions get the error."""
    _, (work,) = request_in_slices(harness, monkeypatch)
    harness.broker.groups.delete("g")
    (reply,) = harness.router.run(harness.router.finish([work], 0.0), 0.0)
    errors = [p.error_code for topic in reply.response.topics for p in topic.partitions]
    assert (reply.response.error_code, errors) == (E.NONE, [E.NONE, E.GROUP_ID_NOT_FOUND, E.GROUP_ID_NOT_FOUND])


@pytest.mark.parametrize(("group", "error"), [("", E.INVALID_GROUP_ID), ("missing", E.GROUP_ID_NOT_FOUND)])
def test_missing_group(harness, group, error):
    assert delete(harness, group, 0) == (error, [])


def test_offset_of_a_subscribed_topic_is_kept(harness):
    commit_without_member(harness, "g")
    stable_member(harness, "g", metadata=READS_T)
    assert delete(harness, "g", 0) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC])
    assert committed(harness, "g") == {("t", 0): 5}


def test_offset_of_another_topic_is_deleted(harness):
    commit_without_member(harness, "g")
    stable_member(harness, "g", metadata=READS_U)
    assert delete(harness, "g", 0) == (E.NONE, [E.NONE])


def test_undecodable_subscription_means_all_topics(harness):
    commit_without_member(harness, "g")
    stable_member(harness, "g", metadata=b"\0\1\xff\xff\xff\xff")
    assert delete(harness, "g", 0) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC])


def test_group_of_another_protocol_type_must_be_empty(harness):
    commit_without_member(harness, "g")
    stable_member(harness, "g", protocol_type="connect")
    assert delete(harness, "g", 9) == (E.NON_EMPTY_GROUP, [])


def test_before_kafka_4_last_offset_deletes_the_group(harness):
    harness.broker.release = RELEASES["3.9"]
    commit_without_member(harness, "g")
    assert delete(harness, "g", 0) == (E.NONE, [E.NONE])
    assert "g" not in harness.broker.groups
    assert [(event.event, event.group) for event in harness.journal.events[-1:]] == [("delete", "g")]
