"""Conversion between the broker's clock, in seconds, and timestamps in records, in milliseconds since 1970."""

from __future__ import annotations

from math import floor
from typing import NamedTuple

MAX_MS = 2**63 - 1  # the largest timestamp; a client may request any retention time
TOLERANCE_MS = 0.01  # above the rounding errors of times in seconds, so that to_ms inverts from_ms


class WallClock(NamedTuple):
    """The relation of the broker's clock to wall-clock time.

    Attributes:
        at_zero: Seconds since 1970 at time 0 of the broker's clock.
    """

    at_zero: float

    def to_ms(self, at: float) -> int:
        """Return a time as complete milliseconds since 1970, so that it is not ahead of the clocks of clients.

        Args:
            at: time of the broker's clock, in seconds.
        """
        return min(floor((self.at_zero + at) * 1000 + TOLERANCE_MS), MAX_MS)

    def from_ms(self, ms: int) -> float:
        """Return a time of the broker's clock, in seconds. ``ms``: the same time in milliseconds since 1970."""
        return ms / 1000 - self.at_zero
