"""One proxied connection: responses are matched with requests, and only responses that may contain addresses are
decoded."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from tools.counting import in_slices

from kwire import encode_request, encode_response
from kwire.engines.native import package
from kwire.errors import RemoteProtocolError, WireError
from kwire.frames import pack
from kwire.headers import RequestHeader
from kwire.limits import MAX_FRAME
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from mockbroker.proxy import link as link_module
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.changeable import Changeable
from mockbroker.proxy.link import INSPECTED, Link
from mockbroker.proxy.observer import REQUEST_HEAD, Connection

BROKER = MetadataResponse.Broker(node_id=3, host="real", port=9)

CONNECTION = Connection(1, Address("client", 1), 0, Address("real", 9), Address("proxy", 7))


def request(message: Any, version: int, number: int) -> bytes:
    return pack(encode_request(message, version, correlation_id=number, client_id="c" * 300))


def response(message: Any, version: int, number: int) -> bytes:
    return pack(encode_response(message, version, correlation_id=number))


def sent(link: Link, *frames: bytes, piece: int = 10_000) -> None:
    stream = b"".join(frames)
    parts = [part for at in range(0, len(stream), piece) for part in link.requests(stream[at : at + piece])]
    assert b"".join(part for part in parts if isinstance(part, bytes)) == stream


def changed(response: Changeable, own: Mapping[int, Address]) -> bytes:
    """Return the frame that the client gets."""
    in_slices(response.decode())
    in_slices(response.replace_addresses(own))
    return response.changed


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_only_responses_with_addresses_are_decoded(piece: int) -> None:
    link = Link(CONNECTION)
    sent(link, request(HeartbeatRequest(), 4, 1), request(MetadataRequest(), 12, 2), piece=piece)
    assert link.pending == 2
    heartbeat, metadata = response(HeartbeatResponse(), 4, 1), response(MetadataResponse(brokers=[BROKER]), 12, 2)
    stream = heartbeat + metadata
    parts = [part for at in range(0, len(stream), piece) for part in link.responses(stream[at : at + piece])]
    *before, last = parts
    assert b"".join(before) == heartbeat  # type: ignore[arg-type]
    assert isinstance(last, Changeable)
    expected = MetadataResponse(brokers=[MetadataResponse.Broker(node_id=3, host="proxy", port=7)])
    assert changed(last, {3: Address("proxy", 7)}) == response(expected, 12, 2)
    assert last.addresses == {3: Address("real", 9)}
    assert link.pending == 0


def test_a_response_without_addresses_is_unchanged() -> None:
    link = Link(CONNECTION)
    sent(link, request(MetadataRequest(), 12, 1))
    frame = response(MetadataResponse(), 12, 1)
    (part,) = link.responses(frame)
    assert isinstance(part, Changeable)
    assert changed(part, {}) is part.frame
    assert part.frame == frame


@pytest.mark.parametrize("piece", [1, 100, 10_000])
@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_a_produce_without_acks_has_no_response(version: int, piece: int) -> None:
    link = Link(CONNECTION)
    quiet = ProduceRequest(acks=0, transactional_id="t" * 400)
    sent(link, request(quiet, version, 1), request(ProduceRequest(acks=1), version, 2), piece=piece)
    assert link.pending == 1
    list(link.responses(response(ProduceResponse(), version, 2)))
    assert link.pending == 0


def test_the_acks_after_a_long_header_are_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step reads the header from its beginning, so there must be few steps."""
    acks, steps = link_module._acks, Counter[str]()

    def counted(head: bytes, version: int) -> int | None:
        steps["acks"] += 1
        return acks(head, version)

    monkeypatch.setattr(link_module, "_acks", counted)
    link = Link(CONNECTION)
    header = RequestHeader(request_api_key=0, request_api_version=9, unknown_tags={7: bytes(1_000_000)})
    quiet = pack(encode_request(ProduceRequest(acks=0), 9, correlation_id=1, header=header))
    sent(link, quiet, piece=65_536)
    assert link.pending == 0
    assert steps["acks"] < 100


def test_unknown_apis_and_versions_pass_unchanged() -> None:
    link = Link(CONNECTION)
    sent(link, *(pack(struct.pack(">hhih", key, 99, number, -1)) for number, key in enumerate((3, 0, 12_345))))
    answers = b"".join(pack(struct.pack(">i", number) + b"new") for number in range(3))
    assert list(link.responses(answers)) == [answers]


def test_a_response_that_cannot_be_decoded_passes_unchanged() -> None:
    link = Link(CONNECTION)
    sent(link, request(MetadataRequest(), 12, 1))
    frame = pack(struct.pack(">i", 1) + b"\xff" * 20)
    (part,) = link.responses(frame)
    assert isinstance(part, Changeable)
    assert changed(part, {3: Address("proxy", 7)}) is part.frame
    assert part.addresses == {}
    assert part.frame == frame


@pytest.mark.parametrize("piece", [1, 13, 100, 1_000, 65_536])
def test_of_many_requests_in_flight_each_gets_its_response(piece: int) -> None:
    random, link, requests, responses, decoded = Random(piece), Link(CONNECTION), b"", b"", 0
    for number in range(500):
        match random.randrange(4):
            case 0:
                requests += request(MetadataRequest(), 12, number)
                responses += response(MetadataResponse(brokers=[BROKER]), 12, number)
                decoded += 1
            case 1:
                requests += request(ProduceRequest(acks=0), 9, number)
            case 2:
                requests += request(ProduceRequest(acks=1), 9, number)
                responses += response(ProduceResponse(), 9, number)
            case _:
                requests += request(HeartbeatRequest(), 4, number)
                responses += response(HeartbeatResponse(), 4, number)
    sent(link, requests, piece=piece)
    passed, changeable = b"", 0
    for at in range(0, len(responses), piece):
        for part in link.responses(responses[at : at + piece]):
            assert isinstance(part, bytes | Changeable)
            passed += part.frame if isinstance(part, Changeable) else part
            if isinstance(part, Changeable):
                in_slices(part.decode())
                changeable += part.addresses == {3: Address("real", 9)}
    assert passed == responses
    assert changeable == decoded
    assert link.pending == 0


def test_a_response_without_a_request_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="a response without a request"):
        list(Link(CONNECTION).responses(response(HeartbeatResponse(), 4, 1)))


def test_a_request_without_a_header_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="a request of 3 bytes is too short for a header"):
        list(Link(CONNECTION).requests(pack(b"abc")))


def test_requests_before_a_request_of_invalid_size_pass() -> None:
    heartbeat = request(HeartbeatRequest(), 4, 1)
    parts = Link(CONNECTION).requests(heartbeat + struct.pack(">i", -1))
    assert next(parts) == heartbeat
    with pytest.raises(RemoteProtocolError, match="frame size -1 is out of range"):
        next(parts)


def outcome(random: Random, native: Any) -> list[Any]:
    """Return the output of a link for random requests and responses, its pending responses, and the error.

    Args:
        random: generator of the bytes. Some frames are corrupted.
        native: the native search for frames; None for the search in Python.
    """
    link, yielded = Link(CONNECTION), list[Any]()
    link._frames = native
    kinds = [(HeartbeatRequest, HeartbeatResponse, 4), (MetadataRequest, MetadataResponse, 12)]
    kinds.append((ProduceRequest, ProduceResponse, 9))
    try:
        for _ in range(random.randint(1, 4)):
            some = random.choices(kinds, weights=[8, 1, 1], k=random.randint(1, 12))
            requests = b"".join(request(each(), version, number) for number, (each, _, version) in enumerate(some))
            responses = b"".join(response(each(), version, number) for number, (_, each, version) in enumerate(some))
            for data, receive in ((requests, link.requests), (responses, link.responses)):
                damaged = bytearray(data)
                if random.random() < 0.1:
                    damaged[random.randrange(len(data))] ^= 1 << random.randrange(8)
                piece = random.choice([5, 300, 1_000, 100_000])
                for at in range(0, len(data), piece):
                    parts = receive(bytes(damaged[at : at + piece]))
                    yielded += [part if isinstance(part, bytes) else type(part) for part in parts]
                    yielded.append(link.pending)
    except (WireError, AssertionError) as error:
        yielded.append(repr(error))
    return yielded


@pytest.mark.skipif(package() is None, reason="kwire-native is not installed")
def test_the_native_search_finds_the_frames_of_python() -> None:
    native = package().Frames(INSPECTED, REQUEST_HEAD.size, MAX_FRAME)
    results = [[outcome(Random(seed), each) for seed in range(300)] for each in (native, None)]
    assert results[0] == results[1]
    assert sum("Error" in str(yielded[-1]) for yielded in results[0]) > 10
