"""Compaction of the partitions of internal topics, one part of a log after each append.

A coordinator reads the whole log of a partition when it loads the partition. Therefore a partition is compacted when
its size has doubled.
"""

from __future__ import annotations

from collections.abc import Generator

from kwire.lazy_dataclass import dataclass
from mockbroker.topics.cleanable import cleanable_log
from mockbroker.topics.compaction import compaction
from mockbroker.topics.model import Partition

FIRST_COMPACTION = 1 << 20  # partition size in bytes at the first compaction; the next ones start when it has doubled
COMPACTED_PER_APPENDED_BYTE = 2  # bytes, so that a compaction ends before the next one starts
MIN_COMPACTED_PER_APPEND = 16_384  # minimum number of bytes that are compacted at each append


class Compactor:
    """The compactor of the partitions of one internal topic. After each append, it compacts a part of the log."""

    def __init__(self) -> None:
        self._thresholds: dict[int, int] = {}  # size in bytes that starts the next compaction, by partition index
        self._running: dict[int, _RunningCompaction] = {}

    def compact_if_grown(self, partition: Partition, now_ms: int) -> None:
        """Continue a compaction in progress, or start a compaction if the partition has doubled in size.

        The broker calls this method after each append.

        Args:
            partition: The partition.
            now_ms: The current time in milliseconds since 1970.
        """
        size = partition.log.size
        running = self._running.get(partition.index)
        if running is None or running.partition is not partition:
            if size <= self._thresholds.get(partition.index, FIRST_COMPACTION):
                return
            running = self._running[partition.index] = _RunningCompaction(
                partition, compaction_of(partition, now_ms), size
            )
        if not running.advance(MIN_COMPACTED_PER_APPEND + COMPACTED_PER_APPENDED_BYTE * max(size - running.size, 0)):
            del self._running[partition.index]
            self._thresholds[partition.index] = max(FIRST_COMPACTION, 2 * partition.log.size)
        running.size = size


@dataclass(slots=True)
class _RunningCompaction:
    """A compaction of one partition that is in progress.

    Attributes:
        partition: The partition.
        steps: Generator that compacts one batch at a time and yields the cost of each batch in bytes.
        size: Size of the log in bytes after the last append.
    """

    partition: Partition
    steps: Generator[int, None, None]
    size: int

    def advance(self, size: int) -> bool:
        """Continue the compaction until batches of at least ``size`` bytes are processed.

        Return True if the compaction may have work left, False if it is complete.
        """
        for done in self.steps:
            size -= done
            if size <= 0:
                return True
        return False


def compact(partition: Partition, now_ms: int) -> None:
    """Compact a partition at once. ``now_ms``: the current time in milliseconds since 1970."""
    for _ in compaction_of(partition, now_ms):
        pass


def compaction_of(partition: Partition, now_ms: int) -> Generator[int, None, None]:
    """Compact a partition. After each batch, yield the cost of processing the batch, in bytes.

    The segment in which the oldest open transaction begins, and all later segments, are not compacted.

    Args:
        partition: the partition, whose active segment is closed first.
        now_ms: the current time in milliseconds since 1970.
    """
    partition.log.roll()
    cleanable = cleanable_log(partition, now_ms=now_ms)
    if cleanable.dirty_bytes:
        yield from compaction(partition, cleanable, now_ms)
