"""The clocks by which a conversation is played: the manual clock of a mockbroker, or the wall clock for an external
broker.

The manual clock stops while the player or the machine is slow. Therefore the times of a conversation do not depend on
the load of the machine. With the wall clock, ``lateness`` measures the player's delay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import trio

from mockbroker.api.clock import Clock
from mockbroker.lab.conform.connection import PlayedConnection

TICK = 0.01  # seconds between two checks for responses
MAX_ADVANCE = 0.05  # maximum step of the manual clock in seconds while a response may be due
ROUNDING = 1e-6  # seconds, the resolution of the manual clock
PATIENCE = 60.0  # seconds to wait for a response of an external broker on a busy machine
TURNS = 4  # iterations of trio's loop, after which received bytes have been read
CHECK_INTERVAL = 0.02  # seconds between two measurements of the player's lateness


class Pace(Protocol):
    """The interface of clocks for playing a conversation.

    Attributes:
        lateness: maximum time by which the player was late, seconds.
        judges: whether the clock is precise enough to decide that a response is late.
    """

    lateness: float
    judges: bool

    def now(self) -> float:
        """Return the current time in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds`` of this clock."""
        ...

    async def wait(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``holds()`` returns True. Return the last result of ``holds()``.

        Args:
            connection: connection to the broker under test.
            holds: function that returns True to end the wait.
            seconds: maximum wait; a clock whose ``judges`` is False may wait longer.
        """
        ...

    async def watch(self) -> None:
        """Measure the player's lateness until cancelled."""
        ...

    async def settle(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> None:
        """Wait for the effects of a request that gets no immediate response.

        The wait ends when ``holds()`` returns True, or after ``seconds`` of this clock.

        Args:
            connection: connection to the broker under test.
            holds: function that returns True to end the wait.
            seconds: maximum wait, seconds.
        """
        ...


class LatenessWatch:
    """A monitor that measures how late trio wakes its tasks.

    Attributes:
        lateness: maximum time by which a wake-up was late, seconds.
    """

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

    Two durations still use the wall clock: the lifetime of a SASL session, and the maximum wait of a Fetch.

    ``clock``: the clock of the mockbroker under test.
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
        """Let the broker handle all requests that were sent, and read its responses."""
        await self._clock.advance(0)
        for _ in range(TURNS):
            await trio.lowlevel.checkpoint()


class WallTime(LatenessWatch):
    """The wall clock, for conversations with an external broker. Times are in seconds."""

    judges = False

    def now(self) -> float:
        return trio.current_time()

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def wait(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> bool:
        return await connection.wait(holds, max(seconds, PATIENCE))

    async def settle(self, connection: PlayedConnection, holds: Callable[[], bool], seconds: float) -> None:
        await connection.wait(holds, seconds)
