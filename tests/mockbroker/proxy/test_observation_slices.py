"""Observers of large messages work in slices, without a change of the order of frames and events."""

from __future__ import annotations

from collections.abc import Generator
from math import inf
from typing import Any
from uuid import UUID

import pytest
from tools.counting import in_slices, most_calls

from kwire import encode_request, encode_response
from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.frames import pack
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.metadata import MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kwire.schema import schema_of
from mockbroker.base.settings import Settings
from mockbroker.net.clock import BrokerTime
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.group_observer import GroupObserver
from mockbroker.proxy.interception import Interception
from mockbroker.proxy.link import Intercepted, Link
from mockbroker.proxy.observed_broker import ObservedBroker
from mockbroker.proxy.observed_groups import ObservedGroup
from mockbroker.proxy.observer import NEVER, Connection, Exchange, Observer, Steps, decoded_request, decoded_response
from mockbroker.proxy.orders import Send
from mockbroker.proxy.request_observer import RequestObserver

CONNECTION = Connection(1, Address("10.0.0.1", 1), 2, Address("real", 9), Address("proxy", 7))
ELEMENTS = 5_000
CALLS = 4_000  # at most, in one slice of 1,000 elements


class Observed:
    """The observers of `mockbroker proxy --http`, and the broker state and journal that they fill."""

    def __init__(self) -> None:
        self.interception = Interception(ObservedBroker(Settings.parse({}), lambda: UUID(int=1)), BrokerTime())
        self.broker = self.interception.broker
        self.journal = self.interception.router.journal
        self.groups = GroupObserver(self.broker, self.journal, lambda: 0.0, lambda: None)
        self.requests = RequestObserver(self.interception, lambda: 0.0)

    def passes(self, observer: Observer, request: Any, response: Any, version: int) -> tuple[int, int]:
        """Let a request and its response pass. Return the number of slices, and the largest number of calls in a
        slice."""
        api = schema_of(type(request)).api
        assert api is not None
        exchange = Exchange(CONNECTION, api.key, version, 1)
        exchange.request = exchange.forwarded = encode_request(request, version, correlation_id=1, client_id="app")
        exchange.answer = exchange.response = encode_response(response, version, correlation_id=1)
        in_slices(decoded_request(exchange.request))  # generates the readers, which happens with the first use
        in_slices(decoded_response(exchange.answer, api.key, version))
        parts = [most_calls(steps) for steps in (observer.requested(exchange),) if steps is not None]
        answered = observer.answered(exchange)
        assert answered is not None
        parts.append(most_calls(answered))
        return sum(number for number, _ in parts), max(calls for _, calls in parts)

    @property
    def committed(self) -> dict[tuple[str, int], int]:
        group = self.broker.groups["g"]
        assert isinstance(group, ObservedGroup)
        return {partition: each.offset for partition, each in group.offsets.committed.items()}


EXPECTED = {("t", index): index for index in range(ELEMENTS)}


def offset_fetch() -> tuple[Any, Any, int]:
    kind = OffsetFetchResponse.Group.Topic
    partitions = [kind.Partition(partition_index=index, committed_offset=index) for index in range(ELEMENTS)]
    found = OffsetFetchResponse.Group(group_id="g", topics=[kind(name="t", partitions=partitions)])
    return OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="g")]), OffsetFetchResponse(groups=[found]), 8


def offset_commit() -> tuple[Any, Any, int]:
    asked, given = OffsetCommitRequest.Topic, OffsetCommitResponse.Topic
    partitions = [asked.Partition(partition_index=index, committed_offset=index) for index in range(ELEMENTS)]
    stored = [given.Partition(partition_index=index) for index in range(ELEMENTS)]
    request = OffsetCommitRequest(group_id="g", topics=[asked(name="t", partitions=partitions)])
    return request, OffsetCommitResponse(topics=[given(name="t", partitions=stored)]), 8


def txn_offset_commit() -> tuple[Any, Any, int]:
    asked, given = TxnOffsetCommitRequest.Topic, TxnOffsetCommitResponse.Topic
    partitions = [asked.Partition(partition_index=index, committed_offset=index) for index in range(ELEMENTS)]
    stored = [given.Partition(partition_index=index) for index in range(ELEMENTS)]
    request = TxnOffsetCommitRequest(group_id="g", producer_id=3, topics=[asked(name="t", partitions=partitions)])
    return request, TxnOffsetCommitResponse(topics=[given(name="t", partitions=stored)]), 3


LARGE = [pytest.param(case, id=case.__name__) for case in (offset_fetch, offset_commit, txn_offset_commit)]


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("name", ["groups", "requests"])
async def test_large_messages_are_observed_in_slices(name: str, case: Any) -> None:
    observed = Observed()
    slices, calls = observed.passes(getattr(observed, name), *case())
    assert slices >= ELEMENTS / 1_000
    assert calls < CALLS


@pytest.mark.parametrize("case", [*LARGE[:2]])
async def test_all_offsets_of_a_large_message_are_stored(case: Any) -> None:
    observed = Observed()
    observed.passes(observed.groups, *case())
    assert observed.committed == EXPECTED


async def test_a_large_transaction_is_stored_in_slices_at_its_end() -> None:
    observed = Observed()
    observed.passes(observed.groups, *txn_offset_commit())
    end = EndTxnRequest(transactional_id="x", producer_id=3, committed=True)
    slices, calls = observed.passes(observed.groups, end, EndTxnResponse(), 3)
    assert slices >= ELEMENTS / 1_000
    assert calls < CALLS
    assert observed.committed == EXPECTED
    (event,) = observed.journal.events
    assert event.offsets == {"t": {index: index for index in range(ELEMENTS)}}


async def test_a_group_deleted_while_offsets_are_stored_stays_deleted() -> None:
    observed = Observed()
    request, response, version = offset_commit()
    exchange = Exchange(CONNECTION, 8, version, 1)
    exchange.request = exchange.forwarded = encode_request(request, version, correlation_id=1)
    exchange.answer = exchange.response = encode_response(response, version, correlation_id=1)
    steps = observed.groups.answered(exchange)
    while observed.broker.groups.get("g") is None:
        next(steps)
    observed.broker.groups.unload("g")
    in_slices(steps)
    assert observed.broker.groups.get("g") is None


async def test_the_subscription_of_a_member_is_decoded_in_slices() -> None:
    topics = [f"t{index}" for index in range(ELEMENTS)]
    metadata = encode_stored(ConsumerProtocolSubscription(topics=topics), 3)
    protocol = JoinGroupRequest.Protocol(name="range", metadata=metadata)
    request = JoinGroupRequest(group_id="g", member_id="m", protocol_type="consumer", protocols=[protocol])
    response = JoinGroupResponse(generation_id=1, protocol_name="range", leader="n", member_id="m")
    observed = Observed()
    slices, calls = observed.passes(observed.groups, request, response, 9)
    assert slices >= ELEMENTS / 1_000
    assert calls < CALLS
    group = observed.broker.groups["g"]
    assert isinstance(group, ObservedGroup)
    assert group.members["m"].subscription == topics


@pytest.mark.parametrize("is_decoded", [False, True])
async def test_the_offsets_of_a_large_fetch_are_learned_in_slices(is_decoded: bool) -> None:
    observed = Observed()
    described = [MetadataResponse.Topic.Partition(partition_index=index) for index in range(ELEMENTS)]
    in_slices(observed.broker.learn(MetadataResponse(topics=[MetadataResponse.Topic(name="t", partitions=described)])))
    partitions = [FetchResponse.Topic.Partition(partition_index=each, high_watermark=5) for each in range(ELEMENTS)]
    response = FetchResponse(responses=[FetchResponse.Topic(topic="t", partitions=partitions)])
    exchange = Exchange(CONNECTION, 1, 11, 1)
    exchange.request = exchange.forwarded = encode_request(FetchRequest(), 11, correlation_id=1)
    in_slices(observed.requests.requested(exchange))
    exchange.answer = exchange.response = encode_response(response, 11, correlation_id=1)
    exchange.decoded = response if is_decoded else None
    in_slices(decoded_response(exchange.answer, 1, 11))  # generates the reader, which happens with the first use
    slices, calls = most_calls(observed.requests.answered(exchange))
    assert slices >= ELEMENTS / 1_000
    assert calls < CALLS
    assert {each.log.end for each in observed.broker.cluster.topics["t"].partitions} == {5}


class Slow(Observer):
    """An observer that needs three slices for a frame of a group ``large``, and records its work."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def requested(self, exchange: Exchange) -> Steps:
        yield from self._work("request", exchange)

    def answered(self, exchange: Exchange) -> Steps:
        yield from self._work("response", exchange)

    def _work(self, side: str, exchange: Exchange) -> Steps:
        if exchange.correlation_id % 2:
            yield
            yield
        self.done.append(f"{side} {exchange.correlation_id}")


def heartbeats(numbers: range) -> tuple[bytes, bytes]:
    requests = [pack(encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=each)) for each in numbers]
    responses = [pack(encode_response(HeartbeatResponse(), 4, correlation_id=each)) for each in numbers]
    return b"".join(requests), b"".join(responses)


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_frames_are_observed_in_order_before_they_are_forwarded(piece: int) -> None:
    slow, numbers = Slow(), range(1, 7)
    link = Link(CONNECTION, [slow])
    for side, stream in zip(("request", "response"), heartbeats(numbers), strict=True):
        size, forwarded = len(stream) // len(numbers), b""
        for at in range(0, len(stream), piece):
            feed = link.requests if side == "request" else link.responses
            for part in feed(stream[at : at + piece]):
                if isinstance(part, Generator):
                    in_slices(part)
                    continue
                assert isinstance(part, bytes)
                forwarded += part
                complete = [f"{side} {number}" for number in numbers[: len(forwarded) // size]]
                assert [each for each in slow.done if each.startswith(side)][: len(complete)] == complete
        assert forwarded == stream
    assert slow.done == [f"{side} {number}" for side in ("request", "response") for number in numbers]


def exchanged(interception: Interception, slow: Slow) -> tuple[Any, Link]:
    """Let a heartbeat that fault rules intercept pass to the broker. Return the channel and the link."""
    channel = interception.open(CONNECTION, lambda: None, lambda _reset: None, lambda: NEVER)
    link = Link(CONNECTION, [slow], lambda _key, _version: True)
    (part,) = link.requests(heartbeats(range(1, 2))[0])
    assert isinstance(part, Intercepted)
    in_slices(interception.request(channel, part.exchange, part.frame))
    link.expect(part.exchange, is_intercepted=True)
    channel.orders.clear()
    return channel, link


async def test_a_response_of_a_rule_is_observed_before_it_is_sent() -> None:
    intercepting, slow = Observed().interception, Slow()
    channel, link = exchanged(intercepting, slow)
    (response,) = link.responses(heartbeats(range(1, 2))[1])
    assert not isinstance(response, bytes | Generator)
    in_slices(response.decode())
    intercepting.answer(channel, response)
    (order,) = channel.orders
    assert isinstance(order, Send)
    assert order.before is not None
    assert slow.done == ["request 1"]
    in_slices(order.before)
    assert slow.done == ["request 1", "response 1"]


async def test_a_dropped_response_is_observed_in_slices() -> None:
    intercepting, slow = Observed().interception, Slow()
    channel, link = exchanged(intercepting, slow)
    (response,) = link.responses(heartbeats(range(1, 2))[1])
    assert not isinstance(response, bytes | Generator)
    channel.exchange.answer = response.frame[4:]
    intercepting.close(channel)
    assert (intercepting.unfinished, slow.done) == (1, ["request 1"])
    while intercepting.unfinished:
        assert intercepting.deadline() == -inf
        intercepting.tick()
    assert slow.done == ["request 1", "response 1"]
