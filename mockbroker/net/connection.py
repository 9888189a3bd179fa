"""The protocol side of one client connection, without its socket: requests are parsed and responses are encoded."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any

from kwire import LocalProtocolError, RemoteProtocolError, codec
from kwire.apikeys import ApiKey
from kwire.envelope import decode_request_header, pack_response
from kwire.frames import FrameBuffer
from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Call, Client, Reply, Ticket
from mockbroker.broker.request_reader import REPEATED
from mockbroker.broker.router import Router, Served, UnsupportedVersion
from mockbroker.security.identity import UNKNOWN, Identity

BEFORE_ID, AFTER_ID = slice(4), slice(8, None)  # bytes of a frame before and after the correlation id
NO_TAGS = b"\0"
PRODUCE = ApiKey.PRODUCE
NO_REQUEST = "a response without a pending request"
_size_at = struct.Struct(">h").unpack_from
_id_at = struct.Struct(">i").unpack_from
UNCOUNTED = 64  # maximum bytes of a response that is not checked against the response limit, as of a heartbeat
EXPLAINED = 8_192  # maximum bytes of a malformed request that is parsed again to explain the error, in up to 25 ms
LARGE_REQUEST = 65_536  # bytes; a larger request is decoded in steps
LARGE_PRODUCE = 4 << 20  # the same for Produce, which has few elements


@dataclass(frozen=True, slots=True)
class Undecoded:
    """A received request that is decoded in several parts, because its frame is large.

    Attributes:
        ticket: Identity of the request, by which the response finds its connection.
        steps: Generator that decodes the request and yields between the parts, so that other connections are served. It
            returns the request, or raises WireError if the request is malformed.
    """

    ticket: Ticket
    steps: Generator[None, None, Call[Any]]


@dataclass(slots=True)
class _Parsed:
    """The decoded form of the last request of a connection, to recognize an identical request.

    A client that repeats a request, such as Heartbeat, sends the same bytes except for the correlation id. The repeated
    request need not be decoded again.

    Attributes:
        rest: Bytes of the frame after the correlation id.
        api_key: API key of the request.
        version: API version of the request.
        client: The client that sent the request.
        request: The decoded message.
    """

    rest: bytes
    api_key: int
    version: int
    client: Client
    request: Any


class ClientRequests:
    """The protocol side of one client connection: received bytes are decoded to requests, and responses are encoded.

    Args:
        connection: number of the connection.
        node: id of the broker that accepted the connection.
        host: address of the client with a leading slash, such as ``/127.0.0.1``, as Kafka shows it.
        router: the router. Its broker has the size limits of requests and the served versions of each API.
        listener: name of the listener that accepted the connection.

    Attributes:
        ticket: ticket of the pending request; None if no request is pending.
        taken: number of requests that ``next_call`` has returned so far.
        frames: buffer of the received bytes of requests that ``next_call`` has not returned yet.
    """

    def __init__(self, connection: int, node: int, host: str, router: Router, listener: str = "") -> None:
        self.connection = connection
        self.ticket: Ticket | None = None
        self.taken = 0
        self.node = node
        self._host = host
        self._listener = listener
        self._router = router
        self._client = Client(node, "", host, listener)
        self._name = b""  # the client id, as encoded in request headers
        self._parsed: dict[bytes, _Parsed] = {}  # the last request of each API and version
        self._recent: dict[int, tuple[bytes, Any]] = {}  # the same for the native reader of requests
        self.frames = FrameBuffer(router.broker.settings.socket_request_max_bytes)

    @property
    def client(self) -> Client:
        """The sender of the last request; its client id is "" before the first request.

        The property returns the same object until the client id or the principal changes.
        """
        return self._client

    @property
    def identity(self) -> Identity:
        """The identity of the client: its principal, and whether requests about delegation tokens are allowed."""
        return UNKNOWN

    @property
    def principal(self) -> str:
        """The principal of the client; ``User:ANONYMOUS`` without authentication."""
        return self.identity.principal

    @property
    def buffered(self) -> int:
        """The number of received bytes whose requests ``next_call`` has not returned yet."""
        return self.frames.held

    def renew_client(self) -> None:
        """Forget the current client id, because the principal of the client has changed. ``client`` returns a new
        object after the next request.
        """
        self._name = b""
        self._parsed.clear()
        self._recent.clear()

    def receive(self, data: bytes) -> None:
        """Append bytes from the client to the buffer ``frames``."""
        self.frames.feed(data)

    def next_call(self) -> Call[Any] | Undecoded | None:
        """Return the next request; None if more bytes are needed or a request is pending.

        The returned request is pending until ``answer`` or ``skip_answer`` is called. A large request is returned as
        ``Undecoded``; the caller decodes the request by running the generator ``Undecoded.steps``.

        Raises:
            kwire.WireError: The request is malformed, or its API version is not served. The caller must close the
                connection.
        """
        if self.ticket is not None or not self.frames.held:
            return None
        reader = self._router.request_reader
        if reader is not None:
            call = reader.next(self.frames, self._name, self._client, self.connection, self._recent)
            if call is not None:
                self.taken += 1
                self.ticket = call.ticket
                return call
        frame = self.frames.next_frame()
        if frame is None:
            return None
        self.taken += 1
        parsed = self._parsed.get(frame[BEFORE_ID])
        if parsed is None or len(frame) > REPEATED or parsed.rest != frame[AFTER_ID]:
            return self._read(frame)
        (correlation_id,) = _id_at(frame, 4)
        self.ticket = Ticket(self.connection, correlation_id, parsed.api_key, parsed.version)
        return Call(self.ticket, parsed.client, parsed.request, frame)

    def _read(self, frame: bytes) -> Call[Any] | Undecoded:
        served = self._router.served[frame[BEFORE_ID]]
        if served is None:
            return self._not_served(frame)
        at = self._read_header(frame, served)
        api, version, client = served.api, served.version, self._client
        broker = self._router.broker
        weight = broker.settings.mockbroker_request_max_memory_bytes
        if len(frame) > LARGE_REQUEST and (api.key != PRODUCE or len(frame) > LARGE_PRODUCE):
            (correlation_id,) = _id_at(frame, 4)
            self.ticket = Ticket(self.connection, correlation_id, api.key, version)
            return Undecoded(self.ticket, self._decode(frame, at, self.ticket, api.request))
        request, _ = codec.decode_at(api.request, frame, at, version, weight=weight, explained=EXPLAINED)
        if len(frame) <= REPEATED and api.key != PRODUCE:  # a Produce is never repeated byte for byte
            self._parsed[frame[BEFORE_ID]] = _Parsed(frame[AFTER_ID], api.key, version, client, request)
        (correlation_id,) = _id_at(frame, 4)
        self.ticket = Ticket(self.connection, correlation_id, api.key, version)
        return Call(self.ticket, client, request, frame)

    def _decode(self, frame: bytes, at: int, ticket: Ticket, message: type[Any]) -> Generator[None, None, Call[Any]]:
        """Decode a large request, and return the decoded request.

        Yield between the parts, so that other connections are served.

        Args:
            frame: the frame of the request.
            at: byte offset in the frame at which the body of the request begins.
            ticket: identity of the request, by which the response finds its connection.
            message: class of the request, from ``kwire.messages``.

        Raises:
            kwire.WireError: The request is malformed.
        """
        broker, client = self._router.broker, self._client
        weight = broker.settings.mockbroker_request_max_memory_bytes
        request, _ = yield from codec.decode_in_slices(
            message, frame, at, ticket.version, broker.slice_size, weight=weight, explained=EXPLAINED
        )
        return Call(ticket, client, request, frame)

    def _read_header(self, frame: bytes, served: Served) -> int:
        """Return the byte offset of the request body, and set the sender of the request if the client id has changed.

        The header is parsed only if the client id has changed or the header has tagged fields.

        Args:
            frame: The frame of the request.
            served: The API of the request, with the versions that the broker serves.
        """
        at = 8 + len(self._name)
        if self._name and frame.startswith(self._name, 8):
            if not served.flexible_header:
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
            raise RemoteProtocolError(
                f"{api.name} v{header.request_api_version} is not in the ApiVersions "
                "response of this broker: use a supported version"
            )
        self.ticket = Ticket(self.connection, header.correlation_id, api.key, 0)
        client = Client(self.node, header.client_id or "", self._host, self._listener)
        return Call(self.ticket, client, UnsupportedVersion(), frame)

    def answer(self, reply: Reply) -> bytes:
        """End the pending request, and return the encoded response.

        The result is the complete frame: length prefix, header and body. If a fault rule has changed the frame, the
        result is the changed frame.

        Raises:
            LocalProtocolError: No request is pending.
            kwire.WireError: The response cannot be encoded.
            ResponseTooLargeError: The response exceeds ``mockbroker.response.max.bytes``.
        """
        if self.ticket is None:
            raise LocalProtocolError(NO_REQUEST)
        self.ticket = None
        ticket, encoded = reply.ticket, reply.encoded
        if encoded is None:
            body = codec.encode(reply.response, ticket.version)
        elif (kept := encoded.get(ticket.version)) is not None:
            body = kept
        else:
            body = encoded[ticket.version] = codec.encode(reply.response, ticket.version)
        size = len(body)
        if size > UNCOUNTED and size > self._router.broker.settings.mockbroker_response_max_bytes:
            self._router.broker.response_room().reserve(size)
        reader = self._router.request_reader
        frame = None if reader is None else reader.response(ticket, body)
        if frame is None:
            frame = pack_response(body, ticket.api_key, ticket.version, ticket.correlation_id)
        if ticket.logged:
            self._router.requests.record_response(ticket, frame)
        delivery = reply.delivery
        return frame if delivery is None or delivery.frame is None else delivery.frame

    def skip_answer(self) -> None:
        """End the pending request without a response, as for a Produce with acks=0.

        Raises:
            LocalProtocolError: No request is pending.
        """
        if self.ticket is None:
            raise LocalProtocolError(NO_REQUEST)
        self.ticket = None
