"""The conversion of connections of every kind to calls."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import pytest
from captures import CAPTURES, all_of, generations, greeting, heartbeats, records, tls_hello
from tools.pcap import ACK, RST, Segment, Talk, packets, pcap, prefixed, shaken

import kwire
from kwire.capture import Call, Conversation, Row, read
from kwire.capture.calls.model import (
    INCOMPLETE,
    NOT_KAFKA,
    OPAQUE,
    REQUEST_NOT_SEEN,
    RESPONSE_NOT_SEEN,
    SASL_TOKEN,
    TLS,
    UNKNOWN_VERSION,
    UNREADABLE,
)
from kwire.capture.limits import HELD_SEGMENT, MAX_UNDECIDED_SEGMENTS
from kwire.capture.tcp.segments import SYN
from kwire.messages.api_versions import ApiVersionsResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Write = Callable[..., str]


def read_calls(
    written: Write, segments: list[Segment], **options: object
) -> tuple[list[Call], list[kwire.capture.Connection]]:
    calls, connections, problems = all_of(written(pcap(packets(segments))), **options)
    assert problems == []
    return calls, connections


def spoken(talk: Talk, count: int = 40) -> list[Segment]:
    return [*talk.open(), *greeting(talk), *heartbeats(talk, count), *talk.close()]


def pairs(count: int) -> list[tuple[int, int]]:
    return [(n, n) for n in range(1, count + 1)]


@pytest.mark.parametrize("mss", [1, 3, 17, 1448])
def test_frames_across_segments(mss: int, written: Write) -> None:
    calls, connections = read_calls(written, spoken(Talk(mss=mss)))
    assert generations(calls) == pairs(40)
    assert [call.number for call in calls] == list(range(1, 42))
    assert (connections[0].software_name, connections[0].client_id, connections[0].gaps) == ("tester", "billing-7", 0)


def test_many_frames_in_a_segment(written: Write) -> None:
    talk = Talk(mss=100_000)
    segments = talk.open()
    reported = heartbeats(Talk(), 20)
    segments += talk.say(True, b"".join(s.payload for s in reported[::2]))
    segments += talk.say(False, b"".join(s.payload for s in reported[1::2]))
    assert generations(read_calls(written, segments)[0]) == pairs(20)


@pytest.mark.parametrize("seed", range(10))
def test_reorder_and_retransmission(seed: int, written: Write) -> None:
    segments = spoken(Talk(mss=30))
    calls, connections = read_calls(written, shaken(segments, seed, moved=0.1, again=0.1))
    assert generations(calls) == pairs(40)
    assert (connections[0].gaps, connections[0].conflicts) == (0, 0)
    assert connections[0].retransmitted > 0
    assert connections[0].out_of_order > 0


def test_a_conflict_is_counted(written: Write) -> None:
    segments = spoken(Talk())
    other = replace(segments[7], payload=segments[7].payload[:-3] + b"???")
    calls, connections = read_calls(written, [*segments[:8], other, *segments[8:]])
    assert generations(calls) == pairs(40)
    assert (connections[0].conflicts, connections[0].retransmitted) == (1, 1)


@pytest.mark.parametrize("isn", [(2**32 - 1, 2**32 - 1), (2**32 - 700, 2**32 - 90), (0xFFFFF000, 2**31 - 50)])
def test_sequence_numbers_wrap(isn: tuple[int, int], written: Write) -> None:
    calls, connections = read_calls(written, shaken(spoken(Talk(mss=30, isn=isn)), 3, moved=0.1, again=0.1))
    assert (generations(calls), connections[0].gaps) == (pairs(40), 0)


@pytest.mark.parametrize("closed", [True, False])
def test_a_port_used_again(closed: bool, written: Write) -> None:
    first = Talk()
    one = [*first.open(), *greeting(first), *heartbeats(first, 5), *(first.close() if closed else [])]
    second = Talk(isn=(77_000, 88_000), time_us=first.time_us + 10)
    calls, connections = read_calls(written, [*one, *spoken(second, 7)])
    assert generations(calls) == pairs(5) + pairs(7)
    assert len({connection.id for connection in connections}) == 2


def test_a_syn_sent_again_is_no_other_connection(written: Write) -> None:
    segments = spoken(Talk())
    calls, connections = read_calls(written, [segments[0], *segments])
    assert (generations(calls), len(connections)) == (pairs(40), 1)


def test_each_single_segment_may_be_missing(written: Write) -> None:
    segments = spoken(Talk(mss=25), 6)
    for n, lost in enumerate(segments):
        if lost.payload:
            calls, connections = read_calls(written, segments[:n] + segments[n + 1 :])
            whole = [(a, b) for a, b in generations(calls) if a is not None and b is not None]
            assert set(whole) <= set(pairs(6))
            assert len(whole) >= 4
            assert connections[0].gap_bytes == len(lost.payload)
            assert all(call.reason for call in calls if call.request is None or call.response is None)


def test_gap_inside_a_frame_loses_only_that_frame(written: Write) -> None:
    talk = Talk(mss=20)
    segments = talk.open() + heartbeats(talk, 3)
    requests = [n for n, s in enumerate(segments) if s.payload and s.target == talk.broker]
    per = len(requests) // 3
    calls, connections = read_calls(written, [s for n, s in enumerate(segments) if n != requests[per + 2]])
    assert [call.reason for call in calls] == [None, INCOMPLETE, None]
    assert calls[1].correlation_id == 2
    assert calls[1].request is None
    assert calls[1].response.throttle_time_ms == 2
    assert (connections[0].gaps, connections[0].resyncs) == (1, 0)


def test_cut_by_the_snapshot_length(written: Write) -> None:
    segments = [replace(s, cut=40) for s in spoken(Talk())]
    calls, connections = read_calls(written, segments)
    missing = [len(s.payload) - 40 for s in segments if len(s.payload) > 40]
    assert (connections[0].gaps, connections[0].gap_bytes) == (len(missing), sum(missing))
    assert [call.reason for call in calls[1:] if call.response is not None] == [INCOMPLETE] * 40
    assert [c.response.throttle_time_ms for c in calls[1:]] == list(range(1, 41))
    assert [c.client_id for c in calls[1:]] == ["billing-7"] * 40


@pytest.mark.parametrize("cut", range(8, 40))
def test_header_of_a_truncated_request_is_read(cut: int, written: Write) -> None:
    """Size, API, version and correlation id; the client id if its length and what is there of it are the known ones."""
    talk = Talk()
    segments = [*talk.open(), *greeting(talk), *(replace(s, cut=cut) for s in heartbeats(talk, 3)), *talk.close()]
    calls, connections = read_calls(written, segments)
    beats = [call for call in calls if call.api_key == 12]
    assert connections[0].status == "kafka"
    if cut < 12:
        assert (beats, connections[0].lost) == ([], [(segments[5].time_us, segments[-5].time_us)])
        return
    sizes = [len(s.payload) - 4 for s in segments[5:-3:2]]
    known = "billing-7" if cut >= 14 else None
    assert [(c.api_version, c.correlation_id, c.client_id, c.request_size) for c in beats] == [
        (4, n, known, size) for n, size in zip((1, 2, 3), sizes, strict=True)
    ]
    assert [(c.reason, c.request, c.group_id) for c in beats] == [
        (INCOMPLETE, None, "orders" if cut >= 31 else None)
    ] * 3


def test_truncated_client_id_is_that_of_the_connection_or_none(written: Write) -> None:
    talk = Talk()
    segments = [*talk.open(), *greeting(talk), *heartbeats(talk, 1, client_id="billing-8"), *talk.close()]
    segments[5] = replace(segments[5], cut=20)
    assert [call.client_id for call in read_calls(written, segments)[0]] == ["billing-7", "billing-7"]  # 6 bytes agree
    segments[5] = replace(segments[5], cut=23)
    assert [call.client_id for call in read_calls(written, segments)[0]] == ["billing-7", None]


@pytest.mark.parametrize("cut", [0, 3])
def test_connection_without_captured_bytes_keeps_its_status(cut: int, written: Write) -> None:
    segments = [replace(s, cut=cut) for s in spoken(Talk())]
    calls, connections = read_calls(written, segments)
    assert (calls, connections[0].status) == ([], "kafka")
    assert connections[0].remark is not None


@pytest.mark.parametrize("cut", range(3, 20))
def test_begun_in_the_middle(cut: int, written: Write) -> None:
    segments = spoken(Talk(mss=25), 30)
    calls, connections = read_calls(written, segments[cut:])
    whole = [(a, b) for a, b in generations(calls) if a is not None and b is not None]
    assert len(whole) >= 24
    assert set(whole) <= set(pairs(30))
    assert not connections[0].syn_seen
    assert connections[0].broker == "10.0.0.2:9092"


def test_broker_is_the_side_that_gets_requests(written: Write) -> None:
    talk = Talk(client=("10.0.0.1", 9092), broker=("10.0.0.2", 50_000))
    assert read_calls(written, spoken(talk))[1][0].broker == "10.0.0.2:50000"
    assert read_calls(written, spoken(talk)[3:])[1][0].broker == "10.0.0.2:50000"
    assert read_calls(written, spoken(Talk())[3:], ports=[50_000])[1][0].broker == "10.0.0.1:50000"
    assert read_calls(written, spoken(Talk()), ports=[1])[0] == []


def test_answers_without_questions(written: Write) -> None:
    talk = Talk()
    segments = talk.open() + heartbeats(talk, 4)
    questions = [n for n, s in enumerate(segments) if s.payload and s.target == talk.broker]
    calls, _ = read_calls(written, [s for n, s in enumerate(segments) if n != questions[1]])
    assert sorted((call.correlation_id, call.reason) for call in calls) == [
        (1, None),
        (2, REQUEST_NOT_SEEN),
        (3, None),
        (4, None),
    ]
    assert next(call for call in calls if call.reason).response is None


def test_unanswered(written: Write) -> None:
    talk = Talk()
    segments = talk.open() + heartbeats(talk, 2)
    assert [call.reason for call in read_calls(written, segments[:-1])[0]] == [None, RESPONSE_NOT_SEEN]


@pytest.mark.parametrize(("count", "reason"), [(1, None), (2, "one_sided")], ids=["last packet", "one direction"])
def test_connection_without_bytes_from_the_broker(count: int, reason: str | None, written: Write) -> None:
    """A client that continues after the first request has received a response."""
    talk = Talk()
    segments = [one for one in talk.open() + heartbeats(talk, count) if one.source == talk.client]
    calls, (connection,) = read_calls(written, segments)
    assert [call.reason for call in calls] == [RESPONSE_NOT_SEEN] * count
    assert (connection.remark[0] if connection.remark else None) == reason


def test_reset(written: Write) -> None:
    talk = Talk()
    segments = [*talk.open(), *heartbeats(talk, 3), talk.segment(False, RST | ACK)]
    calls, connections = read_calls(written, segments)
    assert (generations(calls), connections[0].closed) == (pairs(3), "rst")


@pytest.mark.parametrize("version", [3, 7, 9, 12])
def test_produce_without_acknowledgement(version: int, written: Write) -> None:
    talk = Talk()
    segments = talk.open()
    for number, acks in ((1, 0), (2, 1)):
        body = ProduceRequest(acks=acks, timeout_ms=5)
        segments += talk.say(True, prefixed(kwire.encode_request(body, version, correlation_id=number, client_id="p")))
    segments += talk.say(False, prefixed(kwire.encode_response(ProduceResponse(), version, correlation_id=2)))
    calls, _ = read_calls(written, segments)
    assert [(c.correlation_id, c.reason, c.response is not None) for c in calls] == [(1, None, False), (2, None, True)]


def test_unknown_versions_and_apis(written: Write) -> None:
    talk = Talk()
    segments = talk.open() + greeting(talk)
    for number, head in ((1, "03e70001"), (2, "000c0063")):
        frame = bytes.fromhex(head) + number.to_bytes(4, "big") + b"\0\x09billing-7" + b"body"
        segments += talk.say(True, prefixed(frame))
        segments += talk.say(False, prefixed(number.to_bytes(4, "big") + b"answer"))
    segments += heartbeats(talk, 2, first=3)
    calls, _ = read_calls(written, segments)
    assert [call.reason for call in calls] == [None, UNKNOWN_VERSION, UNKNOWN_VERSION, None, None]
    assert [(c.api_key, c.api_version, c.client_id) for c in calls[1:3]] == [
        (999, 1, "billing-7"),
        (12, 99, "billing-7"),
    ]
    assert calls[1].request_raw is not None
    assert calls[1].response_raw == b"\0\0\0\1answer"


def unknown(key: int, version: int, number: int, client_id: bytes = b"kgo") -> bytes:
    """Return a request of an unknown API or version, with its prefix."""
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + number.to_bytes(4, "big")
    return prefixed(head + len(client_id).to_bytes(2, "big") + client_id + b"\0\5body")


UNSUPPORTED = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=4)])


def test_a_connection_that_begins_with_an_unknown_version(written: Write) -> None:
    """As franz-go's: the broker answers ApiVersions v5 with UNSUPPORTED_VERSION in v0."""
    talk = Talk()
    segments = talk.open() + talk.say(True, unknown(18, 5, 0))
    segments += talk.say(False, prefixed(kwire.encode_response(UNSUPPORTED, 0, correlation_id=0)))
    calls, connections = read_calls(written, segments + heartbeats(talk, 2))
    first = calls[0]
    assert (first.api_key, first.api_version, first.client_id, first.request_size) == (18, 5, "kgo", 19)
    assert (first.reason, first.response.error_code, first.response_version) == (UNKNOWN_VERSION, 35, 0)
    assert (generations(calls), connections[0].status, connections[0].client_id) == (pairs(2), "kafka", "kgo")


def test_an_answer_in_an_unknown_version_is_not_read(written: Write) -> None:
    talk = Talk()
    segments = talk.open() + talk.say(True, unknown(18, 5, 0))
    segments += talk.say(False, prefixed(bytes(4) + b"\0\0\2\0\x12\0\0\0\5\0\0\0\0\0\0"))
    (call,), _ = read_calls(written, segments)
    assert (call.reason, call.response, call.error) == (UNKNOWN_VERSION, None, None)
    assert call.response_raw is not None


@pytest.mark.parametrize("key", [18, 12, 999])
@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("goes_on", [True, False])
def test_an_unknown_api_first_is_listed_once_it_is_proven(
    key: int, answered: bool, goes_on: bool, written: Write
) -> None:
    talk = Talk()
    segments = talk.open() + talk.say(True, unknown(key, 77, 9))
    segments += talk.say(False, prefixed(b"\0\0\0\x09answer")) if answered else []
    segments += heartbeats(talk, 2) if goes_on else []
    calls, connections = read_calls(written, segments)
    is_listed = key != 999 or answered or goes_on
    assert [(c.api_key, c.api_version, c.client_id) for c in calls if c.api_key != 12 or c.api_version == 77] == (
        [(key, 77, "kgo")] if is_listed else []
    )
    assert connections[0].status == ("kafka" if is_listed else NOT_KAFKA)
    assert generations([call for call in calls if call.api_version == 4]) == pairs(2 if goes_on else 0)


@pytest.mark.parametrize("client_id", [b"\xff\xfe\xfd", b"a\0b\0"])
def test_client_id_that_is_not_utf8_is_not_kafka(client_id: bytes, written: Write) -> None:
    talk = Talk()
    segments = talk.open() + talk.say(True, unknown(18, 77, 1, client_id)) + talk.say(False, prefixed(b"hello there"))
    calls, connections = read_calls(written, segments)
    assert ([call for call in calls if call.api_key is not None], connections[0].status) == ([], NOT_KAFKA)


def test_unknown_version_right_after_a_resynchronized_frame(written: Write) -> None:
    talk = Talk(mss=100_000)
    beat = heartbeats(Talk(), 1)
    segments = talk.say(True, beat[0].payload + unknown(12, 99, 2, b"billing-7")) + talk.say(False, beat[1].payload)
    calls, _ = read_calls(written, segments, ports=[9092])
    assert sorted((c.api_version, c.reason) for c in calls) == [(4, None), (99, UNKNOWN_VERSION)]


@pytest.mark.parametrize("begun", range(1, 40, 3))
@pytest.mark.parametrize("mss", [25, 1448])
def test_every_frame_names_its_file_and_position(begun: int, mss: int, written: Write) -> None:
    """This includes frames found by a search, as captures begin inside a connection or continue in another file."""
    segments = list(packets(spoken(Talk(mss=mss), 20)))
    whole = {}
    for call in read(written(pcap(segments))).calls():
        whole[call.api_key, call.correlation_id] = call
    half = len(segments) // 2
    paths = [written(pcap(some), f"{n}.pcap") for n, some in enumerate((segments[begun:half], segments[half:]))]
    first, second = (sum(len(data) + 16 for _, data, _ in some) for some in (segments[:begun], segments[:half]))
    result = 0
    for call in read(paths).calls():
        truth = whole.get((call.api_key, call.correlation_id))
        sides = [(call.request, call.file, call.position, truth and truth.position)]
        sides += [(call.response, call.response_file, call.response_position, truth and truth.response_position)]
        for body, file, position, true in sides:
            if body is not None:
                assert true is not None
                before = {paths[0]: first, paths[1]: second}[str(file)]
                assert position == true - before
                result += 1
    assert result > 12


def test_a_body_that_cannot_be_read(written: Write) -> None:
    talk = Talk()
    segments = talk.open() + greeting(talk)
    request = kwire.encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=1, client_id="billing-7")
    segments += talk.say(True, prefixed(request[:-4]))
    segments += heartbeats(talk, 2, first=2)
    calls, _ = read_calls(written, segments)
    assert [call.reason for call in calls if call.correlation_id == 1] == [UNREADABLE]
    assert generations(calls)[-2:] == [(2, 2), (3, 3)] or generations(calls)[:2] == [(2, 2), (3, 3)]
    assert "HeartbeatRequest v4" in next(str(call.error) for call in calls if call.correlation_id == 1)


def test_tls(written: Write) -> None:
    talk = Talk()
    segments = [*talk.open(), *talk.say(True, tls_hello(b"kafka.example"))]
    segments += talk.say(False, b"\x16\3\3\0\x10" + bytes(16)) + talk.say(True, b"\x17\3\3\0\x20" + bytes(32))
    for some in (segments, segments[4:]):
        calls, connections = read_calls(written, some)
        assert (calls, connections[0].status) == ([], TLS)
    assert read_calls(written, segments)[1][0].notes == ["TLS for kafka.example"]


@pytest.mark.parametrize("begun", [0, 3])
def test_not_kafka(begun: int, written: Write) -> None:
    talk = Talk()
    segments = [
        *talk.open(),
        *talk.say(True, b"GET / HTTP/1.1\r\n\r\n"),
        *talk.say(False, b"HTTP/1.1 200 OK\r\n" + b"x" * 100_000),
    ]
    calls, connections = read_calls(written, segments[begun:])
    assert (calls, connections[0].status) == ([], NOT_KAFKA)


def sasl(talk: Talk, version: int) -> list[Segment]:
    request = kwire.encode_request(
        SaslHandshakeRequest(mechanism="PLAIN"), version, correlation_id=1, client_id="billing-7"
    )
    answer = kwire.encode_response(SaslHandshakeResponse(mechanisms=["PLAIN"]), version, correlation_id=1)
    return [*talk.say(True, prefixed(request)), *talk.say(False, prefixed(answer))]


def test_sasl_tokens_with_a_header(written: Write) -> None:
    talk = Talk()
    segments = talk.open() + sasl(talk, 1)
    token = SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret")
    segments += talk.say(True, prefixed(kwire.encode_request(token, 2, correlation_id=2, client_id="billing-7")))
    answer = SaslAuthenticateResponse(auth_bytes=b"nonce")
    segments += talk.say(False, prefixed(kwire.encode_response(answer, 2, correlation_id=2)))
    segments += heartbeats(talk, 2, first=3)
    calls, _ = read_calls(written, segments)
    assert (calls[1].request.auth_bytes, calls[1].response.auth_bytes) == (b"[redacted]", b"[redacted]")
    assert read_calls(written, segments, redacted=False)[0][1].request.auth_bytes == b"\0alice\0secret"
    assert b"secret" not in pickle.dumps(read_calls(written, segments, raw=True)[0])


def test_sasl_tokens_without_a_header(written: Write) -> None:
    talk = Talk()
    segments = talk.open() + sasl(talk, 0)
    segments += talk.say(True, prefixed(b"\0alice\0secret")) + talk.say(False, prefixed(b""))
    segments += heartbeats(talk, 3, first=2)
    calls, connections = read_calls(written, segments)
    assert [call.reason for call in calls] == [None, SASL_TOKEN, None, None, None]
    assert (calls[1].request_size, calls[1].response_size, calls[1].request_raw) == (13, 0, None)
    assert connections[0].status == "kafka"
    assert read_calls(written, segments, redacted=False)[0][1].request_raw == b"\0alice\0secret"


def test_too_many_sasl_tokens_make_a_connection_opaque(written: Write) -> None:
    talk = Talk()
    segments = talk.open() + sasl(talk, 0)
    for n in range(60):
        segments += talk.say(True, prefixed(b"\x60token" * n)) + talk.say(False, prefixed(b"\x60token"))
    assert read_calls(written, segments)[1][0].status == OPAQUE


def test_only_the_bodies_asked_for(written: Write) -> None:
    talk = Talk()
    segments = talk.open()
    for number in (1, 2):
        body = ProduceRequest(acks=1, transactional_id="x" * 9_000)
        segments += talk.say(True, prefixed(kwire.encode_request(body, 9, correlation_id=number, client_id="p")))
        segments += talk.say(False, prefixed(kwire.encode_response(ProduceResponse(), 9, correlation_id=number)))
    segments += heartbeats(talk, 2, first=3)
    calls, _ = read_calls(written, segments, bodies=[12])
    assert [(c.api_key, c.request is None, c.reason) for c in calls] == [(0, True, None)] * 2 + [(12, False, None)] * 2
    assert calls[0].request_size == len(kwire.encode_request(body, 9, correlation_id=1, client_id="p"))


def test_state_can_be_pickled_at_any_segment() -> None:
    talk = Talk(mss=20)
    segments = shaken(spoken(talk, 6), 5, moved=0.1)
    results: list[Call] = []
    conversation: Conversation | None = None
    for segment in segments:
        row = Row(
            segment.source == talk.client,
            segment.time_us,
            0,
            0,
            len(segment.payload),
            len(segment.payload),
            segment.seq,
            segment.ack,
            segment.flags,
        )
        conversation = conversation or Conversation((0, 0xFFFF_0A00_0001, 50_000, 0, 0xFFFF_0A00_0002, 9092), row)
        if segment.payload or segment.flags & ~ACK:
            conversation.segment(row, segment.payload, 0, "f")
        results += conversation.taken()
        conversation = pickle.loads(pickle.dumps(conversation))
        assert conversation is not None
    assert conversation is not None
    assert generations(results) == pairs(6)
    assert conversation.finish().closed == "fin"
    assert SYN


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_every_frame_of_real_captures(path: object) -> None:
    """Each frame is decoded, and encoded again to the same bytes."""
    frames = 0
    for call in read(str(path), raw=True, redacted=False).calls():
        assert call.reason in (None, RESPONSE_NOT_SEEN, REQUEST_NOT_SEEN), call
        if call.request_raw is not None:
            frames += 1
            request = kwire.decode_request(call.request_raw)
            assert (request.body, request.version) == (call.request, call.api_version)
            encoded = kwire.encode_request(call.request, request.version, correlation_id=0, header=request.header)
            assert encoded == call.request_raw
        if call.response is not None:
            frames += 1
            assert call.response_raw is not None
            response = kwire.decode_response(call.response_raw, call.api_key or 0, call.api_version or 0)
            assert response.body == call.response
            encoded = kwire.encode_response(call.response, response.version, correlation_id=0, header=response.header)
            assert encoded == call.response_raw
    assert frames > 10


@pytest.mark.parametrize(("rate", "share"), [(0.001, 0.97), (0.01, 0.86)])
def test_lost_segments(rate: float, share: float, written: Write) -> None:
    """Most pairs are found again, and no body differs from the original."""
    import random

    whole = result = 0
    for path in CAPTURES:
        truth: dict[tuple[str, int | None], list[Call]] = {}
        for call in read(str(path)).calls():
            truth.setdefault((call.client, call.correlation_id), []).append(call)
        whole += sum(call.response is not None for calls in truth.values() for call in calls)
        source = random.Random(path.name)
        kept = [packet for packet in records(path) if len(packet[1]) <= 66 or source.random() >= rate]
        for call in read(written(pcap(kept))).calls():
            known = truth.get((call.client, call.correlation_id), [])
            if call.request is not None:
                assert any(call.request == other.request for other in known)
            if call.response is not None:
                assert any(call.response == other.response for other in known)
            result += call.request is not None and call.response is not None
    assert result >= share * whole


@pytest.mark.parametrize("ports", [(), (9092,)])
@pytest.mark.parametrize("moved", range(3))
@pytest.mark.parametrize("by", range(1, 9))
def test_connection_with_a_late_syn(moved: int, by: int, ports: tuple[int, ...], written: Write) -> None:
    """A SYN, a SYN-ACK or both arrive after this number of packets with data."""
    talk = Talk(mss=40)
    segments = spoken(talk, 12)
    late = {0: segments[:1], 1: segments[1:2], 2: segments[:2]}[moved]
    rest = [segment for segment in segments if segment not in late]
    at = by if moved != 1 else by + 1
    calls, connections = read_calls(written, [*rest[:at], *late, *rest[at:]], ports=ports)
    assert [connection.syn_seen for connection in connections] == [True]
    assert (connections[0].gaps, connections[0].closed) == (0, "fin")
    assert generations(calls) == pairs(12)
    assert [call.number for call in calls] == list(range(1, 14))


@pytest.mark.parametrize("early", range(2, 8))
def test_data_before_a_syn_in_another_order(early: int, written: Write) -> None:
    segments = spoken(Talk(mss=40), 12)
    calls, connections = read_calls(written, [*segments[early - 1 : 2 : -1], *segments[:3], *segments[early:]])
    assert (len(connections), connections[0].gaps, generations(calls)) == (1, 0, pairs(12))


@pytest.mark.parametrize("closed", [True, False])
def test_a_port_used_again_after_a_few_segments(closed: bool, written: Write) -> None:
    """The segments before the second SYN are of another connection, that began before the capture."""
    first = Talk(isn=(500_000_000, 900_000_000))
    one = [*greeting(first), *heartbeats(first, 3), *(first.close() if closed else [])]
    second = Talk(isn=(77_000, 88_000), time_us=first.time_us + 10)
    calls, connections = read_calls(written, [*one, *spoken(second, 7)])
    assert generations(calls) == pairs(3) + pairs(7)
    assert [connection.syn_seen for connection in connections] == [False, True]


def test_segments_without_captured_bytes_are_limited() -> None:
    """A capture of headers only, of a connection whose broker is unknown."""
    key = (0, 1, 50_001, 0, 2, 50_002)
    rows = [Row(True, n, n, 0, 0, 1_400, 1 + n * 1_400, 1, ACK) for n in range(3_000)]
    conversation = Conversation(key, rows[0])
    held = []
    for row in rows:
        conversation.segment(row, b"", 0, "trace.pcap")
        held.append(conversation.held)
    assert MAX_UNDECIDED_SEGMENTS <= max(held) // HELD_SEGMENT <= MAX_UNDECIDED_SEGMENTS + 1
    assert held[-1] == 0
    assert conversation.broker is True
