"""Client quotas on requests. Kafka's responses are in the conversation quotas_throttle."""

from __future__ import annotations

from functools import partial
from math import inf, nan
from uuid import uuid4

import pytest
from tools.broker_harness import BrokerHarness, SentRequest
from tools.served_broker import serving

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.records import Record, build_batch
from mockbroker.base.effects import Call, Client, Reply, Ticket, Work
from mockbroker.broker.broker import Broker
from mockbroker.quotas import client_quotas
from mockbroker.quotas.entity import DEFAULT, Entity
from mockbroker.throttling.stage import QuotaStage

ALL_CLIENTS = Entity(None, DEFAULT)


def limited(entity: Entity = ALL_CLIENTS, join_delay_ms: int = 0, **limits: float | None) -> BrokerHarness:
    config = {"mockbroker.quota.request.us": 200_000, "group.initial.rebalance.delay.ms": join_delay_ms}
    harness = BrokerHarness(config=config)
    harness.broker.quotas.changed.append(QuotaStage(harness.router).apply_quotas)
    harness.broker.quotas.alter(entity, limits, validate_only=False)
    return harness


def produce(harness: BrokerHarness, size: int = 20_000, client_id: str = "client", acks: int = -1) -> SentRequest:
    kind = ProduceRequest.Topic
    records = build_batch([Record(value=bytes(size))])
    data = kind(name="t", partition_data=[kind.Partition(index=0, records=records)])
    return harness.send(ProduceRequest(acks=acks, topic_data=[data]), 9, client_id=client_id)


def fetch(harness: BrokerHarness) -> SentRequest:
    kind = FetchRequest.Topic
    wanted = kind(topic="t", partitions=[kind.Partition(partition=0, partition_max_bytes=1 << 20)])
    return harness.send(FetchRequest(min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[wanted]), 11)


def test_producer_above_its_quota_is_throttled_and_muted() -> None:
    harness = limited(producer_byte_rate=1_000)
    sent = produce(harness)
    assert sent.answer.responses[0].partition_responses[0].error_code == E.NONE
    throttle_ms = sent.answer.throttle_time_ms
    assert 10_100 < throttle_ms < 10_200  # 20,000 bytes and the rest of the request, in a window of 10 s
    assert sent.muted
    harness.wait(throttle_ms / 1_000 - 0.01)
    assert sent.unmuted_at is None
    harness.wait(0.02)
    assert sent.unmuted_at == pytest.approx(throttle_ms / 1_000)


def test_producer_below_its_quota_is_not_throttled() -> None:
    harness = limited(producer_byte_rate=3_000)
    sent = produce(harness)
    assert (sent.answer.throttle_time_ms, sent.muted) == (0, False)


@pytest.mark.parametrize("value", [inf, nan])
def test_quota_that_is_not_finite_throttles_no_request(value: float) -> None:
    harness = limited(request_percentage=value, controller_mutation_rate=value)
    harness.broker.quotas.alter(
        ALL_CLIENTS, {"consumer_byte_rate": nan, "producer_byte_rate": nan}, validate_only=False
    )
    topic = CreateTopicsRequest.Topic(name="new", num_partitions=9, replication_factor=1)
    created = harness.send(CreateTopicsRequest(topics=[topic]), 7).answer
    assert (created.topics[0].error_code, created.throttle_time_ms) == (E.NONE, 0)
    assert produce(harness).answer.throttle_time_ms == 0
    assert fetch(harness).answer.throttle_time_ms == 0


def test_producer_without_acks_is_muted_too() -> None:
    harness = limited(producer_byte_rate=1_000)
    sent = produce(harness, acks=0)
    assert (sent.done, sent.answer, sent.muted) == (True, None, True)


def test_quota_is_of_its_client_alone() -> None:
    harness = limited(Entity(None, "slow"), producer_byte_rate=1_000)
    assert produce(harness, client_id="fast").answer.throttle_time_ms == 0
    assert produce(harness, client_id="slow").answer.throttle_time_ms > 0


def test_throttled_fetch_has_no_records_and_does_not_count() -> None:
    harness = limited(consumer_byte_rate=1_000)
    produce(harness)
    first = fetch(harness)
    assert first.answer.throttle_time_ms > 10_000
    assert (first.answer.responses, first.muted) == ([], True)
    again = fetch(harness)
    assert again.answer.throttle_time_ms == first.answer.throttle_time_ms


def test_fetch_above_the_quota_of_request_time_has_no_records() -> None:
    harness = limited(request_percentage=5)  # half a second in 10 s; a request takes 200 ms
    produce(harness)
    assert fetch(harness).answer.responses[0].partitions[0].records
    assert (throttled := fetch(harness).answer).throttle_time_ms > 0
    assert throttled.responses == []


def test_fetch_returns_at_most_what_the_quota_allows() -> None:
    harness = limited(consumer_byte_rate=1_000)
    for _ in range(3):
        produce(harness, 4_000)
    (topic,) = fetch(harness).answer.responses
    assert len(topic.partitions[0].records) < 10_000


def test_forgotten_use_is_counted_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 1)
    harness = limited(producer_byte_rate=3_000)
    stage = harness.router.stages[0]
    ticket, client = Ticket(1, 1, ApiKey.PRODUCE, 9), Client(0, "client", "/127.0.0.1")
    call = Call(ticket, client, ProduceRequest(), bytes(20_000))  # two such requests exceed the quota
    response = Reply(ticket, ProduceResponse())
    assert stage.process_response(call, response, 0.0) is response
    assert produce(harness, client_id="another").answer.throttle_time_ms == 0
    assert stage.process_response(call, response, 0.0) is response
    assert stage.process_response(call, response, 0.0) is not response


def test_request_time_is_limited() -> None:
    harness = limited(request_percentage=1)
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    sent = harness.send(heartbeat, 4)  # 200 ms are 2 % of 10 s
    assert (sent.answer.throttle_time_ms, sent.muted) == (1_000, True)  # at most one window


def test_pending_request_counts_when_it_is_answered() -> None:
    harness = limited(join_delay_ms=3_000, request_percentage=1)
    sent = harness.send(harness.join("g"), 3)
    assert (sent.answer, sent.muted) == (None, False)
    harness.wait(3.0)
    assert (sent.answer.throttle_time_ms, sent.muted) == (1_000, True)


def test_quota_of_the_client_id_of_each_request() -> None:
    harness = limited(Entity(None, "slow"), request_percentage=1)
    client = partial(Client, 0, host="/127.0.0.1")
    heartbeat, throttled = HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), []
    for number, client_id in enumerate(("fast", "slow", "fast")):
        call = Call(Ticket(7, number, 12, 4), client(client_id=client_id), heartbeat, b"")
        (reply,) = harness.router.step(call, harness.now)
        assert isinstance(reply, Reply)
        throttled.append(reply.delivery is not None)
    assert throttled == [False, True, False]


def test_mutations_above_the_quota_are_refused() -> None:
    harness = limited(controller_mutation_rate=1)
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=f"n{number}", num_partitions=6, replication_factor=1) for number in range(3)]
    response = harness.ask(CreateTopicsRequest(topics=topics), 7)
    assert [topic.error_code for topic in response.topics] == [E.NONE, E.NONE, E.THROTTLING_QUOTA_EXCEEDED]
    assert response.throttle_time_ms == 1_000  # 11 tokens, of which 12 were taken
    names = [DeleteTopicsRequest.Topic(name="n0"), DeleteTopicsRequest.Topic(topic_id=harness.topic_id("n1"))]
    deleted = harness.ask(DeleteTopicsRequest(topics=names, timeout_ms=1_000), 6)
    assert [topic.error_code for topic in deleted.responses] == [E.THROTTLING_QUOTA_EXCEEDED] * 2
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsRequest.Topic(name="t", count=5, assignments=None)], timeout_ms=1_000
    )
    assert [each.error_code for each in harness.ask(more, 3).results] == [E.THROTTLING_QUOTA_EXCEEDED]
    harness.wait(1.0)
    assert [each.error_code for each in harness.ask(more, 3).results] == [E.NONE]


def test_request_that_uses_the_last_tokens_is_not_throttled() -> None:
    harness = limited(controller_mutation_rate=1)
    topic = CreateTopicsRequest.Topic(name="n", num_partitions=15, replication_factor=1)
    created = harness.ask(CreateTopicsRequest(topics=[topic]), 7)
    assert (created.topics[0].error_code, created.throttle_time_ms) == (E.NONE, 0)
    refused = harness.ask(DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name="n")], timeout_ms=1_000), 6)
    assert refused.throttle_time_ms == 4_000  # 11 tokens, of which 15 were taken
    assert (refused.responses[0].error_code, refused.responses[0].error_message) == (E.THROTTLING_QUOTA_EXCEEDED, None)


def test_many_refused_topics_are_handled_in_slices() -> None:
    harness = limited(controller_mutation_rate=1)
    kind = CreateTopicsRequest.Topic
    topics = [kind(name=f"n{number}", num_partitions=12, replication_factor=1) for number in range(2_500)]
    request = CreateTopicsRequest(topics=topics)
    response = harness.ask(request, 7)
    assert [topic.name for topic in response.topics] == [topic.name for topic in topics]
    refused = E.THROTTLING_QUOTA_EXCEEDED
    assert [topic.error_code for topic in response.topics] == [E.NONE, *[refused] * 2_499]
    assert response.throttle_time_ms == 1_000  # 11 tokens, of which 12 were taken
    (stage,) = harness.router.stages
    effects = stage.before(Call(Ticket(99, 1, 19, 7), Client(0, "client", "/127.0.0.1"), request, b""), harness.now)
    assert isinstance(effects, list)
    assert [type(effect) for effect in effects] == [Work]


def test_old_versions_are_throttled_and_not_refused() -> None:
    harness = limited(controller_mutation_rate=1)
    topics = [
        CreateTopicsRequest.Topic(name=f"n{number}", num_partitions=6, replication_factor=1) for number in range(3)
    ]
    response = harness.ask(CreateTopicsRequest(topics=topics), 5)
    assert [topic.error_code for topic in response.topics] == [E.NONE] * 3
    assert response.throttle_time_ms == 7_000
    deleted = harness.ask(DeleteTopicsRequest(topic_names=["n0", "n1"], timeout_ms=1_000), 4)
    assert [topic.error_code for topic in deleted.responses] == [E.NONE] * 2


def test_topics_with_an_error_use_no_mutations() -> None:
    harness = limited(controller_mutation_rate=1)
    wrong = CreateTopicsRequest.Topic(name="n", num_partitions=11, replication_factor=9)
    for _ in range(3):
        response = harness.ask(CreateTopicsRequest(topics=[wrong]), 7)
        assert response.topics[0].error_code == E.INVALID_REPLICATION_FACTOR
        assert response.throttle_time_ms == 0


def test_topic_with_an_error_gets_it_beside_a_refused_topic() -> None:
    harness = limited(controller_mutation_rate=1)
    kind = CreateTopicsRequest.Topic
    topics = [
        kind(name="a b", num_partitions=12, replication_factor=1),
        kind(name="new", num_partitions=12, replication_factor=1),
        kind(name="copies", num_partitions=1, replication_factor=9),
        kind(name="refused", num_partitions=1, replication_factor=1),
    ]
    response = harness.ask(CreateTopicsRequest(topics=topics), 7)
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "a b": E.INVALID_TOPIC_EXCEPTION,
        "new": E.NONE,
        "copies": E.INVALID_REPLICATION_FACTOR,
        "refused": E.THROTTLING_QUOTA_EXCEEDED,
    }


def test_removed_quota_ends_the_stage() -> None:
    harness = limited(producer_byte_rate=1_000)
    assert len(harness.router.stages) == 1
    harness.broker.quotas.alter(ALL_CLIENTS, {"producer_byte_rate": None}, validate_only=False)
    assert harness.router.stages == ()
    assert produce(harness).answer.throttle_time_ms == 0


def test_closed_connection_is_forgotten() -> None:
    harness = limited(producer_byte_rate=1_000)
    sent = produce(harness)
    harness.router.forget_connection(sent.ticket.connection)
    harness.wait(60)
    assert sent.unmuted_at is None


async def test_server_applies_quotas_while_there_are_any() -> None:
    async with serving() as place:
        router, quotas = place.server.router, place.server.router.broker.quotas
        assert router.stages == ()
        quotas.alter(ALL_CLIENTS, {"producer_byte_rate": 1_000}, validate_only=False)
        (stage,) = router.stages
        assert isinstance(stage, QuotaStage)
        place.server.restart(Broker(list(router.broker.cluster.nodes.values()), router.broker.settings, uuid4))
        assert router.stages == ()
        router.broker.quotas.alter(ALL_CLIENTS, {"producer_byte_rate": 1_000}, validate_only=False)
        assert router.stages == (stage,)
