"""One client connection of a conversation: matches responses to the requests and records their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from kwire import FrameBuffer, WireError

PARKS = frozenset({"JoinGroup", "SyncGroup"})  # their responses may wait for a request on another connection
SETTLE = 0.12  # seconds to wait for such a response before the next step


@dataclass(slots=True)
class PlayedConnection:
    """A client connection to the broker under test.

    Attributes:
        stream: the TCP connection.
        now: clock of the pace that the conversation is played in, seconds.
        frames: buffer of received bytes.
        ids: correlation id -> step number of the request.
        answers: step number of the request -> response frame, its time by ``now``, and its time by trio's clock.
        unmatched: frames that answer no request.
        closed: whether the broker closed the connection.
        changed: set and replaced with each received frame, and on close.
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
        """Receive frames until the connection is closed, and match them to the requests."""
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
        """Send bytes; return False if the connection is closed."""
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def wait(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``holds()`` is true; return False after ``seconds`` without that."""
        with trio.move_on_after(seconds):
            while not holds():
                await self.changed.wait()
        return holds()

    def _notify(self) -> None:
        self.changed.set()
        self.changed = trio.Event()
