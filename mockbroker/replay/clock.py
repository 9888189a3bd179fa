"""The clock of a replay, by which responses are delayed. It follows trio's clock until a command stops or advances
it.
"""

from __future__ import annotations

from math import isfinite

import trio

from mockbroker.api.clock import MAX_STEP
from mockbroker.broker.journal import Event
from mockbroker.net.clock import BrokerTime


class ReplayClock:
    """The clock of a replay. It measures the latencies of the recording, but not the maximum wait of a Fetch.

    Args:
        wall: the current time in seconds since 1970.
        stopped: True to start with a stopped clock.
    """

    def __init__(self, wall: float, *, stopped: bool = False) -> None:
        self._time = BrokerTime(stopped=stopped)
        self._begin = self._time.read()
        self._wall = wall
        self._sleepers = trio.lowlevel.ParkingLot()

    @property
    def running(self) -> bool:
        """Whether the clock is running; False while it is stopped."""
        return self._time.running

    def now(self) -> float:
        """Return the seconds since the replay started."""
        return self._time.read() - self._begin

    def wall(self) -> float:
        """Return the wall-clock time in seconds since 1970."""
        return self._wall + self.now()

    def stop(self) -> None:
        """Stop the clock. Delayed responses wait until the clock is advanced or resumed."""
        self._time.stop()
        self._sleepers.unpark_all()

    def resume(self) -> None:
        """Let the clock run again from the time at which it was stopped."""
        self._time.resume()
        self._sleepers.unpark_all()

    async def advance(self, seconds: float) -> list[Event]:
        """Move the clock forward by ``seconds``, so that the responses that are delayed until then are sent.

        Return an empty list, because a replay has no group events.

        Raises: ValueError if ``seconds`` is negative, or more than ten years.
        """
        if not (isfinite(seconds) and 0 <= seconds <= MAX_STEP):
            raise ValueError(f"cannot advance the clock by {seconds} s: expected 0 to {MAX_STEP:.0f} s")
        self._time.move_to(self._time.read() + seconds)
        self._sleepers.unpark_all()
        await trio.lowlevel.checkpoint()
        return []

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has moved forward by ``seconds``."""
        until = self._time.read() + seconds
        while self._time.when(until) > trio.current_time():
            with trio.move_on_at(self._time.when(until)):
                await self._sleepers.park()
        await trio.lowlevel.checkpoint()
