"""The engine's clock, and the delay before a retry."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2


class Clock:
    """The current time of an engine.

    now: seconds on the driver's clock; the driver sets it before it calls the engine.
    """

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now


class Backoff:
    """Exponential backoff: the delay doubles with each failure, with a jitter of 20 %.

    Args: ``initial``, ``maximum``: seconds; ``jitter``: returns numbers from 0 to 1.
    Source: ExponentialBackoff of kafka-clients.
    """

    def __init__(self, initial: float, maximum: float, jitter: Callable[[], float]) -> None:
        self._initial, self._maximum, self._jitter = initial, maximum, jitter

    def after(self, failures: int) -> float:
        """Return the delay in seconds after a failure that ``failures`` others directly preceded."""
        term = min(self._initial * float(1 << min(failures, 32)), self._maximum)
        return term * (1 + JITTER * (2 * self._jitter() - 1))
