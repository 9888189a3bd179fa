"""The times of checks that a broker makes at regular intervals."""

from __future__ import annotations

from math import ceil, floor

ROUNDING = 1e-6  # intervals; maximum rounding error of a time that is a multiple of the interval


class RegularChecks:
    """The times of regular checks: multiples of an interval, counted from the start of the cluster.

    Args:
        started: Time of the start, in seconds of the broker's clock.
    """

    def __init__(self, started: float = 0.0) -> None:
        self._started = started

    def next(self, wanted: float, now: float, every: float) -> float:
        """Return the time in seconds of the next check: at or after ``wanted``, and after ``now``.

        Args:
            wanted: Time in seconds before which no check is needed.
            now: The current time in seconds.
            every: Seconds between two checks. With 0, the result is ``wanted``, or ``now`` if ``wanted`` has passed.
        """
        if every <= 0:
            return max(wanted, now)
        started = self._started
        first = ceil((wanted - started) / every - ROUNDING)
        return started + max(first, floor((now - started) / every + ROUNDING) + 1) * every

    def first(self, wanted: float, every: float) -> float:
        """Return the time in seconds of the first check that is not before ``wanted``, even if it has passed.

        Args:
            wanted: Time in seconds.
            every: Seconds between two checks, greater than 0.
        """
        return self._started + ceil((wanted - self._started) / every) * every
