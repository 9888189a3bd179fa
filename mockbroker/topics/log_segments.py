"""The segments of a partition's log: where a new segment begins, and which segments retention deletes. The functions
are pure.

Source: Kafka's LogSegment.shouldRoll and UnifiedLog.deleteOldSegments.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.lazy_dataclass import dataclass

OFFSETS_IN_A_SEGMENT = 2**31  # indexes store int32 offsets relative to the base offset
SEGMENT_BYTES = 1 << 30  # default of segment.bytes
SEGMENT_MS = 604_800_000  # default of segment.ms
UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """The limits of a segment. A batch that would exceed a limit begins a new segment.

    Attributes:
        size: maximum size in bytes (segment.bytes); a single larger batch is allowed.
        duration_ms: maximum time in milliseconds from the timestamp of the segment's first batch to that of a later
            batch (segment.ms).
    """

    size: int = SEGMENT_BYTES
    duration_ms: int = SEGMENT_MS


DEFAULT_LIMITS = SegmentLimits()


@dataclass(slots=True)
class LogSegment:
    """A segment of a log. The last segment is the active segment.

    Attributes:
        base_offset: offset of the first record.
        size: size of all its batches in bytes, including batches before the log start offset.
        first_timestamp: largest timestamp in the first batch, milliseconds since 1970; -1 if it has none.
        max_timestamp: largest timestamp in all batches, milliseconds since 1970; -1 if no batch has one.
        modified_ms: time of the last append whose time is known, milliseconds since 1970; -1 if no time is known.
        last_offset: offset of the last record.
    """

    base_offset: int
    size: int = 0
    first_timestamp: int = -1
    max_timestamp: int = -1
    modified_ms: int = -1
    last_offset: int = -1

    @property
    def largest_timestamp(self) -> int:
        """The timestamp that determines when the segment expires, milliseconds since 1970.

        It is the largest timestamp in the segment, or ``modified_ms`` if no batch has a timestamp.
        """
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    def add(self, last_offset: int, size: int, max_timestamp: int, now_ms: int) -> None:
        """Add a batch to the segment.

        Args:
            last_offset: offset of the batch's last record.
            size: size of the batch in bytes.
            max_timestamp: largest timestamp in the batch, milliseconds since 1970.
            now_ms: the current time, milliseconds since 1970.
        """
        if not self.size:
            self.first_timestamp = max_timestamp
        self.size += size
        self.max_timestamp = max(self.max_timestamp, max_timestamp)
        self.modified_ms = max(self.modified_ms, now_ms)
        self.last_offset = last_offset

    def is_full(self, last_offset: int, size: int, max_timestamp: int, limits: SegmentLimits) -> bool:
        """Return whether a batch must begin a new segment, because it would exceed a limit of this segment.

        Args:
            last_offset: offset of the batch's last record.
            size: size of the batch in bytes.
            max_timestamp: largest timestamp in the batch, milliseconds since 1970.
            limits: the limits of a segment.
        """
        if not self.size:
            return False
        waited = max_timestamp - self.first_timestamp if self.first_timestamp >= 0 else 0
        return (
            self.size + size > limits.size
            or waited > limits.duration_ms
            or last_offset - self.base_offset >= OFFSETS_IN_A_SEGMENT
        )


def expired_segments(
    segments: Sequence[LogSegment], now_ms: int, *, retention_ms: int = UNLIMITED, retention_bytes: int = UNLIMITED
) -> int:
    """Return how many segments retention deletes. It deletes the oldest segments first.

    retention.bytes is applied before retention.ms. The active segment is deleted only if all older segments are deleted
    and it is not empty.

    Args:
        segments: segments of the log, in order.
        now_ms: the current time, milliseconds since 1970.
        retention_ms: maximum age of a segment in milliseconds (retention.ms); UNLIMITED for no limit.
        retention_bytes: size in bytes below which the log does not shrink (retention.bytes); UNLIMITED for no limit.
    """
    deletable = len(segments) - (1 if segments and not segments[-1].size else 0)
    count = 0
    if retention_bytes != UNLIMITED:
        excess = sum(segment.size for segment in segments) - retention_bytes
        while count < deletable and segments[count].size <= excess:
            excess -= segments[count].size
            count += 1
    if retention_ms != UNLIMITED:
        while count < deletable and 0 <= segments[count].largest_timestamp < now_ms - retention_ms:
            count += 1
    return count


def next_expiry(
    segments: Sequence[LogSegment], now_ms: int, *, retention_ms: int = UNLIMITED, retention_bytes: int = UNLIMITED
) -> int | None:
    """Return the time at which retention will delete a segment, in milliseconds since 1970; None if it never will.

    The result assumes that no record is appended. For the arguments, see ``expired_segments``.
    """
    if not segments or (len(segments) == 1 and not segments[0].size):
        return None
    if expired_segments(segments, now_ms, retention_bytes=retention_bytes):
        return now_ms
    return None if retention_ms == UNLIMITED else segments[0].largest_timestamp + retention_ms + 1
