"""The use of quotas: rates over a sliding window, and token buckets. Times are in seconds, of any clock."""

from __future__ import annotations

from collections import deque
from math import inf

ROUNDING = 1e-6  # seconds; more than the rounding error of a sum of times


class WindowedRate:
    """A rate per second, such as bytes per second, measured over a number of time windows.

    While fewer than ``windows`` - 1 windows have passed, the rate is averaged as if they had passed, so that the rate
    is not overestimated. Source: Kafka's Rate and SampledStat.

    Args:
        windows: number of windows, the current one included.
        size: length of a window in seconds.
    """

    def __init__(self, windows: int, size: float) -> None:
        self._windows = windows
        self._size = size
        self._span = windows * size
        self._least = (windows - 1) * size  # the rate is measured over at least this many seconds
        self._earlier = 0.0  # amount of all windows but the last one
        self._samples: deque[list[float]] = deque()  # start and amount of each window, the oldest first
        self._current = [0.0, 0.0]  # the last window
        self._same_until = -inf  # until then, the current window neither ends nor is any window dropped

    def record(self, amount: float, now: float) -> None:
        """Add an amount to the current window. A negative amount cancels an earlier amount.

        ``now``: time in seconds.
        """
        self.use(amount, inf, now)

    def use(self, amount: float, limit: float, now: float) -> float:
        """Add an amount to the current window; return the throttle time in seconds, until the rate has fallen to
        ``limit``.

        The result is 0 if the rate is not above the limit.

        Args:
            amount: the amount.
            limit: maximum amount per second.
            now: time in seconds.
        """
        if now >= self._same_until:
            self._update_windows(now)
        current = self._current
        current[1] += amount
        return 0.0 if self._earlier + current[1] <= limit * self._least else self.excess(limit, now)

    def _update_windows(self, now: float) -> None:
        """Remove the windows that have expired, and begin a new window if the current window has ended.

        ``now``: time in seconds.
        """
        samples = self._samples
        self._drop_old(now)
        if not samples or now - samples[-1][0] >= self._size:
            self._earlier += samples[-1][1] if samples else 0.0
            self._current = [now, 0.0]
            samples.append(self._current)
        self._same_until = min(samples[-1][0] + self._size, samples[0][0] + self._span) - ROUNDING

    def rate(self, now: float) -> float:
        """Return the average amount per second. ``now``: time in seconds."""
        self._drop_old(now)
        return sum(amount for _, amount in self._samples) / self.window(now)

    def window(self, now: float) -> float:
        """Return the length of time in seconds over which ``rate`` averages: at least that of all windows but one.

        ``now``: time in seconds.
        """
        self._drop_old(now)
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        least = self._windows - 1
        full = int(elapsed / self._size)
        if full < least:
            elapsed += (least - full) * self._size
        return elapsed

    def excess(self, limit: float, now: float) -> float:
        """Return the throttle time in seconds: the time without further amounts until the rate has fallen to ``limit``.

        The result is 0 if the rate is not above the limit. Source: Kafka's QuotaUtils.throttleTime.

        Args:
            limit: maximum amount per second.
            now: time in seconds.
        """
        rate = self.rate(now)
        return (rate - limit) / limit * self.window(now) if rate > limit else 0.0

    def _drop_old(self, now: float) -> None:
        expired = now - self._span
        if self._samples and self._samples[0][0] <= expired:
            while self._samples and self._samples[0][0] <= expired:
                self._samples.popleft()
            self._earlier = sum(amount for _, amount in list(self._samples)[:-1])


class TokenBucket:
    """A bucket of tokens: tokens are added at a constant rate, up to a maximum (the burst).

    The bucket is full at first. Source: Kafka's TokenBucket.

    Args:
        rate: tokens per second.
        burst: maximum number of tokens.
    """

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._updated = 0.0

    def tokens(self, now: float) -> float:
        """Return the number of tokens; negative if more tokens were taken than were available.

        ``now``: time in seconds.
        """
        if now > self._updated:
            self._tokens = min(self.burst, self._tokens + self.rate * (now - self._updated))
            self._updated = now
        return self._tokens

    def take(self, amount: float, now: float) -> None:
        """Take tokens; the number may become negative. A negative amount puts tokens back. ``now``: time in seconds."""
        self._tokens = min(self.burst, self.tokens(now) - amount)

    def excess(self, now: float) -> float:
        """Return the seconds until the number of tokens is 0 or more; 0 if the number is not negative now.

        ``now``: time in seconds.
        """
        return max(-self.tokens(now) / self.rate, 0.0)
