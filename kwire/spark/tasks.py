"""The number of Spark tasks for an amount of data."""

from __future__ import annotations

PER_CORE = 4  # tasks per core while the data is small, because connections and groups differ in size
LARGEST = 256 * 1024 * 1024  # bytes per task at most, for clusters and captures of any size


def task_count(size: int, smallest: int, cores: int) -> int:
    """Return the number of tasks for an amount of data.

    Small data gets up to ``PER_CORE`` tasks for each core, large data a task for each ``LARGEST`` bytes.

    Args:
        size: bytes of the data.
        smallest: bytes per task below which more tasks cost more than they gain.
        cores: cores of the cluster.
    """
    return max(min(size // smallest + 1, PER_CORE * cores), -(-size // LARGEST))
