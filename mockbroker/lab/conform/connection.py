"""A client connection to the broker under test. It matches responses with requests, and records their arrival times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import trio

from kwire import FrameBuffer, WireError
from kwire.lazy_dataclass import dataclass

PARKS = frozenset({"JoinGroup", "SyncGroup"})  # APIs whose response may wait for a request on another connection
SETTLE = 0.12  # seconds to wait for a response to such a request before the next step


@dataclass(slots=True)
class PlayedConnection:
    """A client connection to the broker under test.

    Attributes:
        stream: the TCP connection.
        now: function that returns the time of the player's clock, seconds.
        frames: buffer of received bytes.
        ids: correlation id -> step number of the request.
        answers: step number of the request -> (response frame, arrival time by ``now``, arrival time by trio's clock);
            times are in seconds.
        unmatched: received frames without a matching request.
        closed: whether the connection is closed.
        changed: event that is set, and then replaced, when bytes arrive or the connection is closed.
    """

    stream: trio.SocketStream
    now: Callable[[], float] = trio.current_time
    frames: FrameBuffer = field(default_factory=FrameBuffer)
    ids: dict[int, int] = field(default_factory=dict)
    answers: dict[int, tuple[bytes, float, float]] = field(default_factory=dict)
    unmatched: list[bytes] = field(default_factory=list)
    closed: bool = False
    changed: trio.Event = field(default_factory=trio.Event)

    async def listen(self) -> None:
        """Receive frames and match them to the requests, until the connection is closed."""
        try:
            async for data in self.stream:
                self.frames.feed(bytes(data))
                while (frame := self.frames.next_frame()) is not None:
                    number = int.from_bytes(frame[:4], "big", signed=True)
                    if len(frame) >= 4 and number in self.ids:  # a bare SASL token may be shorter
                        self.answers[self.ids.pop(number)] = frame, self.now(), trio.current_time()
                    else:
                        self.unmatched.append(frame)
                self._notify()
        except (trio.BrokenResourceError, trio.ClosedResourceError, WireError):
            pass
        self.closed = True
        self._notify()

    async def send(self, data: bytes) -> bool:
        """Send ``data`` to the broker. Return True, or False if the connection is closed."""
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def wait(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``holds()`` returns True, for at most ``seconds``. Return the last result of ``holds()``."""
        with trio.move_on_after(seconds):
            while not holds():
                await self.changed.wait()
        return holds()

    def _notify(self) -> None:
        self.changed.set()
        self.changed = trio.Event()
