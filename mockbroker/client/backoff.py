"""The clock of the consumer's engine, and the exponential delay before the retry of a request."""

from __future__ import annotations

from collections.abc import Callable

JITTER = 0.2


class Clock:
    """The current time of an engine. The driver sets it before each call of the engine.

    Attributes:
        now: Seconds on the driver's clock.
    """

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now


class Backoff:
    """Exponential backoff: the delay doubles with each failure, with a jitter of 20 %.

    Args:
        initial: Delay after the first failure, in seconds.
        maximum: Maximum delay before the jitter, in seconds.
        jitter: Function that returns a random number from 0 to 1.

    Source: ExponentialBackoff of kafka-clients.
    """

    def __init__(self, initial: float, maximum: float, jitter: Callable[[], float]) -> None:
        self._initial, self._maximum, self._jitter = initial, maximum, jitter

    def after(self, failures: int) -> float:
        """Return the delay in seconds before the next retry.

        ``failures``: number of consecutive failures before the latest failure; 0 after the first failure.
        """
        term = min(self._initial * float(1 << min(failures, 32)), self._maximum)
        return term * (1 + JITTER * (2 * self._jitter() - 1))
