"""A consumer without a cluster: its first requests, its reaction to each answer, and that it ignores answers on a
former connection."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tools.draft_groups import GROUP, TOPIC

from mockbroker.lab.history.draft import Consuming, Error, Options
from mockbroker.lab.history.draft.consumer import Close, Connect, Consumer, Effects, Read, Send
from mockbroker.lab.history.draft.messages import (
    ConsumerMetadataRequest,
    ConsumerMetadataResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
)

ID, GENERATION, SHARE = "g-1", 4, ((TOPIC, 0), (TOPIC, 1))
LOOKUP, LINK = 1, 2  # the first two connections of the consumer
MEMBER, REDISCOVERING = Consuming.MEMBER, Consuming.REDISCOVERING
STARTING, STOPPED, DOWN = Consuming.STARTING, Consuming.STOPPED, Consuming.DOWN


def sent(effects: Effects) -> list[Request]:
    return [effect.request for effect in effects if isinstance(effect, Send)]


def connected(options: Options | None = None) -> Consumer:
    """Return a consumer that is connected to its coordinator and has sent JoinGroup."""
    consumer = Consumer("c", GROUP, [TOPIC], [7, 8], options)
    consumer.start(0.0)
    consumer.connected(LOOKUP, 0.0)
    consumer.received(LOOKUP, ConsumerMetadataResponse(node=5), 0.0)
    consumer.connected(LINK, 0.0)
    return consumer


def member(options: Options | None = None) -> Consumer:
    """Return a member that owns the partitions of SHARE, at offset 10 of each, and has read one record of each."""
    consumer = connected(options)
    consumer.received(LINK, JoinGroupResponse(consumer_id=ID, generation=GENERATION, partitions=SHARE), 0.0)
    consumer.received(LINK, OffsetFetchResponse(offsets=dict.fromkeys(SHARE, 10)), 0.0)
    consumer.tick(0.0)
    return consumer


def beating(options: Options | None = None) -> Consumer:
    """Return a member that waits for the answer to the first heartbeat, which it sent at 2 s, and almost never
    commits."""
    consumer = member(replace(options or Options(), commit_interval=1000.0))
    (heartbeat,) = sent(consumer.tick(2.0))
    assert isinstance(heartbeat, HeartbeatRequest)
    return consumer


def test_bootstrap_then_coordinator_then_join_without_an_id() -> None:
    consumer = Consumer("c", GROUP, [TOPIC], [7, 8])
    assert consumer.start(0.0) == [Connect(LOOKUP, 7)]
    assert consumer.connected(LOOKUP, 0.1) == [Send(LOOKUP, ConsumerMetadataRequest(group=GROUP))]
    assert consumer.received(LOOKUP, ConsumerMetadataResponse(node=5), 0.2) == [Close(LOOKUP), Connect(LINK, 5)]
    request = JoinGroupRequest(
        group=GROUP, consumer_id=None, host="c", topics=(TOPIC,), strategy="range", session_timeout=6.0
    )
    assert consumer.connected(LINK, 0.3) == [Send(LINK, request)]


def test_unreachable_bootstrap_broker_is_followed_by_the_next() -> None:
    consumer = Consumer("c", GROUP, [TOPIC], [7, 8])
    consumer.start(0.0)
    assert consumer.disconnected(LOOKUP, 0.5) == [Close(LOOKUP)]
    assert consumer.tick(consumer.deadline()) == [Connect(2, 8)]


def test_with_its_share_it_asks_for_offsets_and_reads_from_there() -> None:
    consumer = connected()
    answer = JoinGroupResponse(consumer_id=ID, generation=GENERATION, partitions=SHARE)
    assert sent(consumer.received(LINK, answer, 1.0)) == [OffsetFetchRequest(group=GROUP, partitions=SHARE)]
    consumer.received(LINK, OffsetFetchResponse(offsets={SHARE[0]: 10}), 1.5)
    assert consumer.tick(1.5) == [Read(SHARE[0], 10), Read(SHARE[1], 0)]
    assert consumer.tick(1.6) == [Read(SHARE[0], 11), Read(SHARE[1], 1)]


def test_id_and_generation_are_in_every_heartbeat_and_commit() -> None:
    consumer, said = member(), list[Request]()
    for tenth in range(100):
        for request in sent(consumer.tick(tenth / 10)):
            said.append(request)
            answer = HeartbeatResponse() if isinstance(request, HeartbeatRequest) else OffsetCommitResponse()
            consumer.received(LINK, answer, tenth / 10)
    assert {type(request) for request in said} == {HeartbeatRequest, OffsetCommitRequest}
    assert {(request.consumer_id, request.generation) for request in said if hasattr(request, "generation")} == {
        (ID, GENERATION)
    }


def test_one_request_at_a_time_is_on_its_way() -> None:
    consumer = beating()
    assert [sent(consumer.tick(2.0 + tenth / 10)) for tenth in range(39)] == [[]] * 39


ANSWERS = [  # error of the answer to a heartbeat, next state, requests that the consumer sends then
    (Error.NONE, MEMBER, []),
    (Error.ILLEGAL_GENERATION, STOPPED, [OffsetCommitRequest]),
    (Error.UNKNOWN_CONSUMER, STARTING, [JoinGroupRequest]),
    (Error.NOT_COORDINATOR_FOR_GROUP, REDISCOVERING, []),
    (Error.COORDINATOR_STARTUP_NOT_COMPLETE, REDISCOVERING, []),
]


@pytest.mark.parametrize(("error", "state", "said"), ANSWERS)
def test_the_answer_to_a_heartbeat_decides(error: Error, state: Consuming, said: list[type[Request]]) -> None:
    consumer = beating()
    effects = consumer.received(LINK, HeartbeatResponse(error=error), 2.1)
    assert consumer.state is state
    assert [type(request) for request in sent(effects)] == said
    assert (consumer.owned == SHARE) == (state in (MEMBER, REDISCOVERING))
    assert (Close(LINK) in effects) == (state is REDISCOVERING)


@pytest.mark.parametrize("error", [Error.NONE, Error.ILLEGAL_GENERATION])
def test_join_follows_the_last_commit_even_if_it_failed(error: Error) -> None:
    consumer = beating()
    consumer.received(LINK, HeartbeatResponse(error=Error.ILLEGAL_GENERATION), 2.1)
    (joins,) = sent(consumer.received(LINK, OffsetCommitResponse(error=error), 2.2))
    assert isinstance(joins, JoinGroupRequest)
    assert joins.consumer_id == ID


def test_consumer_may_rejoin_without_its_id() -> None:
    consumer = beating(Options(rejoins_with_id=False))
    consumer.received(LINK, HeartbeatResponse(error=Error.ILLEGAL_GENERATION), 2.1)
    (joins,) = sent(consumer.received(LINK, OffsetCommitResponse(), 2.2))
    assert isinstance(joins, JoinGroupRequest)
    assert joins.consumer_id is None


def test_a_commit_that_is_refused_stops_it_as_well() -> None:
    consumer = member()
    (commit,) = sent(consumer.tick(1.0))
    assert isinstance(commit, OffsetCommitRequest)
    refused = OffsetCommitResponse(error=Error.ILLEGAL_GENERATION)
    (joins,) = sent(consumer.received(LINK, refused, 1.1))
    assert isinstance(joins, JoinGroupRequest)  # it does not commit again, because that would fail too
    assert consumer.state is STOPPED


@pytest.mark.parametrize("error", [Error.UNKNOWN_PARTITIONING_STRATEGY, Error.INCONSISTENT_PARTITIONING_STRATEGY])
def test_with_a_strategy_that_is_refused_it_cannot_join(error: Error) -> None:
    consumer = connected()
    effects = consumer.received(LINK, JoinGroupResponse(error=error), 0.1)
    assert (consumer.state, consumer.error, effects) == (DOWN, error, [Close(LINK)])
    assert consumer.deadline() == float("inf")


def test_unknown_consumer_id_resets_the_consumer() -> None:
    consumer = beating()
    (joins,) = sent(consumer.received(LINK, HeartbeatResponse(error=Error.UNKNOWN_CONSUMER), 2.1))
    assert isinstance(joins, JoinGroupRequest)
    assert joins.consumer_id is None
    assert (consumer.consumer_id, consumer.generation, consumer.partitions, consumer.positions) == (None, -1, (), {})


def test_no_response_for_a_session_rediscovers_and_reads_on() -> None:
    consumer = beating()
    before = consumer.tick(7.9)
    assert consumer.state is MEMBER
    after = consumer.tick(8.0)  # the heartbeat was sent at second 2
    assert consumer.state is REDISCOVERING
    assert Connect(3, 8) in after
    assert [type(effect) for effect in before] == [Read, Read]
    assert Read(SHARE[0], 14) in consumer.tick(8.1)


def test_responses_on_a_former_connection_are_ignored() -> None:
    consumer = beating()
    consumer.disconnected(LINK, 2.5)
    assert consumer.received(LINK, HeartbeatResponse(error=Error.ILLEGAL_GENERATION), 2.6) == []
    assert consumer.disconnected(LINK, 2.7) == []
    assert consumer.connected(LINK, 2.8) == []
    assert consumer.state is REDISCOVERING


def found_again(consumer: Consumer, now: float) -> list[Request]:
    """Let the consumer find and connect to a coordinator; return its first requests there."""
    (connect,) = [effect for effect in consumer.tick(now) if isinstance(effect, Connect)]
    consumer.connected(connect.link, now)
    consumer.received(connect.link, ConsumerMetadataResponse(node=6), now)
    return sent(consumer.connected(connect.link + 1, now))


@pytest.mark.parametrize(("asks_first", "first"), [(False, JoinGroupRequest), (True, HeartbeatRequest)])
def test_pending_join_may_heartbeat_first_at_next_coordinator(asks_first: bool, first: type[Request]) -> None:
    consumer = beating(Options(asks_first=asks_first))
    consumer.received(LINK, HeartbeatResponse(error=Error.ILLEGAL_GENERATION), 2.1)
    consumer.received(LINK, OffsetCommitResponse(), 2.2)
    consumer.disconnected(LINK, 3.0)
    assert consumer.state is STOPPED
    assert [type(request) for request in found_again(consumer, 3.1)] == [first]


def test_before_its_join_it_heartbeats_at_the_next_coordinator() -> None:
    consumer = beating()
    consumer.received(LINK, HeartbeatResponse(error=Error.ILLEGAL_GENERATION), 2.1)
    consumer.disconnected(LINK, 2.15)  # before its commit was answered
    (heartbeat,) = found_again(consumer, 2.25)
    assert heartbeat == HeartbeatRequest(group=GROUP, consumer_id=ID, generation=GENERATION)
    consumer.received(4, HeartbeatResponse(), 2.3)
    assert consumer.state is MEMBER
    assert consumer.owned == SHARE
    assert [effect.offset for effect in consumer.tick(2.3) if isinstance(effect, Read)] == [12, 12]


def test_leaving_commits_what_was_read_and_closes() -> None:
    consumer = member()
    (commit, closed) = consumer.leave(0.5)
    assert isinstance(commit, Send)
    assert commit.request == OffsetCommitRequest(
        group=GROUP, consumer_id=ID, generation=GENERATION, offsets=dict.fromkeys(SHARE, 11)
    )
    assert closed == Close(LINK)
    assert consumer.state is DOWN
