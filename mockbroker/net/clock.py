"""The broker's clock. It equals trio's clock until a test stops or advances it, and it never goes back.

Timeouts of groups and transactions, retention of offsets and timestamps of records use this clock: the broker time.
Timeouts that clients measure too, such as ``max_wait_ms`` of a Fetch, use trio's clock: the client time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import trio


class BrokerTime:
    """A clock that follows trio's clock and can be stopped, advanced and resumed.

    Args:
        stopped: True to start with a stopped clock.

    Attributes:
        read: Function that returns the broker time in seconds.
        real: True as long as the clock was never stopped or advanced; ``read`` is then ``trio.current_time`` itself.
    """

    __slots__ = ("_lag", "_stopped_at", "read", "real")

    def __init__(self, *, stopped: bool = False) -> None:
        self.read: Callable[[], float]
        self.restart(stopped=stopped)

    def restart(self, *, stopped: bool) -> None:
        """Set the broker time to trio's time, for a new cluster. A broker time from before the call cannot be compared
        with a later broker time.

        Args:
            stopped: True to stop the clock at trio's time; False to let it run.
        """
        self.real = True
        self._lag = 0.0  # trio's time minus the broker time, in seconds, while the clock runs
        self._stopped_at: float | None = None  # the broker time of a stopped clock; None while the clock runs
        self.read = trio.current_time
        if stopped:
            self.stop()

    @property
    def running(self) -> bool:
        return self._stopped_at is None

    def stop(self) -> None:
        """Stop the clock at the current time."""
        if self._stopped_at is None:
            self._stopped_at = self.read()
        self.read, self.real = self._read_stopped, False

    def resume(self) -> None:
        """Let a stopped clock run again, from the broker time at which it was stopped."""
        if self._stopped_at is not None:
            self._run_from(self._stopped_at)

    def move_to(self, at: float) -> None:
        """Set the broker time to ``at``, a later time in seconds. A stopped clock remains stopped."""
        if self._stopped_at is None:
            self._run_from(at)
        else:
            self._stopped_at = at

    def when(self, at: float) -> float:
        """Return the client time at which the broker time will be ``at``. All times are in seconds.

        For a stopped clock, the result is -inf if the broker time is ``at`` or later, else inf.
        """
        if self._stopped_at is None:
            return at + self._lag
        return -inf if at <= self._stopped_at else inf

    def client_time(self, now: float) -> float:
        """Return the current client time in seconds. ``now``: the current broker time in seconds."""
        return now if self.real else trio.current_time()

    def _run_from(self, at: float) -> None:
        self._stopped_at, self._lag = None, trio.current_time() - at
        self.read, self.real = self._read_running, False

    def _read_stopped(self) -> float:
        assert self._stopped_at is not None
        return self._stopped_at

    def _read_running(self) -> float:
        return trio.current_time() - self._lag
