"""The observer that collects the traffic of the proxy for a recording."""

from __future__ import annotations

from collections.abc import Callable

from kwire.lazy_dataclass import dataclass
from mockbroker.proxy.observer import Connection, Exchange, Moment, Observer

MAX_WAITING = 64 * 1024 * 1024  # bytes of frames that wait to be written
MANY = 1024 * 1024  # bytes of frames that are written without delay, so that their memory is used again
OVERHEAD = 200  # bytes that an event without its frame takes, approximately
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
class Bytes:
    """Bytes of frames with their length prefixes.

    The first frame may be incomplete at its beginning. The last frame may be incomplete at its end, unless
    ``ends_frame`` is True.

    Attributes:
        connection: connection number.
        to_broker: True for bytes from the client.
        data: the bytes.
        time_us: time at which the bytes arrived, in microseconds since 1970.
        ends_frame: True if the last byte is the end of a frame.
    """

    connection: int
    to_broker: bool
    data: bytes
    time_us: int
    ends_frame: bool


@dataclass(slots=True)
class Closed:
    """The end of a connection. ``connection``: connection number.

    ``time_us``: time of the event, in microseconds since 1970.
    """

    connection: int
    time_us: int


Event = Opened | Frame | Bytes | Closed


class Recorder(Observer):
    """An observer that queues the events of a recording for the task that writes them.

    If a frame would exceed the limit MAX_WAITING of the queue, the recording of its connection ends.

    Args:
        arrived: function that is called with False when an event is added to the empty queue, and with True when the
            queue exceeds MANY bytes.
        gets_bytes: True to queue frames that are forwarded unchanged as events of class Bytes, which costs less CPU
            time. False to queue every frame as an event of class Frame.

    Attributes:
        dropped: number of connections whose recording ended because the queue was full.
    """

    def __init__(self, arrived: Callable[[bool], object], *, gets_bytes: bool = False) -> None:
        self.gets_bytes = gets_bytes
        self.dropped = 0
        self._arrived = arrived
        self._events: list[Event] = []
        self._waiting = 0
        self._recorded: set[int] = set()

    def opened(self, connection: Connection, at: Moment) -> None:
        self._recorded.add(connection.number)
        self._add(Opened(connection.number, str(connection.client), str(connection.own), _us(at)))

    def requested(self, exchange: Exchange) -> None:
        self._frame(exchange, True, exchange.request, exchange.requested_at)

    def answered(self, exchange: Exchange) -> None:
        if exchange.response is not None and exchange.answered_at is not None:
            self._frame(exchange, False, exchange.response, exchange.answered_at)

    def passed(self, connection: Connection, to_broker: bool, data: bytes, at: Moment, *, ends_frame: bool) -> None:
        if self._has_room(connection, len(data), at):
            self._add(Bytes(connection.number, to_broker, data, _us(at), ends_frame))

    def closed(self, connection: Connection, at: Moment) -> None:
        if connection.number in self._recorded:
            self._recorded.discard(connection.number)
            self._add(Closed(connection.number, _us(at)))

    def taken(self) -> list[Event]:
        """Return the queued events, and empty the queue."""
        events, self._events = self._events, []
        self._waiting = 0
        return events

    def _frame(self, exchange: Exchange, to_broker: bool, frame: bytes, at: Moment) -> None:
        if self._has_room(exchange.connection, len(frame), at):
            number = exchange.connection.number
            self._add(Frame(number, to_broker, frame, _us(at), exchange.api_key, exchange.version))

    def _has_room(self, connection: Connection, size: int, at: Moment) -> bool:
        """Return whether bytes of a connection can be added to the queue. If they can, count their size.

        If the queue is full, end the recording of the connection and return False.

        Args:
            connection: the connection.
            size: number of bytes.
            at: time at which the bytes arrived.
        """
        if connection.number not in self._recorded:
            return False
        if self._waiting + size > MAX_WAITING:
            self.dropped += 1
            self.closed(connection, at)
            return False
        had_many = self._waiting > MANY
        self._waiting += size + OVERHEAD
        if self._waiting > MANY and not had_many:
            self._arrived(True)
        return True

    def _add(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) == 1:
            self._arrived(False)


def _us(at: Moment) -> int:
    return int(at.wall * US)
