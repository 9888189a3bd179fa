"""Times: groups count seconds on a clock of their own, records milliseconds since 1970."""

from __future__ import annotations

from typing import NamedTuple


class Wall(NamedTuple):
    """``at_zero``: seconds since 1970 at time 0 of the clock."""

    at_zero: float

    def ms(self, at: float) -> int:
        return round((self.at_zero + at) * 1000)

    def at(self, ms: int) -> float:
        return ms / 1000 - self.at_zero
