"""One client connection of a broker, without its socket: bytes in, calls out; replies in, bytes out."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kwire import LocalProtocolError, RemoteProtocolError, codec
from kwire.apikeys import ApiKey
from kwire.envelope import decode_request_header, pack_response
from kwire.frames import FrameBuffer
from mockbroker.base.effects import Call, Client, Reply, Ticket
from mockbroker.broker.router import Router, Served, UnsupportedVersion

BEFORE_ID, BEHIND_ID = slice(4), slice(8, None)  # API key and version, correlation id, the rest
NO_TAGS = b"\0"
PRODUCE = ApiKey.PRODUCE
UNASKED = "an answer without a request"
_size_at = struct.Struct(">h").unpack_from
_id_at = struct.Struct(">i").unpack_from
REPEATED = 512  # bytes of a request that may come again as it is, as heartbeats and the fetches of who waits do
UNCOUNTED = 64  # bytes of a response that is not held to the limit, as those of heartbeats
EXPLAINED = 8_192  # bytes of a malformed request that are read again to say what is wrong: it may take 25 ms
REQUEST_WEIGHT = 8 * 1024 * 1024  # bytes of memory (kwire.limits); a request that becomes more would hold up everybody


@dataclass(slots=True)
class _Known:
    """A request that was read. ``rest``: its bytes behind the correlation id."""

    rest: bytes
    api_key: int
    version: int
    client: Client
    request: Any


class ClientRequests:
    """The requests of one client connection.

    connection: a number of its own
    node, listener: where it came in
    host: the peer's address
    frames: what was received and not yet handled
    """

    def __init__(self, connection: int, node: int, host: str, router: Router, listener: str = "") -> None:
        self.connection = connection
        self.ticket: Ticket | None = None
        self.taken = 0  # requests given out so far
        self.node = node
        self._host = host
        self._listener = listener
        self._router = router
        self._client = Client(node, "", host, listener)
        self._name = b""  # of the client, as it stands in headers
        self._known: dict[bytes, _Known] = {}  # the last request of each API and version
        self.frames = FrameBuffer(router.broker.settings.socket_request_max_bytes)

    @property
    def buffered(self) -> int:
        """Bytes received and not yet handled."""
        return self.frames.held

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer."""
        self.frames.feed(data)

    def next_call(self) -> Call[Any] | None:
        """The next request; None if more bytes are needed or the one before is not answered.

        Raises: kwire.WireError for anything that a broker closes the connection for.
        """
        if self.ticket is not None or not self.frames.held or (frame := self.frames.next_frame()) is None:
            return None
        self.taken += 1
        known = self._known.get(frame[BEFORE_ID])
        if known is None or len(frame) > REPEATED or known.rest != frame[BEHIND_ID]:
            return self._read(frame)
        (correlation_id,) = _id_at(frame, 4)
        self.ticket = Ticket(self.connection, correlation_id, known.api_key, known.version)
        return Call(self.ticket, known.client, known.request, frame)

    def _read(self, frame: bytes) -> Call[Any]:
        served = self._router.served.get(frame[BEFORE_ID])
        if served is None:
            return self._not_served(frame)
        at = self._read_header(frame, served)
        api, version, client = served.api, served.version, self._client
        request, _ = codec.decode_at(api.request, frame, at, version, weight=REQUEST_WEIGHT, explained=EXPLAINED)
        if len(frame) <= REPEATED and api.key != PRODUCE:  # a Produce is never the same twice
            self._known[frame[BEFORE_ID]] = _Known(frame[BEHIND_ID], api.key, version, client, request)
        (correlation_id,) = _id_at(frame, 4)
        self.ticket = Ticket(self.connection, correlation_id, api.key, version)
        return Call(self.ticket, client, request, frame)

    def _read_header(self, frame: bytes, served: Served) -> int:
        """Where the body begins. A client has one name, so a header is mostly that of the request before."""
        at = 8 + len(self._name)
        if self._name and frame.startswith(self._name, 8):
            if not served.tagged:
                return at
            if frame[at : at + 1] == NO_TAGS:
                return at + 1
        _, header, at = decode_request_header(frame)
        (size,) = _size_at(frame, 8)
        self._name = frame[8 : 10 + max(size, 0)]
        self._client = Client(self.node, header.client_id or "", self._host, self._listener)
        return at

    def _not_served(self, frame: bytes) -> Call[Any]:
        api, header, _ = decode_request_header(frame)
        if api.key != ApiKey.API_VERSIONS:
            raise RemoteProtocolError(f"{api.name} v{header.request_api_version} is not served")
        self.ticket = Ticket(self.connection, header.correlation_id, api.key, 0)
        client = Client(self.node, header.client_id or "", self._host, self._listener)
        return Call(self.ticket, client, UnsupportedVersion(), frame)

    def answer(self, reply: Reply) -> bytes:
        """Bytes to send for the answer to the request last given out.

        Raises: kwire.WireError; ResponseTooLargeError.
        """
        if self.ticket is None:
            raise LocalProtocolError(UNASKED)
        self.ticket = None
        ticket, response = reply.ticket, reply.response
        if reply.encoded is None:
            body = codec.encode(response, ticket.version)
        elif (kept := reply.encoded.get(ticket.version)) is not None:
            body = kept
        else:
            body = reply.encoded[ticket.version] = codec.encode(response, ticket.version)
        if len(body) > UNCOUNTED:
            self._router.broker.response_room().reserve(len(body))
        return pack_response(body, response.__class__, ticket.version, ticket.correlation_id)

    def skip_answer(self) -> None:
        """The request last given out gets no answer."""
        if self.ticket is None:
            raise LocalProtocolError(UNASKED)
        self.ticket = None
