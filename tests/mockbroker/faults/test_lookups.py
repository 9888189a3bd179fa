"""The broker's data about requests that conditions of rules need."""

from __future__ import annotations

from uuid import UUID

from tools.broker_harness import BrokerHarness

from kwire.messages.fetch import FetchRequest
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.faults.lookups import broker_lookups

FETCH = 1


def test_topics_by_name_and_id() -> None:
    harness = BrokerHarness(topics={"t": 1})
    lookups = broker_lookups(lambda: harness.broker, lambda number: f"User:{number}")
    topic_id = lookups.topic_id("t")
    assert topic_id is not None
    assert lookups.topic_name(topic_id) == "t"
    assert (lookups.topic_id("x"), lookups.topic_name(UUID(int=1))) == (None, None)
    assert "t" in lookups.topics()
    assert lookups.principal(7) == "User:7"


def test_partitions_of_a_fetch_session() -> None:
    harness = BrokerHarness(topics={"t": 3})
    lookups = broker_lookups(lambda: harness.broker, str)
    partitions = [FetchRequest.Topic.Partition(partition=index, partition_max_bytes=10) for index in (0, 1)]
    topics = [FetchRequest.Topic(topic="t", partitions=partitions)]
    opening = FetchRequest(session_epoch=0, max_bytes=10, topics=topics)
    session_id = harness.ask(opening, 12).session_id

    def fetched(request: FetchRequest) -> object:
        return lookups.fetch_partitions(Call(Ticket(1, 1, FETCH, 12), Client(0, "c", "/"), request))

    assert fetched(opening) is None
    added = [FetchRequest.Topic(topic="t", partitions=[FetchRequest.Topic.Partition(partition=2)])]
    forgotten = [FetchRequest.ForgottenTopic(topic="t", partitions=[0])]
    following = FetchRequest(
        session_id=session_id, session_epoch=1, max_bytes=10, topics=added, forgotten_topics_data=forgotten
    )
    assert fetched(following) == [("t", 1), ("t", 2)]
    assert fetched(FetchRequest(session_id=session_id, session_epoch=1, max_bytes=10)) == [("t", 0), ("t", 1)]
    assert fetched(FetchRequest(session_id=session_id + 1, session_epoch=1, max_bytes=10)) is None
