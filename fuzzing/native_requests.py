"""The fuzz target ``requests``: a connection reads the same requests with kwire-native as without it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from kwire import WireError
from kwire.envelope import pack_response
from mockbroker.base.effects import Call
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.net.connection import ClientRequests
from mockbroker.topics.model import Node

LIMITS = (1 << 20, 100, 40)  # of the size of a request, in bytes


def router() -> Router:
    """Return a router whose handlers are not called."""
    broker = Broker([Node(0, "localhost", 9092)], Settings(), lambda: UUID(int=1))
    return Router(broker, Journal(0.0))


ROUTERS = (router(), router())  # the first one reads natively
ROUTERS[1].request_reader = None


def requests(data: bytes) -> None:
    """Check that the native reader of requests and Python find the same requests and errors, and leave the same bytes.

    ``data``: a byte that selects a limit of LIMITS (bits 0 and 1) and whether lengths are right (bit 2: the length
    prefix of each frame is added), then pieces of the received bytes, each after its size in two bytes.
    """
    if not data:
        return
    found = [[*read(pieces(data), each, LIMITS[(data[0] & 3) % len(LIMITS)])] for each in ROUTERS]
    assert found[0] == found[1], found


def pieces(data: bytes) -> list[bytes]:
    """Return the received pieces that an input of ``requests`` describes."""
    result, at = [], 1
    while at + 2 <= len(data):
        (size,) = struct.unpack_from(">H", data, at)
        piece = data[at + 2 : at + 2 + size]
        at += 2 + len(piece)
        result.append(struct.pack(">i", len(piece)) + piece if data[0] & 4 else piece)
    return result if data[0] & 8 else [b"".join(result)]


def read(received: Sequence[bytes], serving: Router, limit: int) -> Iterator[Any]:
    """Yield the requests of a connection, the state after each of them, and the error that ends the connection.

    Args:
        received: the bytes of the connection, in pieces.
        serving: the router.
        limit: maximum size of a request, in bytes.
    """
    connection = ClientRequests(7, 0, "/127.0.0.1", serving, "PLAINTEXT")
    connection.frames.limit = limit
    for piece in received:
        connection.receive(piece)
        while True:
            try:
                call = connection.next_call()
            except WireError as error:
                yield repr(error)
                return
            yield connection.frames.held, connection.frames.complete, connection.taken
            if call is None:
                break
            if not isinstance(call, Call):
                yield type(call), call.ticket
                return
            assert connection.ticket is call.ticket
            ticket = call.ticket
            yield ticket, ticket.logged, ticket.fault, call.client, repr(call.request), call.frame
            yield response(serving, ticket)
            connection.skip_answer()


def response(serving: Router, ticket: Any) -> bytes:
    """Return the frame of a response to a request.

    Args:
        serving: the router.
        ticket: ticket of the request.
    """
    frame = None if serving.request_reader is None else serving.request_reader.response(ticket, b"body")
    return frame or pack_response(b"body", ticket.api_key, ticket.version, ticket.correlation_id)
