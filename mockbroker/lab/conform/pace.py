"""Clocks for playing a conversation: the manual clock of a mockbroker, or the wall clock.

A mockbroker's clock stops while the player or the machine is slow, so that the times of a conversation are the same on
a busy machine. Any other broker's clock continues; ``lateness`` then measures how late the player was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from mockbroker.api.clock import Clock
from mockbroker.lab.conform.connection import PlayedConnection

TICK = 0.01  # seconds between two checks for responses
MAX_ADVANCE = 0.05  # seconds that the clock advances at once while a response may be due
ROUNDING = 1e-6  # the clock has a resolution of a microsecond
PATIENCE = 60.0  # seconds to wait for a response of an external broker on a busy machine
TURNS = 4  # iterations of trio's loop, after which received bytes have been read
CHECK_INTERVAL = 0.02  # seconds between two measurements of the player's lateness


class Pace(Protocol):
    """The clock in which a conversation is played.

    Attributes:
        lateness: seconds by which the player was late at worst.
        judges: whether a response can be too late by this clock.
    """

    lateness: float
    judges: bool

    def now(self) -> float:
        """Return the current time in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait until this time has passed."""
        ...

    async def wait(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``holds()`` is true; return False after ``seconds`` without that (exact if ``judges``)."""
        ...

    async def watch(self) -> None:
        """Measure the lateness, until cancelled."""
        ...

    async def settle(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> None:
        """Give the broker time to handle a request whose response may be held: until ``holds()``, or ``seconds``."""
        ...


class LatenessWatch:
    """A monitor of trio's scheduling. ``lateness``: seconds by which a wake-up was late at worst."""

    def __init__(self) -> None:
        self.lateness = 0.0

    async def watch(self) -> None:
        """Measure how late wake-ups are, until cancelled."""
        while True:
            due = trio.current_time() + CHECK_INTERVAL
            await trio.sleep_until(due)
            self.lateness = max(self.lateness, trio.current_time() - due)


class ManualTime(LatenessWatch):
    """The manual clock of a mockbroker, which advances only while the player waits.

    Times of connections (SASL session lifetime, the wait of a Fetch) follow the wall clock here too.
    """

    judges = True

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def now(self) -> float:
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        until = self.now() + seconds
        while (remaining := until - self.now()) > ROUNDING:
            began = trio.current_time()
            await trio.sleep(min(TICK, remaining))
            await self._clock.advance(min(trio.current_time() - began, remaining))
        await self._read()

    async def wait(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> bool:
        until = self.now() + seconds
        await self._read()
        while not holds() and self.now() < until:
            began = trio.current_time()
            if not await connection.wait(holds, TICK):
                await self._clock.advance(min(trio.current_time() - began, MAX_ADVANCE))
                await self._read()
        return holds()

    async def settle(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> None:  # noqa: ARG002
        await self._read()
        if not holds():
            await self.sleep(seconds)

    async def _read(self) -> None:
        """Let the broker handle all sent requests, and read its responses."""
        await self._clock.advance(0)
        for _ in range(TURNS):
            await trio.lowlevel.checkpoint()


class WallTime(LatenessWatch):
    """The wall clock, for an external broker."""

    judges = False

    def now(self) -> float:
        return trio.current_time()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def wait(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> bool:
        return await connection.wait(holds, max(seconds, PATIENCE))

    async def settle(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> None:
        await connection.wait(holds, seconds)
