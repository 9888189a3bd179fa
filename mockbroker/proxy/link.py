"""The protocol logic of one proxied connection: which frames are forwarded unchanged, and which frames may be changed.

This module does no I/O. It reads only the beginning of most frames.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

from kwire.apikeys import ApiKey
from kwire.codec import decode_at
from kwire.engines.chosen import native_package
from kwire.envelope import produce_acks
from kwire.errors import RemoteProtocolError, WireError
from kwire.frames import PREFIX
from kwire.headers import RequestHeader, request_header_version
from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_FRAME
from kwire.messages import APIS
from mockbroker.broker.redacted_frames import may_have_secrets
from mockbroker.proxy.addresses import may_have_addresses
from mockbroker.proxy.changeable import Changeable
from mockbroker.proxy.frames import COPY, PASS, FrameSplitter, Whole
from mockbroker.proxy.observer import (
    NEVER,
    REQUEST_HEAD,
    Connection,
    Exchange,
    Moment,
    Observer,
    Steps,
    notify_answered,
    notify_requested,
    unfinished,
)

CORRELATION_ID = struct.Struct(">i")
HEAD_OF_REQUEST = struct.Struct(">II")  # length prefix, then API key and version as one number
HEAD_SIZE = PREFIX.size + REQUEST_HEAD.size
HEAD_OF_RESPONSE = struct.Struct(">I")  # length prefix
LENT_FROM = 16_384  # missing bytes of a frame from which they are received into the memory of an observer
MORE = 256  # bytes of a Produce request that are read next to find its acks, and then twice as many each time


def _number_of(api_key: int, version: int) -> int:
    """Return API key and version as one number, as ``HEAD_OF_REQUEST`` reads these two fields of a request header."""
    return api_key << 16 | version


HIGHEST_VERSION = 63  # no API has a higher one
INSPECTED = frozenset(  # APIs and versions whose request decides whether there is a response, or how it is processed
    _number_of(key, version)
    for key, api in APIS.items()
    for version in range(HIGHEST_VERSION + 1)
    if version in api.versions
    if key == ApiKey.PRODUCE or may_have_addresses(key, version)
) | {_number_of(ApiKey.SASL_HANDSHAKE, 0)}
INSPECTED_FOR_SECRETS = INSPECTED | frozenset(
    _number_of(key, version) for key in APIS if may_have_secrets(key) for version in range(HIGHEST_VERSION + 1)
)
TOKEN = -1  # API key of the exchange of a SASL token without a header


@dataclass(frozen=True, slots=True)
class Intercepted:
    """A request that must be passed to the fault rules.

    Attributes:
        frame: the request, with its length prefix.
        exchange: the exchange that observers get for the request.
    """

    frame: bytes
    exchange: Exchange


Intercepts: TypeAlias = Callable[[int, int], bool]


def never(key: int, version: int) -> bool:  # noqa: ARG001
    """Return False, so that no request is passed to fault rules. This is the default of the argument ``intercepts`` of
    Link.

    Args:
        key: API key; not used.
        version: API version; not used.
    """
    return False


@cache
def native_frames(inspected: frozenset[int]) -> Any:
    """Return the native search for frames that are not inspected; None if the native engine is not the default engine.

    ``inspected``: API keys and versions of the inspected requests, each as one number.
    """
    native = native_package()
    return None if native is None else native.Frames(inspected, REQUEST_HEAD.size, MAX_FRAME)


class Link:
    """The protocol side of one proxied connection.

    A Kafka broker responds to the requests of a connection in order. The next response therefore belongs to the oldest
    pending request. A request whose response is forwarded unchanged is only counted, not stored.

    Args:
        connection: the client's connection and the connection to the broker.
        observers: the observers of the traffic.
        intercepts: function that returns whether requests of an API key and version are passed to the fault rules.

    Attributes:
        pending: number of requests whose response has not arrived.
    """

    def __init__(
        self, connection: Connection, observers: Sequence[Observer] = (), intercepts: Intercepts = never
    ) -> None:
        self._connection = connection
        self._intercepts = intercepts
        self._observers = tuple(each for each in observers if not each.gets_bytes)
        self._byte_observers = tuple(each for each in observers if each.gets_bytes)
        self._inspected = INSPECTED_FOR_SECRETS if self._byte_observers else INSPECTED
        self._frames = native_frames(self._inspected)
        self._expected = 0  # number of responses to requests since the connection began
        self._arrived = 0  # of these, those that have begun to arrive
        self._noted: deque[tuple[int, Exchange]] = deque()  # responses to process, each with its index
        self._skips = not self._observers and intercepts is never
        self._arriving: Exchange | None = None  # the exchange whose request is copied
        self._answered: Exchange | None = None  # the exchange whose response is copied
        self._at = NEVER
        self._requests_observed: deque[Steps] = deque()  # the remaining work of the observers, in order
        self._responses_observed: deque[Steps] = deque()
        self._expects_tokens = False  # after SaslHandshake v0, until a request
        self._requests = FrameSplitter(
            REQUEST_HEAD.size, self._inspect_request, self._request_copied, self._skip_requests
        )
        self._responses = FrameSplitter(
            CORRELATION_ID.size, self._inspect_response, self._response_copied, self._skip_responses
        )

    @property
    def pending(self) -> int:
        return self._expected - self._arrived

    @property
    def is_within_response(self) -> bool:
        """Whether the beginning of a response was yielded, but not its end."""
        return not self._responses.is_between_frames

    def requests(self, data: bytes, at: Moment = NEVER) -> Iterator[bytes | Intercepted | Steps]:
        """Process bytes from the client. Yield, in order, bytes to send to the broker, requests to pass to the fault
        rules, and generators, each of which the caller must run to its end before it continues.

        Args:
            data: the received bytes.
            at: time at which the bytes were received.

        Raises:
            WireError: The size of a frame is not valid.
        """
        self._at = at
        for part in self._requests.feed(data):
            yield from _drained(self._requests_observed)
            if isinstance(part, Whole):
                exchange, self._arriving = self._arriving, None
                assert exchange is not None
                exchange.requested_at = at
                if not exchange.is_collected:
                    yield Intercepted(part.frame, exchange)
                    continue
                self._note(exchange)
                if exchange.observers:
                    frame = part.frame[PREFIX.size :]
                    yield notify_requested(exchange, frame, frame)
                yield part.frame
            else:
                for observer in self._byte_observers:
                    observer.passed(self._connection, True, part, at, ends_frame=self._requests.is_between_frames)
                yield part

    def expect(self, exchange: Exchange, *, is_intercepted: bool) -> None:
        """Record that a request is sent to the broker after the fault rules have processed it. The request must have a
        response.

        Args:
            exchange: the exchange of the request.
            is_intercepted: True if ``responses`` must yield the whole response as a Changeable, for the fault rules.
        """
        exchange.is_intercepted = is_intercepted
        exchange.is_collected = bool(self._byte_observers) and not is_intercepted
        self._note(exchange)

    def responses(self, data: bytes, at: Moment = NEVER) -> Iterator[bytes | Changeable | Steps]:
        """Process bytes from the broker. Yield, in order, bytes to send to the client, responses that may be changed,
        and generators, each of which the caller must run to its end before it continues.

        A response may be changed if it can contain addresses or its request was passed to the fault rules.

        Args:
            data: the received bytes.
            at: time at which the bytes were received.

        Raises:
            WireError: The size of a frame is not valid, or a response belongs to no request.
        """
        self._at = at
        for part in self._responses.feed(data):
            yield from _drained(self._responses_observed)
            if isinstance(part, Whole):
                self._arrived += 1
                _, exchange = self._noted.popleft()
                exchange.answered_at = at
                if not exchange.is_collected or _may_be_changed(exchange.api_key, exchange.version):
                    yield Changeable(part.frame, exchange)
                    continue
                if exchange.observers:
                    frame = part.frame[PREFIX.size :]
                    yield notify_answered(exchange, frame, frame)
                yield part.frame
            else:
                for observer in self._byte_observers:
                    observer.passed(self._connection, False, part, at, ends_frame=self._responses.is_between_frames)
                yield part

    def recorded(self, to_broker: bool) -> int:
        """Return the number of bytes of a large frame that have not arrived, if they are forwarded unchanged and only
        one observer gets them; 0 otherwise.

        ``to_broker``: True for bytes from the client, False for bytes from the broker.
        """
        size = (self._requests if to_broker else self._responses).passing
        return size if size >= LENT_FROM and len(self._byte_observers) == 1 else 0

    def lend(self, to_broker: bool, size: int) -> Sequence[memoryview]:
        """Return memory of an observer for the next bytes of a large frame that is forwarded unchanged. The result is
        empty if the observer has no memory for them.

        After receiving bytes into this memory, call ``filled`` before anything else happens on any connection.

        Args:
            to_broker: True for bytes from the client, False for bytes from the broker.
            size: maximum number of bytes, at most ``recorded``.
        """
        return self._byte_observers[0].lend(self._connection, to_broker, size)

    def forwarded(self, to_broker: bool, data: bytes, at: Moment) -> None:
        """Process bytes of a large frame that the caller forwards. They are not passed to ``requests`` or
        ``responses``.

        Args:
            to_broker: True for bytes from the client, False for bytes from the broker.
            data: the bytes, at most ``recorded``.
            at: time at which the bytes were received.
        """
        splitter = self._requests if to_broker else self._responses
        splitter.skip(len(data))
        self._byte_observers[0].passed(self._connection, to_broker, data, at, ends_frame=splitter.is_between_frames)

    def filled(self, to_broker: bool, size: int, at: Moment) -> None:
        """Process bytes that were received into the memory from ``lend``. The caller forwards them.

        Args:
            to_broker: True for bytes from the client, False for bytes from the broker.
            size: number of bytes.
            at: time at which the bytes were received.
        """
        (self._requests if to_broker else self._responses).skip(size)
        self._byte_observers[0].filled(self._connection, to_broker, size, at)

    def _note(self, exchange: Exchange) -> None:
        self._noted.append((self._expected, exchange))
        self._expected += 1

    def _skip_requests(self, data: bytes, at: int) -> int:
        """Return the offset of the next request that must be inspected, and count the requests before this offset.

        Args:
            data: bytes from the client.
            at: offset at which a request begins.
        """
        if not self._skips or self._expects_tokens:
            return at
        if self._frames is not None and data.__class__ is bytes:
            at, count = self._frames.requests(data, at)
            self._expected += count
            return at
        last, read, count = len(data) - HEAD_SIZE, HEAD_OF_REQUEST.unpack_from, 0
        inspected = self._inspected
        while at <= last:
            size, api = read(data, at)
            if api in inspected or not REQUEST_HEAD.size <= size <= MAX_FRAME:
                break
            at += size + 4
            count += 1
        self._expected += count
        return at

    def _skip_responses(self, data: bytes, at: int) -> int:
        """Return the offset of the next response that must be processed, and count the responses before this offset.

        Args:
            data: bytes from the broker.
            at: offset at which a response begins.
        """
        arrived = self._arrived
        following = self._noted[0][0] if self._noted else self._expected
        if self._frames is not None and data.__class__ is bytes:
            at, count = self._frames.responses(data, at, following - arrived)
            self._arrived += count
            return at
        last, read = len(data) - HEAD_OF_RESPONSE.size, HEAD_OF_RESPONSE.unpack_from
        while at <= last and arrived < following:
            (size,) = read(data, at)
            if size > MAX_FRAME:
                break
            at += size + 4
            arrived += 1
        self._arrived = arrived
        return at

    def _inspect_request(self, head: bytes, size: int) -> int:
        if self._expects_tokens and not _is_request(head):
            if not self._byte_observers:
                self._expected += 1
                return PASS
            self._arriving = Exchange(self._connection, TOKEN, 0, 0, is_collected=True)  # without observers
            return size
        if len(head) < PREFIX.size + REQUEST_HEAD.size:
            raise RemoteProtocolError(f"a request of {size - PREFIX.size} bytes is too short for a header")
        key, version, correlation_id = REQUEST_HEAD.unpack_from(head, PREFIX.size)
        self._expects_tokens = key == ApiKey.SASL_HANDSHAKE and version == 0
        is_answered, intercepted = True, self._intercepts(key, version)
        if key == ApiKey.PRODUCE and not intercepted:
            acks = _acks(head, version)
            if acks is None and len(head) < size - 1 and version in APIS[key].versions:
                return min(max(len(head) + MORE, 2 * len(head)), size - 1)
            is_answered = acks != 0
        observers = tuple(each for each in self._observers if each.needs(key, version))
        is_secret = bool(self._byte_observers) and may_have_secrets(key)
        if not (observers or intercepted or is_secret or _may_be_changed(key, version)):
            self._expected += is_answered
            return PASS
        exchange = Exchange(self._connection, key, version, correlation_id, observers=observers)
        if intercepted or is_secret:
            exchange.observers = (*observers, *self._byte_observers)
        elif _may_be_changed(key, version):
            exchange.byte_observers = self._byte_observers
        if is_secret and not intercepted:
            exchange.is_collected = True
        if intercepted or is_secret:
            self._arriving = exchange
            return size
        if is_answered:
            self._note(exchange)
        if not observers:
            return PASS
        self._arriving = exchange
        return COPY

    def _request_copied(self, frame: bytes) -> None:
        exchange, self._arriving = self._arriving, None
        assert exchange is not None
        exchange.requested_at = self._at
        _begin(notify_requested(exchange, frame, frame), self._requests_observed)

    def _inspect_response(self, head: bytes, size: int) -> int:  # noqa: ARG002
        if self._arrived == self._expected:
            raise RemoteProtocolError("the broker sent a response without a request")
        if not self._noted or self._noted[0][0] > self._arrived:
            self._arrived += 1
            return PASS
        request = self._noted[0][1]
        if request.is_intercepted or request.is_collected or _may_be_changed(request.api_key, request.version):
            return size
        self._arrived += 1
        self._noted.popleft()
        if not request.observers:
            return PASS
        self._answered = request
        return COPY

    def _response_copied(self, frame: bytes) -> None:
        exchange, self._answered = self._answered, None
        assert exchange is not None
        exchange.answered_at = self._at
        _begin(notify_answered(exchange, frame, frame), self._responses_observed)


def _begin(steps: Steps, pending: deque[Steps]) -> None:
    """Do the first slice of some work, and append the remaining work to the pending work. If there is pending work, do
    nothing before it.
    """
    rest = steps if pending else unfinished(steps)
    if rest is not None:
        pending.append(rest)


def _drained(pending: deque[Steps]) -> Iterator[Steps]:
    """Yield the pending work, oldest first, and remove it."""
    while pending:
        yield pending.popleft()


def _may_be_changed(api_key: int, version: int) -> bool:
    """Return whether responses of an API version can contain broker addresses, and kwire can decode them."""
    return may_have_addresses(api_key, version) and version in APIS[api_key].versions


def _is_request(head: bytes) -> bool:
    """Return whether a frame after SaslHandshake v0 is a Kafka request; False for a SASL token without a request
    header.

    The first bytes of a token differ from an API key and version: PLAIN begins with a null byte and text, SCRAM and
    OAUTHBEARER with text, GSSAPI with 0x60 or a token id.

    ``head``: the beginning of the frame, with its length prefix.
    """
    if len(head) < PREFIX.size + REQUEST_HEAD.size:
        return False
    key, version, _ = REQUEST_HEAD.unpack_from(head, PREFIX.size)
    return key in APIS and version in APIS[key].versions


def _acks(head: bytes, version: int) -> int | None:
    """Return the field ``acks`` of a Produce request.

    Args:
        head: the beginning of the frame, with its length prefix.
        version: API version of the request.

    Returns:
        The value of ``acks``; None if kwire does not know the version, or if the bytes of the field have not arrived.
    """
    api = APIS[ApiKey.PRODUCE]
    if version not in api.versions:
        return None
    try:
        _, at = decode_at(RequestHeader, head, PREFIX.size, request_header_version(api, version))
    except WireError:
        return None
    return produce_acks(head, at, version)
