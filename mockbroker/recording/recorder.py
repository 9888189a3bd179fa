"""The observers that collect the traffic of the proxy for a recording."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kwire.lazy_dataclass import dataclass
from mockbroker.proxy.observer import Connection, Exchange, Moment, Observer

MAX_WAITING = 64 * 1024 * 1024  # bytes that wait to be written
US = 1_000_000


@dataclass(slots=True)
class Opened:
    """A new connection.

    Attributes:
        connection: connection number.
        client: address of the client, ``host:port``.
        broker: address of the proxy to which the client has connected, ``host:port``. It represents the broker in the
            recording.
        time_us: time of the event, in microseconds since 1970.
    """

    connection: int
    client: str
    broker: str
    time_us: int


@dataclass(slots=True)
class Frame:
    """A frame without its length prefix, as the client sent or received it.

    Attributes:
        connection: connection number.
        to_broker: True for a request.
        frame: the bytes.
        time_us: time of the event, in microseconds since 1970.
        api_key: API key of the request.
        version: API version of the request.
    """

    connection: int
    to_broker: bool
    frame: bytes
    time_us: int
    api_key: int
    version: int


@dataclass(slots=True)
class Closed:
    """The end of a connection. ``connection``: connection number.

    ``time_us``: time of the event, in microseconds since 1970.
    """

    connection: int
    time_us: int


Event = Opened | Frame | Closed


class Recorder(Observer, ABC):
    """The base class of the observers of a recording.

    If a frame would exceed the limit MAX_WAITING of bytes that wait to be written, the recording of its connection
    ends. While the limit is exceeded, new connections are not recorded.

    Attributes:
        dropped: number of connections that were not recorded completely because too many bytes waited.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._recorded: set[int] = set()

    @property
    @abstractmethod
    def waiting(self) -> int:
        """The number of bytes that wait to be written."""

    @abstractmethod
    def add(self, event: Event) -> None:
        """Add an event to the recording. ``event``: the event."""

    def opened(self, connection: Connection, at: Moment) -> None:
        if not self._has_room(0):
            self.dropped += 1
            return
        self._recorded.add(connection.number)
        self.add(Opened(connection.number, str(connection.client), str(connection.own), us(at)))

    def requested(self, exchange: Exchange) -> None:
        self._frame(exchange, True, exchange.request, exchange.requested_at)

    def answered(self, exchange: Exchange) -> None:
        if exchange.response is not None and exchange.answered_at is not None:
            self._frame(exchange, False, exchange.response, exchange.answered_at)

    def closed(self, connection: Connection, at: Moment) -> None:
        if connection.number in self._recorded:
            self._recorded.discard(connection.number)
            self.add(Closed(connection.number, us(at)))

    def _frame(self, exchange: Exchange, to_broker: bool, frame: bytes, at: Moment) -> None:
        if self._accepts(exchange.connection, len(frame), at):
            number = exchange.connection.number
            self.add(Frame(number, to_broker, frame, us(at), exchange.api_key, exchange.version))

    def _has_room(self, size: int) -> bool:
        """Return whether more bytes may wait to be written. ``size``: number of these bytes."""
        return self.waiting + size <= MAX_WAITING

    def _accepts(self, connection: Connection, size: int, at: Moment) -> bool:
        """Return whether bytes of a connection can be recorded; False if the recording of the connection has ended.

        If too many bytes wait, end the recording of the connection.

        Args:
            connection: the connection.
            size: number of bytes.
            at: time at which the bytes arrived.
        """
        if connection.number not in self._recorded:
            return False
        if not self._has_room(size):
            self._drop(connection, at)
            return False
        return True

    def _drop(self, connection: Connection, at: Moment) -> None:
        """End the recording of a connection, because too many bytes wait.

        Args:
            connection: the connection.
            at: time of the bytes that are not recorded.
        """
        self.dropped += 1
        self.closed(connection, at)


def us(at: Moment) -> int:
    """Return a time in microseconds since 1970."""
    return int(at.wall * US)
