"""The frames that an observer of the proxy gets: both frames of each request, as received and as sent on, without
secrets."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tools.counting import in_slices

from kwire import decode_request, decode_response, encode_request, encode_response
from kwire.frames import pack
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.changeable import Changeable
from mockbroker.proxy.link import Intercepted, Link
from mockbroker.proxy.observer import Connection, Exchange, Moment, Observer

CONNECTION = Connection(1, Address("client", 1), 0, Address("real", 9), Address("proxy", 7))
OWN = {3: Address("proxy", 7)}
BROKERS = MetadataResponse(brokers=[MetadataResponse.Broker(node_id=3, host="real", port=9)])


class Recorder(Observer):
    """An observer that records the exchanges of the APIs in ``wanted``, or of all APIs."""

    def __init__(self, *wanted: int) -> None:
        self.wanted = wanted
        self.requests: list[Exchange] = []
        self.answers: list[Exchange] = []

    def needs(self, api_key: int, version: int) -> bool:
        return not self.wanted or api_key in self.wanted

    def requested(self, exchange: Exchange) -> None:
        self.requests.append(exchange)

    def answered(self, exchange: Exchange) -> None:
        self.answers.append(exchange)


def request(message: Any, version: int, number: int = 1) -> bytes:
    return encode_request(message, version, correlation_id=number, client_id="app")


def pass_on(link: Link, requests: list[bytes], responses: list[bytes], piece: int = 10_000) -> tuple[bytes, bytes]:
    """Return the bytes that the broker and the client get if the frames arrive in pieces of ``piece`` bytes."""
    up, down = b"".join(map(pack, requests)), b"".join(map(pack, responses))
    sent, delivered = b"", b""
    for at in range(0, len(up), piece):
        for sending in link.requests(up[at : at + piece], Moment(1.0, 100.0 + at)):
            assert not isinstance(sending, Intercepted)
            if isinstance(sending, bytes):
                sent += sending
            else:
                in_slices(sending)
    for at in range(0, len(down), piece):
        for part in link.responses(down[at : at + piece], Moment(2.0, 200.0 + at)):
            if isinstance(part, bytes):
                delivered += part
            elif isinstance(part, Changeable):
                delivered += passed(part)
            else:
                in_slices(part)
    return sent, delivered


def passed(response: Changeable) -> bytes:
    """Replace the addresses in a response and notify the observers; return the frame that the client gets."""
    in_slices(response.decode())
    in_slices(response.replace_addresses(OWN))
    in_slices(response.notify())
    return response.changed


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_frames_are_seen_as_received_and_as_sent_on(piece: int) -> None:
    recorder = Recorder()
    requests = [request(HeartbeatRequest(group_id="g"), 4, 1), request(MetadataRequest(), 12, 2)]
    responses = [
        encode_response(HeartbeatResponse(), 4, correlation_id=1),
        encode_response(BROKERS, 12, correlation_id=2),
    ]
    sent, delivered = pass_on(Link(CONNECTION, [recorder]), requests, responses, piece)
    assert sent == b"".join(map(pack, requests))
    assert recorder.requests == recorder.answers
    heartbeat, metadata = recorder.answers
    assert [each.request for each in recorder.answers] == requests
    assert [each.answer for each in recorder.answers] == responses
    assert heartbeat.forwarded is heartbeat.request
    assert heartbeat.response is heartbeat.answer
    assert heartbeat.response is not None
    assert metadata.response is not None
    changed: Any = decode_response(metadata.response, 3, 12).body
    assert [(each.host, each.port) for each in changed.brokers] == [("proxy", 7)]
    assert delivered == pack(heartbeat.response) + pack(metadata.response)
    assert (heartbeat.client_id, heartbeat.correlation_id, metadata.correlation_id) == ("app", 1, 2)
    assert heartbeat.connection is CONNECTION
    assert heartbeat.answered_at is not None
    assert (heartbeat.requested_at.monotonic, heartbeat.answered_at.monotonic) == (1.0, 2.0)
    assert heartbeat.requested_at.wall < metadata.requested_at.wall or piece == 10_000


def test_an_observer_sees_only_the_apis_that_it_needs() -> None:
    recorder, everything = Recorder(3), Recorder()
    requests = [request(HeartbeatRequest(), 4, 1), request(MetadataRequest(), 12, 2)]
    responses = [
        encode_response(HeartbeatResponse(), 4, correlation_id=1),
        encode_response(BROKERS, 12, correlation_id=2),
    ]
    pass_on(Link(CONNECTION, [recorder, everything]), requests, responses)
    assert [each.api_key for each in recorder.answers] == [3]
    assert [each.api_key for each in everything.answers] == [12, 3]


def test_a_request_without_response_is_not_answered() -> None:
    recorder = Recorder()
    requests = [request(ProduceRequest(acks=0), 9, 1), request(ProduceRequest(acks=1), 9, 2)]
    pass_on(Link(CONNECTION, [recorder]), requests, [encode_response(ProduceResponse(), 9, correlation_id=2)])
    assert [each.correlation_id for each in recorder.requests] == [1, 2]
    assert [each.correlation_id for each in recorder.answers] == [2]


def test_credentials_are_not_shown() -> None:
    recorder = Recorder()
    secret = b"\0alice\0alice-secret"
    requests = [request(SaslAuthenticateRequest(auth_bytes=secret), 2)]
    responses = [encode_response(SaslAuthenticateResponse(auth_bytes=b"signature"), 2, correlation_id=1)]
    sent, delivered = pass_on(Link(CONNECTION, [recorder]), requests, responses)
    assert secret in sent
    assert b"signature" in delivered
    (seen,) = recorder.answers
    assert seen.response is not None
    shown: Any = decode_request(seen.request).body
    assert shown.auth_bytes == b"[redacted]"
    answered: Any = decode_response(seen.response, 36, 2).body
    assert answered.auth_bytes == b"[redacted]"
    assert seen.forwarded is seen.request


def test_a_request_with_secrets_that_cannot_be_decoded_is_cut() -> None:
    recorder = Recorder()
    frame = struct.pack(">hhi", 36, 99, 5) + b"alice-secret"
    pass_on(Link(CONNECTION, [recorder]), [frame], [])
    assert recorder.requests[0].request == struct.pack(">hhi", 36, 99, 5)
    assert recorder.requests[0].client_id is None


def test_frames_of_unknown_apis_are_seen() -> None:
    recorder = Recorder()
    frame, answer = struct.pack(">hhi", 12_345, 0, 5) + b"body", struct.pack(">i", 5) + b"new"
    pass_on(Link(CONNECTION, [recorder]), [frame], [answer])
    (seen,) = recorder.answers
    assert (seen.request, seen.response, seen.api_key, seen.client_id) == (frame, answer, 12_345, None)


class Stream(Recorder):
    """An observer that also records the bytes of frames that pass unchanged, in the order of all frames of a
    direction."""

    gets_bytes = True

    def __init__(self) -> None:
        super().__init__()
        self.to_broker = self.to_client = b""

    def passed(self, connection: Connection, to_broker: bool, data: bytes, at: Moment, *, ends_frame: bool) -> None:
        if to_broker:
            self.to_broker += data
        else:
            self.to_client += data
        self.ends_frame = ends_frame

    def requested(self, exchange: Exchange) -> None:
        super().requested(exchange)
        self.to_broker += pack(exchange.request)

    def answered(self, exchange: Exchange) -> None:
        super().answered(exchange)
        assert exchange.response is not None
        self.to_client += pack(exchange.response)


SECRET = b"\0alice\0alice-secret"


@pytest.mark.parametrize("piece", [1, 7, 100, 10_000])
@pytest.mark.parametrize("others", [[], [Recorder()]], ids=["alone", "beside another observer"])
def test_bytes_and_frames_are_seen_once_without_secrets(piece: int, others: list[Observer]) -> None:
    stream = Stream()
    link = Link(CONNECTION, [*others, stream])
    requests = [
        request(SaslAuthenticateRequest(auth_bytes=SECRET), 2, 1),
        request(HeartbeatRequest(group_id="g"), 4, 2),
        request(MetadataRequest(), 12, 3),
        request(ProduceRequest(acks=0), 9, 4),
        request(HeartbeatRequest(group_id="h"), 4, 5),
    ]
    responses = [
        encode_response(SaslAuthenticateResponse(auth_bytes=SECRET), 2, correlation_id=1),
        encode_response(HeartbeatResponse(), 4, correlation_id=2),
        encode_response(BROKERS, 12, correlation_id=3),
        encode_response(HeartbeatResponse(), 4, correlation_id=5),
    ]
    sent, delivered = pass_on(link, requests, responses, piece)
    assert sent == b"".join(map(pack, requests))
    hidden, shown = SECRET, b"[redacted]"
    first, *rest = stream.requests
    assert rest == []
    assert decode_request(first.request).body.auth_bytes == shown
    assert hidden not in stream.to_broker + stream.to_client
    assert stream.to_broker == pack(first.request) + b"".join(map(pack, requests[1:]))
    answer, metadata = stream.answers
    assert decode_response(answer.response or b"", 36, 2).body.auth_bytes == shown
    assert metadata.api_key == 3
    size = len(pack(responses[0]))
    assert stream.to_client == pack(answer.response or b"") + delivered[size:]
    assert stream.ends_frame
    assert link.pending == 0


def test_tokens_without_headers_are_not_seen_as_bytes() -> None:
    stream = Stream()
    link = Link(CONNECTION, [stream])
    handshake = request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1)
    answer = encode_response(SaslHandshakeResponse(), 0, correlation_id=1)
    beat = request(HeartbeatRequest(), 4, 2)
    beaten = encode_response(HeartbeatResponse(), 4, correlation_id=2)
    sent, delivered = pass_on(link, [handshake, SECRET, beat], [answer, b"", beaten])
    assert sent == pack(handshake) + pack(SECRET) + pack(beat)
    assert delivered == pack(answer) + pack(b"") + pack(beaten)
    assert stream.to_broker == pack(handshake) + pack(beat)
    assert stream.to_client == pack(answer) + pack(beaten)
