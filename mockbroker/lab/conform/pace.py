"""The time in which a conversation is played: that of a broker of our own, which waits for us, or that of the world.

Our own broker's clock stands while the player or the machine is slow, so a conversation is played with the same times
on a busy machine. Any other broker's clock runs on; then ``behind`` is how late the player was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from mockbroker.api.clock import Clock
from mockbroker.lab.conform.connection import PlayedConnection

TICK = 0.01  # seconds between two looks at what was answered
MOST = 0.05  # seconds that pass at once while an answer may be due
ROUNDING = 1e-6  # of a clock that is read to the microsecond
PATIENCE = 60.0  # seconds for an answer of a broker that is not ours; a busy machine needs some
TURNS = 4  # of trio's loop, in which what lies in a socket is read
LOOK = 0.02  # seconds between two looks at how late the player is


class Pace(Protocol):
    """``behind``: seconds by which the player was late at worst; ``judges``: whether an answer can be too late."""

    behind: float
    judges: bool

    def now(self) -> float:
        """Seconds, of the broker's time if it can be had."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...

    async def wait(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``holds()``; False if it did not within that time. Where answers are judged, that is exact."""
        ...

    async def watch(self) -> None: ...

    async def settle(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> None:
        """Let a request be handled that may be parked: until ``holds()``, or that time has passed."""
        ...


class Watch:
    """Keeps ``behind``."""

    def __init__(self) -> None:
        self.behind = 0.0

    async def watch(self) -> None:
        """Look again and again how late the player is, until cancelled."""
        while True:
            due = trio.current_time() + LOOK
            await trio.sleep_until(due)
            self.behind = max(self.behind, trio.current_time() - due)


class OwnTime(Watch):
    """The time of a broker of our own, which passes while we wait and stands while we do anything else.

    Time of connections, as the lifetime of a SASL session and the wait of a parked Fetch, is the world's here too.
    """

    judges = True

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def now(self) -> float:
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        until = self.now() + seconds
        while (left := until - self.now()) > ROUNDING:
            began = trio.current_time()
            await trio.sleep(min(TICK, left))
            await self._clock.advance(min(trio.current_time() - began, left))
        await self._read()

    async def wait(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> bool:
        until = self.now() + seconds
        await self._read()
        while not holds() and self.now() < until:
            began = trio.current_time()
            if not await connection.wait(holds, TICK):
                await self._clock.advance(min(trio.current_time() - began, MOST))
                await self._read()
        return holds()

    async def settle(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> None:  # noqa: ARG002
        await self._read()
        if not holds():
            await self.sleep(seconds)

    async def _read(self) -> None:
        """Have what was sent handled, and what was answered read."""
        await self._clock.advance(0)
        for _ in range(TURNS):
            await trio.lowlevel.checkpoint()


class WorldTime(Watch):
    """The time of the world, for a broker that has no other."""

    judges = False

    def now(self) -> float:
        return trio.current_time()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def wait(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> bool:
        return await connection.wait(holds, max(seconds, PATIENCE))

    async def settle(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> None:
        await connection.wait(holds, seconds)
