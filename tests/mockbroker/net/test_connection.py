"""A connection without its socket: bytes in, calls out, answers in their order."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.broker_harness import BrokerHarness
from tools.counting import in_slices

from kwire import ClientSide, LocalProtocolError, WireError, encode_request
from kwire.frames import pack
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.produce import ProduceRequest
from mockbroker.base.effects import Call, Reply
from mockbroker.net.connection import EXPLAINED, LARGE_PRODUCE, LARGE_REQUEST, REPEATED, ClientRequests, Undecoded

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"m")],
)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


@pytest.fixture
def incoming(harness: BrokerHarness) -> ClientRequests:
    return ClientRequests(7, 0, "/127.0.0.1", harness.router)


def answer_all(incoming: ClientRequests, router: Any) -> bytes:
    """Handle all pending requests, as the server does. Return the bytes of the responses."""
    out = b""
    while call := incoming.next_call():
        for outcome in router.step(call, 0.0):
            assert isinstance(outcome, Reply)
            out += incoming.answer(outcome)
    return out


def test_call_names_the_client(incoming):
    incoming.receive(pack(encode_request(BEAT, 3, correlation_id=9, client_id="me")))
    call = incoming.next_call()
    assert (call.ticket.connection, call.ticket.correlation_id, call.ticket.api_key, call.version) == (7, 9, 12, 3)
    assert (call.client.node, call.client.client_id, call.client.host) == (0, "me", "/127.0.0.1")
    assert call.request == BEAT


REPEATS = [  # request, version and client id of the first request, then of the second
    pytest.param(BEAT, 3, "me", BEAT, 3, "me", id="the same again"),
    pytest.param(BEAT, 4, "me", BEAT, 4, "me", id="the same again, flexible"),
    pytest.param(BEAT, 3, "me", BEAT, 4, "me", id="another version"),
    pytest.param(BEAT, 4, "me", BEAT, 3, "me", id="another version, back"),
    pytest.param(BEAT, 3, "me", BEAT, 3, "you", id="another client"),
    pytest.param(BEAT, 3, "me", BEAT, 3, "mean", id="a longer name"),
    pytest.param(BEAT, 3, "mean", BEAT, 3, "me", id="a shorter name"),
    pytest.param(BEAT, 3, "me", BEAT, 3, None, id="no name any more"),
    pytest.param(BEAT, 4, None, BEAT, 4, "", id="an empty name"),
    pytest.param(BEAT, 3, "me", HeartbeatRequest(group_id="g", generation_id=2, member_id="m"), 3, "me", id="other"),
    pytest.param(BEAT, 3, "me", JOIN, 3, "me", id="another API"),
]


@pytest.mark.parametrize(("first", "version", "name", "then", "then_version", "then_name"), REPEATS)
def test_reused_parsed_request_is_equal(incoming, harness, first, version, name, then, then_version, then_name):
    requested = [(first, version, name), (then, then_version, then_name)] * 3
    for number, (message, message_version, client) in enumerate(requested):
        frame = encode_request(message, message_version, correlation_id=number, client_id=client)
        incoming.receive(pack(frame))
        call = incoming.next_call()
        assert call.request == message
        assert (call.ticket.correlation_id, call.version) == (number, message_version)
        assert (call.client.client_id, call.frame) == (client or "", frame)
        incoming.skip_answer()


def test_tagged_fields_in_the_header_are_skipped(incoming):
    plain = encode_request(BEAT, 4, correlation_id=1, client_id="me")
    tagged = plain[:12] + b"\1\7\2xy" + plain[13:]
    for frame in (plain, tagged, plain, tagged):
        incoming.receive(pack(frame))
        call = incoming.next_call()
        assert (call.request, call.client.client_id) == (BEAT, "me")
        incoming.skip_answer()


def test_a_large_request_is_not_remembered(incoming):
    large = HeartbeatRequest(group_id="g" * REPEATED, generation_id=1, member_id="m")
    requests = []
    for number in range(2):
        incoming.receive(pack(encode_request(large, 3, correlation_id=number)))
        requests.append(incoming.next_call().request)
        incoming.skip_answer()
    assert requests[0] == requests[1]
    assert requests[0] is not requests[1]


def test_an_answer_that_is_given_again_is_encoded_once(incoming):
    client, encoded = ClientSide("me"), {}
    response = HeartbeatResponse(error_code=25)
    for version in (3, 4, 3, 4):
        incoming.receive(client.send(BEAT, version))
        client.receive(incoming.answer(Reply(incoming.next_call().ticket, response, encoded)))
        assert client.next_response().body == response
    assert set(encoded) == {3, 4}


def test_client_id_may_be_null(incoming):
    incoming.receive(pack(encode_request(BEAT, 3, correlation_id=9, client_id=None)))
    assert incoming.next_call().client.client_id == ""


def test_the_next_request_waits_for_the_answer(incoming, harness):
    client = ClientSide("me")
    incoming.receive(client.send(BEAT, 3) + client.send(BEAT, 3))
    first = incoming.next_call()
    assert incoming.next_call() is None
    assert incoming.buffered > 0
    (reply,) = harness.router.step(first, 0.0)
    client.receive(incoming.answer(reply))
    assert client.next_response() is not None
    assert incoming.next_call().ticket.correlation_id == 1
    assert incoming.buffered == 0


def test_a_request_without_an_answer_lets_the_next_one_in(incoming):
    client = ClientSide("me")
    incoming.receive(client.send(BEAT, 3) + client.send(BEAT, 3))
    incoming.next_call()
    incoming.skip_answer()
    assert incoming.ticket is None
    assert incoming.next_call().ticket.correlation_id == 1


def test_response_without_request_is_a_local_error(incoming):
    with pytest.raises(LocalProtocolError):
        incoming.skip_answer()


SCRIPT = [
    (ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4),
    (BEAT, 0),
    (BEAT, 4),
    (JOIN, 9),
]


@given(st.lists(st.integers(1, 400), max_size=12))
def test_answers_do_not_depend_on_segment_boundaries(cuts):
    outs = []
    for places in ([], sorted(set(cuts))):
        harness = BrokerHarness()
        incoming, client = ClientRequests(1, 0, "/", harness.router), ClientSide("me")
        data = b"".join(client.send(message, version) for message, version in SCRIPT)
        out, begin = b"", 0
        for end in [*(place for place in places if place < len(data)), len(data)]:
            incoming.receive(data[begin:end])
            out += answer_all(incoming, harness.router)
            begin = end
        outs.append(out)
    assert outs[0] == outs[1]


def test_requests_that_arrive_byte_by_byte(incoming, harness):
    client = ClientSide("me")
    out = b""
    for byte in b"".join(client.send(message, version) for message, version in SCRIPT):
        incoming.receive(bytes([byte]))
        out += answer_all(incoming, harness.router)
    client.receive(out)
    for _ in SCRIPT:
        assert client.next_response() is not None


def header(key: int, version: int, correlation_id: int = 1, client: bytes = b"\0\2me") -> bytes:
    return struct.pack(">hhi", key, version, correlation_id) + client


REFUSED = [  # frame, expected text of the error
    pytest.param(b"", "expected 4 bytes", id="empty frame"),
    pytest.param(b"\0\x12\0", "expected 4 bytes", id="frame of 3 bytes"),
    pytest.param(header(18, 0)[:7], "correlation_id", id="truncated header"),
    pytest.param(header(999, 0), "unknown API key 999", id="unknown API key"),
    pytest.param(header(-5, 0), "unknown API key -5", id="negative API key"),
    pytest.param(
        header(0, 0),
        "Produce v0 is not in the ApiVersions response of this broker: use a supported version",
        id="removed version of Produce",
    ),
    pytest.param(
        header(1, 3),
        "Fetch v3 is not in the ApiVersions response of this broker: use a supported version",
        id="removed version of Fetch",
    ),
    pytest.param(header(3, 99), "Metadata has no version 99: its versions are 0-13", id="version too new"),
    pytest.param(header(3, -1), "Metadata has no version -1: its versions are 0-13", id="negative version"),
    pytest.param(header(18, 3)[:-1], "client_id", id="truncated client id"),
    pytest.param(header(18, 127)[:10], "client_id", id="header of another form"),
    pytest.param(header(12, 0, client=b"\x75\x30m"), "client_id: expected 30000 bytes, found 1", id="37"),
    pytest.param(header(12, 0) + b"\0\1g\0\0", "at byte 15, generation_id", id="truncated body"),
    pytest.param(header(12, 0) + b"\xff\xff\0\0\0\1\0\1m", "group_id", id="null in a non-nullable field"),
    pytest.param(header(3, 0) + struct.pack(">i", 2**31 - 1), "topics", id="array of 2^31-1 elements without bytes"),
]


@pytest.mark.parametrize(("frame", "text"), REFUSED)
def test_refused(incoming, frame, text):
    incoming.receive(pack(frame))
    with pytest.raises(WireError) as caught:
        incoming.next_call()
    assert text in str(caught.value)


@pytest.mark.parametrize("version", [5, 127, -1, 32_767])
def test_unserved_api_versions_version_is_answered_in_v0(incoming, harness, version):
    incoming.receive(pack(header(18, version) + b"\0"))
    call = incoming.next_call()
    assert call.version == 0
    (reply,) = harness.router.step(call, 0.0)
    assert incoming.answer(reply) == bytes.fromhex("00000010 00000001 0023 00000001 0012 0000 0004")


def test_bytes_after_the_body_are_ignored(incoming):
    incoming.receive(pack(encode_request(BEAT, 3, correlation_id=1) + b"more"))
    assert incoming.next_call().request == BEAT


def test_duplicate_correlation_id_gets_two_answers(incoming, harness):
    incoming.receive(pack(encode_request(BEAT, 3, correlation_id=5)) * 2)
    out = answer_all(incoming, harness.router)
    assert [out[4:8], out[len(out) // 2 + 4 : len(out) // 2 + 8]] == [b"\0\0\0\5"] * 2


@pytest.mark.parametrize(
    ("topics", "text"),
    [(300, r"topic_names\[300\]"), (EXPLAINED // 10, "DeleteTopicsRequest v1 at byte [0-9]+: the data ends before")],
    ids=["small", "large"],
)
def test_malformed_request_names_its_field_unless_it_is_large(incoming: ClientRequests, topics: int, text: str) -> None:
    names = [f"topic-{number:05}" for number in range(topics + 1)]
    frame = encode_request(
        DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 1, correlation_id=1, client_id="me"
    )
    incoming.receive(pack(frame[:-6]))
    with pytest.raises(WireError, match=text):
        incoming.next_call()


def test_large_request_is_decoded_in_steps(incoming: ClientRequests, harness: BrokerHarness) -> None:
    harness.broker.slice_size = 10
    names = [f"topic-{number:05}" for number in range(LARGE_REQUEST // 10)]
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=1_000)
    incoming.receive(pack(encode_request(request, 1, correlation_id=3, client_id="me")))
    incoming.receive(pack(encode_request(BEAT, 3, correlation_id=4)))
    undecoded = incoming.next_call()
    assert isinstance(undecoded, Undecoded)
    assert incoming.next_call() is None  # the next request waits until this one is decoded
    steps, call = in_slices(undecoded.steps)
    assert steps == 1 + len(names) // 10
    assert call.ticket is undecoded.ticket is incoming.ticket
    assert (call.ticket.correlation_id, call.version, call.client.client_id) == (3, 1, "me")
    assert call.request == request
    incoming.skip_answer()
    following = incoming.next_call()
    assert isinstance(following, Call)
    assert following.request == BEAT


def test_malformed_large_request_is_refused_after_its_steps(incoming: ClientRequests) -> None:
    names = [f"topic-{number:05}" for number in range(LARGE_REQUEST // 10)]
    frame = encode_request(
        DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 1, correlation_id=3, client_id="me"
    )
    incoming.receive(pack(frame[:-6]))
    undecoded = incoming.next_call()
    assert isinstance(undecoded, Undecoded)
    for _ in range(len(names) // 1_000):
        next(undecoded.steps)
    with pytest.raises(WireError, match=r"DeleteTopicsRequest v1 at byte [0-9]+: the data ends before"):
        next(undecoded.steps)


SIZES = [
    (BEAT, 3, LARGE_REQUEST, Call),
    (BEAT, 3, LARGE_REQUEST + 1, Undecoded),
    (ProduceRequest(), 3, LARGE_PRODUCE, Call),
    (ProduceRequest(), 3, LARGE_PRODUCE + 1, Undecoded),
]


@pytest.mark.parametrize(("request_", "version", "size", "kind"), SIZES)
def test_large_requests_are_decoded_in_steps(
    incoming: ClientRequests, request_: object, version: int, size: int, kind: type
) -> None:
    incoming.receive(pack(encode_request(request_, version, correlation_id=1).ljust(size, b"x")))
    assert isinstance(incoming.next_call(), kind)


@pytest.mark.parametrize("cut", range(1, len(encode_request(JOIN, 9, correlation_id=1))))
def test_truncated_join_group_never_reaches_the_group(incoming, harness, cut):
    whole = encode_request(JOIN, 9, correlation_id=1)
    incoming.receive(pack(whole[:cut]))
    with pytest.raises(WireError):
        incoming.next_call()
    assert harness.broker.groups == {}


def test_the_limit_is_the_brokers():
    harness = BrokerHarness(config={"socket.request.max.bytes": 100})
    incoming = ClientRequests(1, 0, "/", harness.router)
    incoming.receive(struct.pack(">i", 101))
    with pytest.raises(WireError, match="above the limit of 100"):
        incoming.next_call()


@pytest.mark.parametrize(("limit", "accepted"), [(8 << 20, False), (64 << 20, True)])
def test_memory_of_a_request_is_limited_by_a_setting(limit: int, accepted: bool) -> None:
    harness = BrokerHarness(config={"mockbroker.request.max.memory.bytes": limit})
    incoming = ClientRequests(7, 0, "/127.0.0.1", harness.router)
    topic = OffsetCommitRequest.Topic
    partitions = [topic.Partition(partition_index=number) for number in range(100_000)]
    request = OffsetCommitRequest(group_id="g", topics=[topic(name="t", partitions=partitions)])
    incoming.receive(pack(encode_request(request, 5, correlation_id=1, client_id="c")))
    undecoded = incoming.next_call()
    assert isinstance(undecoded, Undecoded)
    if accepted:
        assert in_slices(undecoded.steps)[1].request == request
    else:
        with pytest.raises(WireError, match="would exceed its memory limit"):
            next(undecoded.steps)
