"""The part of a log that compaction may clean, and whether the log needs compaction. The functions are pure.

Source: Kafka's LogCleanerManager.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf

from kwire.lazy_dataclass import dataclass
from mockbroker.topics.log_config import LogConfig
from mockbroker.topics.log_segments import LogSegment
from mockbroker.topics.model import Partition


@dataclass(frozen=True, slots=True)
class CleanableLog:
    """The part of a log that compaction may clean.

    Attributes:
        first_dirty: first offset that was not compacted before.
        until: base offset of the first segment that may not be compacted yet.
        segments: number of segments before ``until``.
        clean_bytes: bytes of the segments before ``first_dirty``.
        dirty_bytes: bytes of the segments from the one with ``first_dirty`` to the last one before ``until``.
        overdue: whether a closed segment from ``first_dirty`` on began longer ago than max.compaction.lag.ms, by the
            timestamp of its first batch.
    """

    first_dirty: int
    until: int
    segments: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The dirty bytes divided by all bytes before ``until``; Kafka compares this ratio with
        min.cleanable.dirty.ratio.
        """
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def needs_compaction(self, config: LogConfig) -> bool:
        """Return whether the log needs compaction, given the configurations of its topic."""
        return self.dirty_bytes > 0 and (self.overdue or self.dirty_ratio > config.min_dirty_ratio)


def cleanable_log(partition: Partition, *, min_lag_ms: int = 0, max_lag_ms: float = inf, now_ms: int) -> CleanableLog:
    """Return the part of a partition's log that compaction may clean.

    The part ends before the active segment, before the first segment with offsets from the last stable offset on, and
    before the first segment with records younger than ``min_lag_ms``.

    Args:
        partition: the partition.
        min_lag_ms: minimum age of compacted records, milliseconds (min.compaction.lag.ms).
        max_lag_ms: age in milliseconds at which records must be compacted (max.compaction.lag.ms).
        now_ms: the current time, milliseconds since 1970.
    """
    log = partition.log
    first_dirty = max(partition.cleaned_until, log.start)
    if not log.segments:
        return CleanableLog(first_dirty, first_dirty, 0, 0, 0, overdue=False)
    closed = log.segments[:-1]
    dirty = max(bisect_right(log.segments, first_dirty, key=_base) - 1, 0)
    until = max(bisect_right(closed, partition.last_stable, key=_base) - 1, 0)
    if partition.last_stable >= log.segments[-1].base_offset:
        until = len(closed)
    for index in range(dirty, until):
        if min_lag_ms > 0 and closed[index].largest_timestamp > now_ms - min_lag_ms:
            until = index
            break
    clean_bytes = sum(segment.size for segment in log.segments[: min(dirty, until)])
    dirty_bytes = sum(segment.size for segment in closed[dirty:until])
    oldest = min((each.first_timestamp for each in closed[dirty:] if each.first_timestamp > 0), default=None)
    overdue = oldest is not None and oldest < now_ms - max_lag_ms
    return CleanableLog(first_dirty, log.segments[until].base_offset, until, clean_bytes, dirty_bytes, overdue)


def _base(segment: LogSegment) -> int:
    return segment.base_offset
