"""One client connection of a conversation: answers sorted by the step that asked, and when each came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from kwire import FrameBuffer, WireError

PARKS = frozenset({"JoinGroup", "SyncGroup"})  # may be held back until another connection speaks
SETTLE = 0.12  # seconds that these are given before that


@dataclass(slots=True)
class PlayedConnection:
    """``answers``: by the step that asked, with the times of ``now`` and the world; ``ids``: correlation id to step."""

    stream: trio.SocketStream
    now: Callable[[], float] = trio.current_time
    frames: FrameBuffer = field(default_factory=FrameBuffer)
    ids: dict[int, int] = field(default_factory=dict)
    answers: dict[int, tuple[bytes, float, float]] = field(default_factory=dict)
    unmatched: list[bytes] = field(default_factory=list)
    closed: bool = False
    changed: trio.Event = field(default_factory=trio.Event)

    async def listen(self) -> None:
        """Sort what comes by the request it answers."""
        try:
            async for data in self.stream:
                self.frames.feed(bytes(data))
                while (frame := self.frames.next_frame()) is not None:
                    number = int.from_bytes(frame[:4], "big", signed=True)
                    if len(frame) >= 4 and number in self.ids:  # a bare SASL token may be shorter
                        self.answers[self.ids.pop(number)] = frame, self.now(), trio.current_time()
                    else:
                        self.unmatched.append(frame)
                self._tell()
        except (trio.BrokenResourceError, trio.ClosedResourceError, WireError):
            pass
        self.closed = True
        self._tell()

    async def send(self, data: bytes) -> bool:
        """False if the connection is gone."""
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True

    async def wait(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``holds()``; False if it did not within that time."""
        with trio.move_on_after(seconds):
            while not holds():
                await self.changed.wait()
        return holds()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()
