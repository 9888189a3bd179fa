"""Times: groups count seconds on a clock of their own, records milliseconds since 1970."""

from __future__ import annotations

from typing import NamedTuple

LAST = 2**63 - 1  # milliseconds: retention may be asked for without end


class Wall(NamedTuple):
    """``at_zero``: seconds since 1970 at time 0 of the clock."""

    at_zero: float

    def ms(self, at: float) -> int:
        return min(round((self.at_zero + at) * 1000), LAST)

    def at(self, ms: int) -> float:
        return ms / 1000 - self.at_zero
