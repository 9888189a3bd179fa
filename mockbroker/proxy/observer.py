"""The interface of observers of the proxy's traffic: recordings, the journal and the request log.

A subclass of ``Observer`` is passed to ``Proxy(observers=[...])``. Its methods are called in this order:

1. ``opened``, when a client's connection was accepted and the connection to the broker exists.
2. ``requested``, for each request, when its last byte has arrived and before that byte is sent to the broker.
3. ``answered``, for each response, when it is complete and before its last byte is sent to the client. Responses are in
   the order of the requests. ``Exchange`` has the request and the response, each as received and as forwarded.
4. ``closed``, when the connection has ended. Pending requests remain without a response.

The methods are called between two reads of a socket, so an observer must not do IO and must return quickly. An observer
that writes a file appends to a buffer, which a separate task writes. ``requested`` and ``answered`` of an observer that
decodes messages return a generator, which yields between slices (parts of limited size) of its work; other connections
are served in between. The last byte of the frame is forwarded after the end of the generator, and the following frames
of the same direction are observed after it.

A request of an API that has fault rules is observed when it arrives; ``forwarded`` is set when the request is sent to
the broker, before ``answered``. If a rule drops the response, ``answered`` is called with ``response`` None, or not at
all if the rule leaves the connection without a response.

``needs`` decides which requests an observer sees. The proxy collects the bytes of a frame only if an observer needs
them; other frames are forwarded in pieces, as they arrive. An observer with ``gets_bytes`` gets these pieces through
``passed`` (or receives the bytes of a large frame into its own memory: ``lend``), and only the other frames through
``requested`` and ``answered``. Secrets are hidden from observers: tokens, passwords and HMACs in frames are replaced
(``kwire.redact``), and SASL tokens without a header (after SaslHandshake v0) are left out. Frames have no length prefix
and can be passed to ``kwire.decode_request``.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from kwire.codec import decode_at
from kwire.envelope import decode_request, decode_request_in_slices, decode_response, decode_response_in_slices
from kwire.errors import WireError
from kwire.headers import RequestHeader, request_header_version
from kwire.lazy_dataclass import dataclass
from kwire.messages import APIS
from mockbroker.broker.redacted_frames import redacted_request, redacted_response
from mockbroker.proxy.addresses import Address

LARGE = 16_384  # bytes of a frame above which it is decoded in slices
SLICE = 1_000  # array elements of a slice
Steps: TypeAlias = Generator[None, None, None]  # work that yields between slices
REQUEST_HEAD = struct.Struct(">hhi")  # API key, version and correlation id of a request


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, such as the time at which bytes were received.

    Attributes:
        monotonic: seconds of a clock that never goes back.
        wall: seconds since 1970.
    """

    monotonic: float
    wall: float


NEVER = Moment(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Connection:
    """A client's connection, together with the connection to the broker to which the client's requests are forwarded.

    Attributes:
        number: number of the connection, from 1 on. A number is not reused.
        client: address of the client.
        node: id of the broker. -1 for a connection to the bootstrap listener of the proxy: its requests are forwarded
            to one of the addresses in ``--to``.
        broker: address of the broker in the real cluster.
        own: address of the proxy to which the client has connected.
    """

    number: int
    client: Address
    node: int
    broker: Address
    own: Address


@dataclass(slots=True, eq=False)
class Exchange:
    """A request with its response.

    Attributes:
        connection: the connection on which the client sent the request.
        api_key: API key of the request.
        version: API version of the request; it may be unknown to kwire.
        correlation_id: correlation id of the request and of the response.
        requested_at: time at which the last byte of the request arrived.
        request: the request as received from the client.
        forwarded: the request as forwarded to the broker; the same object as ``request`` if nothing was changed. None
            until the request is forwarded, and if a fault rule prevents this.
        answered_at: time at which the last byte of the response arrived, or at which a fault rule sent the response;
            None before that.
        answer: the response as received from the broker; None before it arrives, and if a fault rule made the response.
        response: the response as sent to the client; the same object as ``answer`` if nothing was changed. None if no
            response was sent.
        decoded: the decoded response of the broker, in which the broker addresses are replaced with those of the proxy;
            None if the response was not decoded.
        fault: name of the fault rule that was applied; "" for none.
        observers: the observers that see the exchange.
        byte_observers: the observers with ``gets_bytes`` that got the request through ``passed``, but get the response
            through ``answered``, because the response may be changed.
        is_collected: whether the response is collected before it is forwarded, because it may contain secrets.
        is_intercepted: whether the response is passed to the fault rules.
    """

    connection: Connection
    api_key: int
    version: int
    correlation_id: int
    requested_at: Moment = NEVER
    request: bytes = b""
    forwarded: bytes | None = None
    answered_at: Moment | None = None
    answer: bytes | None = None
    response: bytes | None = None
    decoded: Any = field(default=None, repr=False)
    fault: str = ""
    observers: tuple[Observer, ...] = field(default=(), repr=False)
    byte_observers: tuple[Observer, ...] = field(default=(), repr=False)
    is_collected: bool = field(default=False, repr=False)
    is_intercepted: bool = field(default=False, repr=False)

    @property
    def client_id(self) -> str | None:
        """The ``client.id`` in the header of the request; None if it is null or kwire cannot decode the header."""
        api = APIS.get(self.api_key)
        if api is None:
            return None
        try:
            return decode_at(RequestHeader, self.request, 0, request_header_version(api, self.version))[0].client_id
        except WireError:
            return None


class Observer:
    """The base class of observers. Its methods do nothing, and ``needs`` returns True for every request.

    Attributes:
        gets_bytes: True to get frames without secrets that are forwarded unchanged through ``passed``, not through
            ``requested`` and ``answered``. This costs less. ``needs`` is then not called.
    """

    gets_bytes = False

    def needs(self, api_key: int, version: int) -> bool:  # noqa: ARG002
        """Return whether this observer gets the requests and responses of an API in a version.

        Args:
            api_key: API key; it may be unknown to kwire.
            version: API version of the request.
        """
        return True

    def opened(self, connection: Connection, at: Moment) -> None:
        """Handle a new connection. ``at``: time at which the connection was accepted."""

    def requested(self, exchange: Exchange) -> Steps | None:
        """Handle a complete request, before its last byte is sent to the broker.

        Return None, or a generator that does the work in slices. The proxy drops the generator if the connection ends.
        """

    def answered(self, exchange: Exchange) -> Steps | None:
        """Handle a complete response, before its last byte is sent to the client.

        This method is not called for a request without a response, such as Produce with acks=0. Its result is that of
        ``requested``.

        ``exchange``: the same object as in the call of ``requested``.
        """

    def passed(self, connection: Connection, to_broker: bool, data: bytes, at: Moment, *, ends_frame: bool) -> None:
        """Handle bytes of frames that are forwarded unchanged, with their length prefixes.

        The calls for one direction, including those of ``requested`` or ``answered``, are made in the order in which
        the bytes are forwarded. The bytes of one frame may be divided among several calls.

        Args:
            connection: the connection.
            to_broker: True for bytes from the client, False for bytes from the broker.
            data: the bytes.
            at: time at which the bytes arrived.
            ends_frame: whether ``data`` ends with the last byte of a frame.
        """

    def lend(self, connection: Connection, to_broker: bool, size: int) -> Sequence[memoryview]:  # noqa: ARG002
        """Return memory for the next bytes of a frame that is forwarded unchanged. The result is empty if the observer
        has no memory for them; this is the default.

        After bytes are received into this memory, ``filled`` is called instead of ``passed``, so the observer need not
        copy the bytes. The memory is valid until another method of the observer is called.

        Args:
            connection: the connection.
            to_broker: True for bytes from the client, False for bytes from the broker.
            size: number of bytes of the frame that have not arrived.

        Returns:
            Parts of memory with ``size`` bytes or fewer. They are filled in this order.
        """
        return ()

    def filled(self, connection: Connection, to_broker: bool, size: int, at: Moment) -> None:
        """Handle bytes that were received into the memory from the preceding call of ``lend``.

        Args:
            connection: the argument of ``lend``.
            to_broker: the argument of ``lend``.
            size: number of received bytes.
            at: time at which the bytes arrived.
        """

    def closed(self, connection: Connection, at: Moment) -> None:
        """Handle the end of a connection. ``at``: time at which the connection ended."""


def decoded_request(frame: bytes) -> Generator[None, None, Any]:
    """Return the decoded body of a request; None if kwire cannot decode the request.

    The generator yields between slices of a large request.

    ``frame``: the request, without length prefix.
    """
    try:
        if len(frame) <= LARGE:
            return decode_request(frame).body
        yield  # the frame was copied in this slice
        return (yield from decode_request_in_slices(frame, SLICE)).body
    except WireError:
        return None


def decoded_response(frame: bytes, api_key: int, version: int) -> Generator[None, None, Any]:
    """Return the decoded body of a response; None if kwire cannot decode the response.

    The generator yields between slices of a large response.

    Args:
        frame: the response, without length prefix.
        api_key: API key of the request.
        version: API version of the request.
    """
    try:
        if len(frame) <= LARGE:
            return decode_response(frame, api_key, version).body
        yield  # the frame was copied in this slice
        return (yield from decode_response_in_slices(frame, api_key, version, SLICE)).body
    except WireError:
        return None


def unfinished(steps: Steps) -> Steps | None:
    """Do the first slice of some work. Return the remaining work; None if the work is done."""
    try:
        next(steps)
    except StopIteration:
        return None
    return steps


def notify_requested(exchange: Exchange, request: bytes, forwarded: bytes | None) -> Steps:
    """Store the frames of a complete request in its exchange, and report the request to the observers (``requested``).

    The generator yields between slices of the observers' work.

    Args:
        exchange: the exchange of the request.
        request: the frame from the client, without length prefix.
        forwarded: the frame for the broker, without length prefix; None if the broker gets no request.
    """
    exchange.request, _ = redacted_request(request, exchange.api_key)
    if forwarded is request or forwarded is None:
        exchange.forwarded = None if forwarded is None else exchange.request
    else:
        exchange.forwarded, _ = redacted_request(forwarded, exchange.api_key)
    for observer in exchange.observers:
        steps = observer.requested(exchange)
        if steps is not None:
            yield from steps


def notify_answered(exchange: Exchange, answer: bytes | None, response: bytes | None) -> Steps:
    """Store the frames of a complete response in its exchange, and report the response to the observers (``answered``).

    The generator yields between slices of the observers' work.

    Args:
        exchange: the exchange of the request.
        answer: the frame from the broker, without length prefix; None if the broker sent no response.
        response: the frame for the client, without length prefix; None if the client gets no response.
    """
    key, version = exchange.api_key, exchange.version
    exchange.answer = None if answer is None else redacted_response(answer, key, version)[0]
    if response is answer or response is None:
        exchange.response = None if response is None else exchange.answer
    else:
        exchange.response, _ = redacted_response(response, key, version)
    for observer in (*exchange.observers, *exchange.byte_observers):
        steps = observer.answered(exchange)
        if steps is not None:
            yield from steps
