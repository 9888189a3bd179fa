"""Functions that choose how many Spark tasks process an amount of data."""

from __future__ import annotations

from math import isqrt

LARGEST = 256 * 1024 * 1024  # bytes per task at most, for captures of any size


def task_size(size: int, smallest: int) -> int:
    """Return the number of bytes per task for an amount of data.

    The result is the geometric mean of ``size`` and ``smallest``, but at least ``smallest`` and at most LARGEST. It
    does not depend on the number of cores. Small data results in few tasks, so the fixed cost is low. Large data
    results in more tasks than a cluster has cores, so the load is balanced even if connections and groups differ in
    size.

    Args:
        size: bytes of the data.
        smallest: smallest number of bytes per task. Smaller tasks would cost more time than they save.
    """
    return min(max(isqrt(size * smallest), smallest), LARGEST)


def task_count(size: int, smallest: int) -> int:
    """Return the number of tasks for an amount of data, at least 1. For the arguments, see ``task_size``."""
    return max(-(-size // task_size(size, smallest)), 1)
