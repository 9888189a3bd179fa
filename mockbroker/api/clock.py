"""The clock of a cluster, as tests have it in hand."""

from __future__ import annotations

from math import isfinite

from mockbroker.api.operations import Handle, operation
from mockbroker.broker.journal import Event
from mockbroker.net.server import Server

DIGITS = 6  # behind the point: what is smaller is rounding, since trio's time begins anywhere
MOST = 10 * 365 * 86_400.0  # seconds of one step: no timeout is longer, and calendars go on


class ClockOperations(Handle):
    """What can be asked of the clock without waiting. To add an operation is to add a method here."""

    _server: Server

    @property
    @operation
    def running(self) -> bool:
        """False while it stands still."""
        return self._server.clock.running

    @operation
    def now(self) -> float:
        """Seconds since the cluster began or was reset, as events are told with (``time_ms``); to the microsecond."""
        return round(self._server.clock.read() - self._server.router.journal.begin, DIGITS)

    @operation
    def wall(self) -> float:
        """Seconds since 1970, as records are stamped. Not rounded to milliseconds."""
        return self._server.router.broker.wall(self._server.clock.read())

    @operation
    def stop(self) -> None:
        """Stand still; nothing becomes due until ``advance`` or ``resume``."""
        self._server.stop_clock()

    @operation
    def resume(self) -> None:
        """Run on from where it stands. What was left out is not made up for: time never jumps by itself."""
        self._server.resume_clock()


class Clock(ClockOperations):
    """The broker's time: that of groups, transactions, offsets and records, not that of connections.

    It runs like any clock, until it is stopped; a cluster with ``clock="manual"`` begins with it stopped.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    async def advance(self, seconds: float) -> list[Event]:
        """Let time pass at once: what is due happens in order, each thing at its own time; the events of it.

        What clients have sent before is handled first. What they say to it comes after: then the clock stands at the
        end of the step, or runs on from there if it ran. Raises: ValueError for less than 0 or more than ten years.
        """
        if not (isfinite(seconds) and 0 <= seconds <= MOST):
            raise ValueError(f"advance: {seconds} seconds are not between 0 and {MOST:.0f}: time never goes back")
        return await self._server.advance(seconds)
