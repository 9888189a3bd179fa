"""The native reader of requests finds the requests that Python finds, and leaves all errors to Python."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import native_requests
import pytest
from effort import amount
from native_requests import ROUTERS
from tools.broker_harness import BrokerHarness

from kwire import encode_request
from kwire.engines.chosen import DEFAULT
from kwire.envelope import pack_response
from kwire.frames import FrameBuffer, pack
from kwire.fuzz.mutate import mutate
from kwire.fuzz.values import full
from kwire.messages import APIS
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from mockbroker.base.effects import Reply, Ticket
from mockbroker.broker.request_reader import LARGEST, REPEATED
from mockbroker.net.connection import ClientRequests

pytestmark = pytest.mark.skipif(DEFAULT != "native", reason="the native engine is not the default: make native")

LIMIT = 1 << 20
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
PRODUCE = ProduceRequest(
    topic_data=[
        ProduceRequest.Topic(
            name="t", partition_data=[ProduceRequest.Topic.Partition(index=0, records=bytes(REPEATED))]
        )
    ]
)


def frame(request: Any, version: int, number: int = 1, client: str | None = "me") -> bytes:
    return encode_request(request, version, correlation_id=number, client_id=client)


FRAMES = [
    frame(BEAT, 4),
    frame(BEAT, 4, 2),
    frame(BEAT, 3, 3),
    frame(PRODUCE, 9, -1),
    frame(BEAT, 4, 4, "another"),
    frame(BEAT, 4, 5, None),
    frame(MetadataRequest(topics=None), 12, 6, None),
    frame(BEAT, 4, 7) + b"trailing",
    frame(PRODUCE, 3, 2**31 - 1),
]


def check(received: list[bytes], limit: int = LIMIT) -> list[Any]:
    native, python = ([*native_requests.read(received, each, limit)] for each in ROUTERS)
    assert native == python
    return python


def test_every_cut_of_the_bytes_gives_the_same_requests() -> None:
    stream = b"".join(map(pack, FRAMES))
    assert len(check([stream])) == 3 * len(FRAMES) + 1
    for at in range(len(stream)):
        check([stream[:at], stream[at:]])
    check([stream[at : at + 1] for at in range(len(stream))])


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 1, 3, 4, 7, 8, 9, 10, 99, 100, 101, 2**24, 2**31 - 1])
@pytest.mark.parametrize("before", [0, 2], ids=["first", "third"])
def test_hostile_lengths_have_the_same_errors(size: int, before: int) -> None:
    bytes_ = b"".join(map(pack, FRAMES[:before])) + struct.pack(">i", size) + FRAMES[0] + pack(FRAMES[1])
    for limit in (100, LIMIT):
        check([bytes_], limit)


@pytest.mark.parametrize(
    "head",
    ["000c0005", "000c8000", "7fff0004", "00120063", "fffffffe"],
    ids=["version", "negative version", "key", "ApiVersions", "negative key"],
)
def test_versions_that_are_not_served_are_left_to_python(head: str) -> None:
    check([pack(FRAMES[0]) + pack(bytes.fromhex(head) + FRAMES[0][4:]) + pack(FRAMES[0])])


@pytest.mark.parametrize("tags", ["01", "010001aa", "02000000", "ffffffffff"])
def test_tagged_fields_of_a_header_are_left_to_python(tags: str) -> None:
    at = FRAMES[0].index(b"\0\2g")
    check([pack(FRAMES[0]) + pack(FRAMES[0][:at] + bytes.fromhex(tags) + FRAMES[0][at + 1 :]) + pack(FRAMES[0])])


def test_large_frames_are_left_to_python() -> None:
    for size in (LARGEST - 200, LARGEST + 200, 70_000):
        PRODUCE.topic_data[0].partition_data[0].records = bytes(size)
        check([pack(FRAMES[0]) + pack(frame(PRODUCE, 9)) + pack(FRAMES[0])])


@pytest.mark.parametrize("seed", range(amount(20, 200)))
def test_damaged_requests_have_the_same_errors(seed: int) -> None:
    random = Random(seed)
    keys = [key for key in ROUTERS[0].handlers if key in APIS]
    received = [pack(FRAMES[0])]
    for number in range(12):
        api = APIS[random.choice(keys)]
        version = random.choice([*range(api.versions.first, (api.versions.last or 0) + 1)])
        one = frame(full(api.request, version), version, number)
        received += [pack(one), pack(mutate(one, random).data if random.random() < 0.3 else one)]
    for first in range(0, len(received), 4):
        check([received[0], *received[first : first + 4]])
        check([received[0] + b"".join(received[first : first + 4])])


def connection() -> ClientRequests:
    return ClientRequests(7, 0, "/127.0.0.1", ROUTERS[0])


def call_after(incoming: ClientRequests, data: bytes) -> Any:
    incoming.receive(pack(data))
    call = incoming.next_call()
    incoming.skip_answer()
    return call


def test_a_repeated_request_is_not_decoded_again() -> None:
    incoming = connection()
    call_after(incoming, frame(BEAT, 4, 1))
    first, second = (call_after(incoming, frame(BEAT, 4, number)) for number in (2, 3))
    assert second.request is first.request
    assert second.ticket.correlation_id == 3
    other = call_after(incoming, frame(HeartbeatRequest(group_id="h"), 4, 4))
    assert other.request.group_id == "h"
    assert call_after(incoming, frame(BEAT, 4, 5)).request is not first.request


def test_large_requests_and_produces_are_not_kept() -> None:
    incoming = connection()
    for request in (PRODUCE, JoinGroupRequest(group_id="g" * REPEATED)):
        version = 9
        results = [call_after(incoming, frame(request, version, number)).request for number in range(4)]
        assert len({id(each) for each in results}) == len(results)


def test_the_native_reader_reads_usual_requests() -> None:
    incoming, reader = connection(), ROUTERS[0].request_reader
    assert reader is not None
    call_after(incoming, FRAMES[0])
    incoming.receive(b"".join(map(pack, FRAMES[:4])))
    for data in FRAMES[:4]:
        call = reader.next(incoming.frames, b"\0\2me", incoming.client, 7, {})
        assert call is not None
        assert (call.frame, call.client, call.ticket.connection) == (data, incoming.client, 7)
    assert incoming.frames.held == 0


def test_bytes_that_are_left_to_python_stay_in_the_buffer() -> None:
    reader, client = ROUTERS[0].request_reader, connection().client
    assert reader is not None
    for data in (pack(FRAMES[0])[:-1], b"\0\0", struct.pack(">i", -1), pack(FRAMES[4]), pack(b"")):
        frames = FrameBuffer()
        frames.feed(data)
        assert reader.next(frames, b"\0\2me", client, 7, {}) is None
        assert (frames.held, frames._data, frames._at) == (len(data), data, 0)


@pytest.mark.parametrize("key", sorted(map(int, ROUTERS[0].handlers)))
def test_frames_of_responses_are_those_of_python(key: int) -> None:
    reader = ROUTERS[0].request_reader
    assert reader is not None
    for version in range((APIS[key].versions.last or 0) + 1):
        for number in (0, -1, 2**31 - 1):
            found = reader.response(Ticket(1, number, key, version), b"body")
            if ROUTERS[0].serves(key, version):
                assert found == pack_response(b"body", key, version, number)
            else:
                assert found is None


def test_a_ticket_beyond_the_ranges_is_left_to_python() -> None:
    reader = ROUTERS[0].request_reader
    assert reader is not None
    for ticket in (Ticket(1, 2**31, 12, 4), Ticket(1, 0, 2**15, 4), Ticket(1, 0, 12, -(2**15) - 1)):
        assert reader.response(ticket, b"") is None


def test_a_served_response_is_the_same() -> None:
    harness = BrokerHarness()
    results = []
    for reader in (harness.router.request_reader, None):
        harness.router.request_reader = reader
        incoming = ClientRequests(7, 0, "/127.0.0.1", harness.router)
        incoming.receive(pack(FRAMES[0]))
        call: Any = incoming.next_call()
        results.append(incoming.answer(Reply(call.ticket, HeartbeatResponse(error_code=25))))
    assert results[0] == results[1]
