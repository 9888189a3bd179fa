"""The number of Spark tasks for an amount of data."""

from __future__ import annotations

from math import isqrt

LARGEST = 256 * 1024 * 1024  # bytes per task at most, for captures of any size


def task_size(size: int, smallest: int) -> int:
    """Return the number of bytes per task for an amount of data.

    The result depends only on the bytes, not on the cores of the cluster: it is the geometric mean of ``size`` and
    ``smallest``, and at most LARGEST. So small data results in few tasks, with little fixed cost. Large data results in
    more tasks than a cluster has cores, which balances the load although connections and groups differ in size.

    Args:
        size: bytes of the data.
        smallest: bytes per task below which more tasks cost more than they gain.
    """
    return min(max(isqrt(size * smallest), smallest), LARGEST)


def task_count(size: int, smallest: int) -> int:
    """Return the number of tasks for an amount of data. For the arguments, see ``task_size``."""
    return max(-(-size // task_size(size, smallest)), 1)
