"""The clock of a cluster: tests can read, stop and advance it."""

from __future__ import annotations

from math import isfinite

from mockbroker.api.operations import Handle, operation
from mockbroker.broker.journal import Event
from mockbroker.net.server import Server

DECIMALS = 6  # decimals of seconds; further decimals are floating-point noise, as trio's clock starts at a large number
MAX_STEP = 10 * 365 * 86_400.0  # seconds; no timeout is longer, and datetime can still represent the result


class ClockOperations(Handle):
    """The clock operations that return immediately. Base class of the clocks of ``Cluster`` and ``ThreadCluster``."""

    _server: Server

    @property
    @operation
    def running(self) -> bool:
        """Whether the clock is running; False while it is stopped."""
        return self._server.clock.running

    @operation
    def now(self) -> float:
        """Return the seconds since the cluster started or was reset, rounded to microseconds.

        The ``time_ms`` of events and requests is this time in milliseconds.
        """
        return round(self._server.clock.read() - self._server.router.journal.begin, DECIMALS)

    @operation
    def wall(self) -> float:
        """Return the broker's wall-clock time in seconds since 1970, not rounded.

        The broker uses this clock for timestamps in records.
        """
        return self._server.router.broker.wall(self._server.clock.read())

    @operation
    def stop(self) -> None:
        """Stop the clock: no timeout expires until ``advance`` or ``resume`` is called."""
        self._server.stop_clock()

    @operation
    def resume(self) -> None:
        """Let the clock run again from the time at which it was stopped.

        The time that passed while the clock was stopped is not added.
        """
        self._server.resume_clock()


class Clock(ClockOperations):
    """The clock of a cluster, used for groups, transactions, offsets and records, but not for connections.

    The clock runs in real time until a test stops it. A cluster with ``clock="manual"`` starts with a stopped clock.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    async def advance(self, seconds: float) -> list[Event]:
        """Move the clock forward by a number of seconds at once. Return the group events that happen because of this.

        Requests that clients have sent before the call are handled first. Then every timeout within these seconds
        expires, in the order of the timeouts. While a timeout is handled, the clock shows the time of this timeout.
        Requests that clients send in reaction to a timeout are handled at the end, when the clock already shows the new
        time.

        Args:
            seconds: Number of seconds, from 0 to ten years (315,360,000 s).

        Raises: ValueError if ``seconds`` is out of range.
        """
        self._check_run()
        if not (isfinite(seconds) and 0 <= seconds <= MAX_STEP):
            raise ValueError(f"cannot advance the clock by {seconds} s: expected 0 to {MAX_STEP:.0f} s")
        return await self._server.advance(seconds)
