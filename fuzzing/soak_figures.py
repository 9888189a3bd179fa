"""The results of a soak: lost and repeated records, and the slopes of the broker's resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt

NORMAL_95 = 1.96  # two-sided 95 % of the normal distribution; a soak has more than 30 samples


@dataclass(frozen=True, slots=True)
class Sample:
    """The measured values of the broker at one time.

    Attributes:
        run: Number of the broker's process; a new process starts after each kill.
        minutes: Time since the start of that process.
        values: Measured values by name.
    """

    run: int
    minutes: float
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of a value over time.

    Attributes:
        per_minute: Slope of the regression line.
        bound: Half the width of its 95 % confidence interval.
    """

    per_minute: float
    bound: float


def slope(samples: Iterable[Sample], name: str, *, after: float) -> Slope | None:
    """Return the common slope of a value in all runs, each with a level of its own; None with too few samples.

    Neighbouring samples are not independent, so the bound is widened by their autocorrelation.

    Args:
        samples: The samples.
        name: Name of the value.
        after: Minutes at the beginning of each run that do not count.
    """
    runs: dict[int, list[tuple[float, float]]] = {}
    for sample in samples:
        if sample.minutes >= after:
            runs.setdefault(sample.run, []).append((sample.minutes, sample.values[name]))
    points = [point for run in runs.values() if len(run) > 2 for point in _centred(run)]
    spread = sum(x * x for x, _ in points)
    degrees = len(points) - sum(len(run) > 2 for run in runs.values()) - 1
    if degrees < 3 or not spread:
        return None
    per_minute = sum(x * y for x, y in points) / spread
    residuals = [y - per_minute * x for x, y in points]
    variance = sum(each * each for each in residuals) / degrees / spread
    return Slope(per_minute, NORMAL_95 * sqrt(variance * _inflation(residuals)))


def _centred(run: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    middle = sum(x for x, _ in run) / len(run)
    level = sum(y for _, y in run) / len(run)
    return [(x - middle, y - level) for x, y in run]


def _inflation(residuals: Sequence[float]) -> float:
    """Return the factor of the variance for residuals of an autoregressive process of order one."""
    squares = sum(each * each for each in residuals)
    if not squares:
        return 1.0
    correlation = sum(a * b for a, b in pairwise(residuals)) / squares
    correlation = min(max(correlation, 0.0), 0.95)
    return (1 + correlation) / (1 - correlation)


def lost(promised: Iterable[str], delivered: Iterable[str]) -> list[str]:
    """Return the promised values that were not delivered; empty if each was delivered at least once."""
    return sorted(set(promised) - set(delivered))


@dataclass(slots=True)
class Overtaken:
    """The offsets of a topic that retention deleted before a group had committed them.

    A group that does not read for longer than the retention time loses these records (``auto.offset.reset``).

    Attributes:
        ranges: Deleted offsets by partition: the committed offset, and the log start offset when it was seen next.
    """

    ranges: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _committed: dict[int, int] = field(default_factory=dict)

    def see(self, starts: Mapping[int, int], committed: Mapping[int, int]) -> None:
        """Compare log start offsets with committed offsets, both by partition, that were looked up in this order."""
        for partition, start in starts.items():
            before = self._committed.get(partition, 0)
            if before < start:
                self.ranges.setdefault(partition, []).append((before, start))
        self._committed |= committed

    def includes(self, partition: int, offset: int) -> bool:
        return any(first <= offset < end for first, end in self.ranges.get(partition, ()))


def not_exactly_once(stored: Iterable[str], processed: Iterable[str]) -> list[str]:
    """Return the values that were not processed as often as they are in the log that was read."""
    expected, found = Counter(stored), Counter(processed)
    return sorted(value for value in expected | found if expected[value] != found[value])
