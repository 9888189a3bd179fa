from __future__ import annotations

import pytest

from kwire.connection import ClientSide, ServerSide
from kwire.envelope import decode_request, encode_response
from kwire.errors import DecodeError, EncodeError, LocalProtocolError, RemoteProtocolError
from kwire.frames import pack
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.produce import ProduceRequest


def answer(server: ServerSide, error_code: int = 0) -> bytes:
    frame = server.next_frame()
    assert frame is not None
    request = decode_request(frame)
    body = HeartbeatResponse(error_code=error_code)
    return server.answer(encode_response(body, request.version, correlation_id=request.header.correlation_id))


def test_a_conversation_byte_by_byte() -> None:
    client, server = ClientSide("me"), ServerSide()
    sent = client.send(HeartbeatRequest(group_id="a"), 0) + client.send(HeartbeatRequest(group_id="b"), 4)
    assert client.in_flight == 2
    for byte in sent:
        server.receive(bytes([byte]))
    answers = answer(server, 25) + answer(server, 27)
    results = []
    for byte in answers:
        client.receive(bytes([byte]))
        if (response := client.next_response()) is not None:
            results.append((response.version, response.body))
    assert results == [(0, HeartbeatResponse(error_code=25)), (4, HeartbeatResponse(error_code=27))]
    assert client.in_flight == 0
    assert server.buffered == 0


@pytest.mark.parametrize("size", range(4))
def test_response_without_a_complete_correlation_id(size: int) -> None:
    client = ClientSide()
    client.send(HeartbeatRequest(), 0)
    client.receive(pack(bytes(size)))
    with pytest.raises(DecodeError, match=f"correlation_id: expected 4 bytes, found {size}"):
        client.next_response()


def test_one_request_at_a_time() -> None:
    client, server = ClientSide(), ServerSide()
    server.receive(client.send(HeartbeatRequest(), 0) * 2)
    assert server.next_frame() is not None
    assert server.busy
    assert server.next_frame() is None
    server.skip_answer()
    assert server.next_frame() is not None


def test_an_answer_without_a_request() -> None:
    with pytest.raises(LocalProtocolError, match="no request is waiting"):
        ServerSide().answer(b"")
    client = ClientSide()
    client.receive(pack(b"\0\0\0\7"))
    with pytest.raises(RemoteProtocolError, match="the peer sent a response, but no request is pending"):
        client.next_response()


def test_an_answer_out_of_order() -> None:
    client = ClientSide()
    client.send(HeartbeatRequest(), 0)
    client.receive(pack(b"\xff\xff\xff\xff\0\0"))
    with pytest.raises(
        RemoteProtocolError, match="the response has correlation id -1, but the next response must have 0"
    ):
        client.next_response()


def test_a_request_that_gets_no_answer() -> None:
    client = ClientSide()
    client.send(ProduceRequest(acks=0), 9, answered=False)
    assert client.in_flight == 0


def test_failed_send_changes_no_state() -> None:
    client = ClientSide()
    with pytest.raises(EncodeError):
        client.send(HeartbeatRequest(generation_id=2**40), 0)
    assert client.in_flight == 0
    assert client.send(HeartbeatRequest(), 0)[8:12] == bytes(4)


def test_a_body_that_cannot_be_read() -> None:
    client = ClientSide()
    client.send(HeartbeatRequest(), 0)
    client.receive(pack(bytes(5)))
    with pytest.raises(DecodeError, match="HeartbeatResponse v0 at byte 4, error_code: expected 2 bytes, found 1"):
        client.next_response()


@pytest.mark.parametrize("side", [ServerSide(limit=100), ClientSide(limit=100)])
def test_no_frame(side: ServerSide | ClientSide) -> None:
    side.receive(b"GET / HTTP/1.1")
    with pytest.raises(RemoteProtocolError, match="this looks like an HTTP request"):
        side.next_frame() if isinstance(side, ServerSide) else side.next_response()


def test_correlation_ids_stay_positive() -> None:
    client = ClientSide()
    client._next_id = 2**31 - 1
    assert client.send(HeartbeatRequest(), 0)[8:12] == b"\x7f\xff\xff\xff"
    assert client.send(HeartbeatRequest(), 0)[8:12] == bytes(4)
