"""The time, as the engine was told it, and how long to wait before trying again."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2


class Moment:
    """``now``: seconds on the caller's clock, set before anything else happens."""

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now


class Backoff:
    """Twice as long after each failure, up to ``longest``, give or take a fifth. Seconds.

    ``chance``: gives numbers from 0 to 1. Source: ExponentialBackoff of kafka-clients.
    """

    def __init__(self, first: float, longest: float, chance: Callable[[], float]) -> None:
        self._first, self._longest, self._chance = first, longest, chance

    def after(self, failures: int) -> float:
        """How long to wait after so many failures in a row before the one that just happened."""
        term = min(self._first * float(1 << min(failures, 32)), self._longest)
        return term * (1 + JITTER * (2 * self._chance() - 1))
