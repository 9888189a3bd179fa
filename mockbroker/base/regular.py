"""The times of checks that a broker makes at regular intervals. The functions are pure."""

from __future__ import annotations

from math import ceil, floor

ROUNDING = 1e-6  # intervals; maximum rounding error of a time that is a multiple of the interval


def next_check(wanted: float, now: float, every: float) -> float:
    """Return the time in seconds of the next check: at or after ``wanted``, and after ``now``.

    The time is a multiple of the interval ``every``.

    Args:
        wanted: Time in seconds before which no check is needed.
        now: The current time in seconds.
        every: Seconds between two checks. With 0, the result is ``wanted``, or ``now`` if ``wanted`` has passed.
    """
    if every <= 0:
        return max(wanted, now)
    return max(ceil(wanted / every - ROUNDING), floor(now / every + ROUNDING) + 1) * every
