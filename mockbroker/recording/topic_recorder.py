"""The recorder of a topic: an observer that collects the traffic for a thread that makes record batches of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kwire.frames import PREFIX
from kwire.lazy_dataclass import dataclass
from mockbroker.proxy.observer import Connection, Moment
from mockbroker.recording.alignment import FrameAligner
from mockbroker.recording.chunks import MAX_INCOMPLETE
from mockbroker.recording.recorder import Closed, Event, Frame, Opened, Recorder, us

TOGETHER = 512 * 1024  # bytes of frames that are passed on at once; fewer if no more arrive
OVERHEAD = 400  # bytes of memory that the frames of one read take in addition to their own bytes, at most


@dataclass(slots=True)
class Frames:
    """Frames of one connection with the same direction and time.

    Attributes:
        connection: connection number.
        to_broker: True for requests, False for responses.
        data: complete frames with their length prefixes, divided into buffers. A frame may begin or end anywhere in a
            buffer.
        time_us: time of the frames, in microseconds since 1970.
        api: API key and version, if there is only one frame and they are known; None if they are taken from the
            requests.
    """

    connection: int
    to_broker: bool
    data: Sequence[bytes]
    time_us: int
    api: tuple[int, int] | None = None


TopicEvent = Opened | Frames | Closed


@dataclass(slots=True)
class Collected:
    """Events in the order in which they happened. ``size``: bytes of memory that they take, roughly."""

    events: list[TopicEvent]
    size: int


class TopicRecorder(Recorder):
    """An observer that collects frames, and passes them on to be written.

    The recording of a connection also ends if the incomplete frames of all connections would exceed the limit
    MAX_INCOMPLETE.

    Args:
        arrived: function that is called with the first event after events were passed on.
        put: function that gets the events to write. When they are written or lost, ``release`` must be called.
    """

    gets_bytes = True

    def __init__(self, arrived: Callable[[], object], put: Callable[[Collected], object]) -> None:
        super().__init__()
        self._arrived = arrived
        self._put = put
        self._aligner = FrameAligner()
        self._events: list[TopicEvent] = []
        self._size = 0
        self._passed_on = 0  # bytes of all events that were put
        self._written = 0  # of these, the bytes that were written; only ``release`` changes it, in another thread

    @property
    def waiting(self) -> int:
        return self._passed_on - self._written + self._size

    def add(self, event: Event) -> None:
        match event:
            case Frame():
                data = (PREFIX.pack(len(event.frame)), event.frame)
                api = event.api_key, event.version
                frames = Frames(event.connection, event.to_broker, data, event.time_us, api)
                self._append(frames, len(event.frame))
            case Opened():
                self._append(event, 0)
            case Closed():
                self._aligner.forget(event.connection)
                self._append(event, 0)

    def passed(self, connection: Connection, to_broker: bool, data: bytes, at: Moment, *, ends_frame: bool) -> None:
        if not self._accepts(connection, len(data), at):
            return
        frames = self._aligner.complete(connection.number, to_broker, data, ends_frame=ends_frame)
        if self._aligner.size > MAX_INCOMPLETE:
            self._drop(connection, at)
        elif frames:
            self._append(Frames(connection.number, to_broker, frames, us(at)), sum(map(len, frames)))

    def flush(self) -> None:
        """Pass the collected events on to be written, if there are any."""
        if self._events:
            collected = Collected(self._events, self._size)
            self._events, self._size = [], 0
            self._passed_on += collected.size
            self._put(collected)

    def release(self, collected: Collected) -> None:
        """Make room for other events. This method may be called in another thread.

        ``collected``: events that were written or lost.
        """
        self._written += collected.size

    def _append(self, event: TopicEvent, size: int) -> None:
        """Add an event to the collected ones, and pass them on if they are many.

        Args:
            event: the event.
            size: number of its bytes.
        """
        if not self._events:
            self._arrived()
        self._events.append(event)
        self._size += size + OVERHEAD
        if self._size >= TOGETHER:
            self.flush()
