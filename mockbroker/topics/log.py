"""The log of one partition, in memory: the batches as received from producers, with base offset and leader epoch
set.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import is_
from typing import Protocol

from kwire import LimitError
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch, Record, read_batch, rebase
from mockbroker.topics.log_segments import DEFAULT_LIMITS, LogSegment

MAX_RECORDS_PER_BATCH = 100_000  # a small compressed batch can hold millions, which would block the cluster
UNKNOWN_END = -1  # the log end offset of a partition of a real cluster, before a response has shown it


@dataclass(slots=True)
class StoredBatch:
    """A record batch in the log of a partition.

    Attributes:
        base_offset: offset of the first record.
        last_offset: offset of the last record.
        max_timestamp: largest timestamp, milliseconds since 1970.
        position: number of bytes of the log before this batch, deleted batches included.
        data: the encoded batch.
    """

    base_offset: int
    last_offset: int
    max_timestamp: int
    position: int
    data: bytes


@dataclass(slots=True)
class CompactedSegment:
    """A segment written by compaction, which replaces one or more adjacent segments.

    Attributes:
        segment: the segment, with the base offset of the first segment that it replaces.
        batches: batches of the segment, in order; ``replace_segments`` sets their positions.
        changed: False if the segment replaces only one segment and has the same batches.
    """

    segment: LogSegment
    batches: list[StoredBatch]
    changed: bool = True


class LogListener(Protocol):
    """The interface of a listener that a log calls after each change, so that the listener can store the change on
    disk.
    """

    def appended(self, stored: StoredBatch, leader_epoch: int, *, new_segment: bool) -> None:
        """Store a batch that was appended to the log.

        Args:
            stored: the batch.
            leader_epoch: leader epoch in which the batch was appended.
            new_segment: True if the batch begins a new segment.
        """
        ...

    def rolled(self, base_offset: int) -> None:
        """Store the start of a new segment at ``base_offset``. The segment has no batch yet."""
        ...

    def deleted_before(self, start: int) -> None:
        """Delete the stored records before the log start offset ``start``, because they were deleted from the log."""
        ...

    def replaced(self, base_offset: int, end: int, batches: Sequence[StoredBatch]) -> None:
        """Replace stored segments with one segment, because compaction or truncation has replaced them in the log.

        Args:
            base_offset: base offset of the first replaced segment, and of the new segment.
            end: base offset of the first segment that is not replaced; above the previous log end offset if all are
                replaced.
            batches: all batches of the new segment.
        """
        ...


class PartitionLog:
    """The log of one partition: its record batches in memory.

    Attributes:
        start: log start offset.
        end: log end offset, which is also the high watermark; UNKNOWN_END in a proxy that has not learned it yet.
        listener: listener that the log calls after each change; None for a log in memory only.
        limits: limits of a segment, such as its maximum size; a new value applies from the next append on.
        segments: the segments, the active one last; empty if the log has never had a batch.
    """

    def __init__(self, listener: LogListener | None = None) -> None:
        self.listener = listener
        self.limits = DEFAULT_LIMITS
        self.segments: list[LogSegment] = []
        self.start = 0
        self.end = 0
        self._batches: list[StoredBatch] = []
        self._bases: list[int] = []
        self._size = 0

    def append(self, batch: Batch, leader_epoch: int, now_ms: int = -1) -> int:
        """Append a batch at the log end offset, and return its base offset.

        The batch begins a new segment if the last segment would exceed a limit with it.

        Args:
            batch: the batch, as the producer sent it. The log stores a copy with the new base offset and leader epoch.
            leader_epoch: current leader epoch of the partition.
            now_ms: the current time, milliseconds since 1970; -1 if it is unknown. It determines when a segment
                expires whose batches have no timestamps.
        """
        base, segments, timestamp = self.end, self.segments, batch.max_timestamp
        last = base + batch.last_offset_delta
        data = rebase(batch, base, leader_epoch)
        size = len(data)
        stored = StoredBatch(base, last, timestamp, self._size, data)
        self._batches.append(stored)
        self._bases.append(base)
        self._size += size
        self.end = last + 1
        new_segment = not segments or segments[-1].is_full(last, size, timestamp, self.limits)
        if new_segment:
            segments.append(LogSegment(base))
        segments[-1].add(last, size, timestamp, now_ms)
        if self.listener is not None:
            self.listener.appended(stored, leader_epoch, new_segment=new_segment)
        return base

    def roll(self) -> None:
        """End the active segment: the next append begins a new one."""
        if self.segments and self.segments[-1].size:
            self.segments.append(LogSegment(self.end))
            if self.listener is not None:
                self.listener.rolled(self.end)

    def batches(self, offset: int = 0) -> Iterator[Batch]:
        """Yield the batches in order, beginning with the first batch that ends at or after ``offset``."""
        return (read_batch(stored.data) for stored in islice(self._batches, self._index_of(offset), None))

    def restore(self, batches: Iterable[Batch], start: int, end: int, segments: Sequence[int] = ()) -> None:
        """Fill an empty log with batches read from disk, without calling the listener.

        Args:
            batches: batches in order, with their offsets. After compaction, there may be gaps between them.
            start: log start offset.
            end: log end offset.
            segments: base offsets of the segments, in order; if empty, all batches are in one segment.
        """
        bases = deque(segments)
        for batch in batches:
            stored = StoredBatch(batch.base_offset, batch.last_offset, batch.max_timestamp, self._size, batch.data)
            self._batches.append(stored)
            self._bases.append(stored.base_offset)
            self._size += len(stored.data)
            while bases and bases[0] <= stored.base_offset:
                self.segments.append(LogSegment(bases.popleft()))
            if not self.segments:
                self.segments.append(LogSegment(stored.base_offset))
            self.segments[-1].add(stored.last_offset, len(stored.data), stored.max_timestamp, -1)
        self.segments += map(LogSegment, bases)
        while len(self.segments) > 1 and not self.segments[0].size and self.segments[1].base_offset <= start:
            del self.segments[0]  # all its records are before the log start offset
        self.start, self.end = start, end

    def stored(self) -> tuple[StoredBatch, ...]:
        """Return all batches of the log as StoredBatch objects."""
        return tuple(self._batches)

    def begins_with_segments(self, segments: Sequence[LogSegment]) -> bool:
        """Return whether the first segments of the log are these objects; False if one was replaced or deleted."""
        return len(segments) <= len(self.segments) and all(map(is_, segments, self.segments))

    def segment_batches(self, index: int) -> list[StoredBatch]:
        """Return the batches of a segment; in the first segment, only those from the log start offset on.

        ``index``: index of the segment.
        """
        segments = self.segments
        first = bisect_left(self._bases, segments[index].base_offset) if index else 0
        last = bisect_left(self._bases, segments[index + 1].base_offset) if index + 1 < len(segments) else None
        return self._batches[first:last]

    def replace_segments(self, count: int, compacted: Sequence[CompactedSegment]) -> None:
        """Replace the oldest segments with the segments that compaction has written.

        Args:
            count: number of segments to replace; the active segment must not be one of them.
            compacted: the new segments, in order.
        """
        assert count < len(self.segments), "the active segment is not compacted"
        end = self.segments[count].base_offset
        until = bisect_left(self._bases, end)
        batches = [stored for segment in compacted for stored in segment.batches]
        following = self._batches[until].position if until < len(self._batches) else self._size
        position = following - sum(len(stored.data) for stored in batches)
        for stored in batches:  # the positions of all later batches remain
            stored.position = position
            position += len(stored.data)
        self._batches[:until] = batches
        self._bases[:until] = [stored.base_offset for stored in batches]
        self.segments[:count] = [segment.segment for segment in compacted]
        if self.listener is not None:
            ends = [*(segment.segment.base_offset for segment in compacted[1:]), end]
            for segment, segment_end in zip(compacted, ends, strict=True):
                if segment.changed:
                    self.listener.replaced(segment.segment.base_offset, segment_end, segment.batches)

    @property
    def last_timestamp(self) -> int:
        """The largest timestamp in the last batch, in milliseconds since 1970. The log must not be empty."""
        return self._batches[-1].max_timestamp

    @property
    def size(self) -> int:
        """The total size of all batches, in bytes."""
        return self._size - self._batches[0].position if self._batches else 0

    def delete_before(self, offset: int) -> None:
        """Advance the log start offset to ``offset``, and delete the batches that end before ``offset``.

        ``offset`` must not be above the log end offset. If it is not above the log start offset, do nothing.
        """
        if offset <= self.start:
            return
        self.start = offset
        count = self._index_of(offset)
        del self._batches[:count], self._bases[:count]
        deleted = bisect_right(self.segments, offset, key=_base_offset) - 1
        del self.segments[: max(deleted, 0)]
        if self.listener is not None:
            self.listener.deleted_before(offset)

    def delete_segments(self, count: int) -> None:
        """Delete the first ``count`` segments. The log start offset becomes the base offset of the first remaining
        segment.

        If all segments are deleted, a new empty segment begins at the log end offset.
        """
        if count == len(self.segments):
            self.roll()
        self.delete_before(self.segments[count].base_offset)

    def truncate(self, end: int) -> None:
        """Remove the batches with offsets at or after ``end``. A follower does this if its leader has fewer records.

        ``end``: the new log end offset. The log can end before ``end``: a batch that contains ``end`` is removed
        completely, and compaction may have removed the last records before ``end``.
        """
        count = self._index_of(end)
        if count == len(self._batches):
            return
        first, before = self._batches[count], self.end
        self._size = first.position
        del self._batches[count:], self._bases[count:]
        kept = max(bisect_right(self.segments, first.base_offset, key=_base_offset), 1)
        del self.segments[kept:]
        last = self._batches[-1].last_offset + 1 if self._batches else self.segments[-1].base_offset
        self.end = max(last, self.start)  # as after a restart: compaction may have removed the records before ``end``
        active = LogSegment(self.segments[-1].base_offset)
        self.segments[-1] = active
        batches = self.segment_batches(kept - 1)
        for stored in batches:
            active.add(stored.last_offset, len(stored.data), stored.max_timestamp, -1)
        if self.listener is not None:
            self.listener.replaced(active.base_offset, before + 1, batches)  # an empty segment may begin at the end

    def read(self, offset: int, limit: int, *, at_least_one: bool, before: int | None = None) -> bytes:
        """Return whole batches of one segment as bytes, at most ``limit`` bytes, beginning with the batch that contains
        ``offset``.

        The result is b"" if no batch fits.

        Args:
            offset: the fetch offset.
            limit: maximum size in bytes.
            at_least_one: True to return the first batch even if it exceeds the limit, so that a consumer can make
                progress.
            before: return only batches whose base offset is below this offset, such as the last stable offset; None for
                all.
        """
        parts: list[bytes] = []
        size = 0
        first, last = self._index_of(offset), len(self._batches)
        if len(self.segments) > 1:
            last = self._end_of_segment(first)
        if before is not None:
            last = min(last, bisect_left(self._bases, before))
        for index in range(first, last):
            data = self._batches[index].data
            size += len(data)
            if size > limit and not (at_least_one and not parts):
                break
            parts.append(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def select(
        self, offset: int, limit: int, until: int, *, at_least_one: bool, before: int | None = None
    ) -> list[StoredBatch]:
        """Return whole batches of one segment, at most ``limit`` bytes, beginning with the batch that contains
        ``offset``.

        The list is empty if no batch fits.

        Args:
            offset: the fetch offset.
            limit: maximum size in bytes.
            until: return no batches after the one that contains this offset.
            at_least_one: True to return the first batch even if it exceeds the limit.
            before: return only batches whose base offset is below this offset, such as the last stable offset; None for
                all.
        """
        first = self._index_of(offset)
        if first == len(self._batches):
            return []
        last = min(bisect_right(self._bases, until), self._end_of_segment(first))
        if before is not None:
            last = min(last, bisect_left(self._bases, before))
        position = self._batches[first].position + limit
        fitting = bisect_right(self._batches, position, first, key=_end_position)
        return self._batches[first : min(last, max(fitting, first + at_least_one))]

    def spans_segments(self, offset: int, end: int) -> bool:
        """Return whether ``offset`` and a later offset, ``end``, are in different segments."""
        return self._segment_of(offset) != self._segment_of(end)

    def size_from(self, offset: int, before: int) -> int:
        """Return the total size of the batches between two offsets, in bytes.

        Args:
            offset: the first counted batch contains this offset.
            before: base offset of the first batch that is not counted.
        """
        first, last = self._index_of(offset), bisect_left(self._bases, before)
        if first >= last:
            return 0
        return _end_position(self._batches[last - 1]) - self._batches[first].position

    def offset_after(self, offset: int, size: int) -> int:
        """Return the base offset of the first batch that begins ``size`` or more bytes after the start of the batch
        with ``offset``.

        If there is no such batch, return the log end offset.
        """
        first = self._index_of(offset)
        if first == len(self._batches):
            return self.end
        index = bisect_left(self._batches, self._batches[first].position + size, key=lambda stored: stored.position)
        return self._bases[index] if index < len(self._bases) else self.end

    def at_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record whose timestamp is at least ``timestamp``; None if all are
        earlier.

        ``timestamp``: milliseconds since 1970.

        Raises: kwire.DecodeError if a batch cannot be decoded.
        """
        for stored in self._batches:
            if stored.max_timestamp >= timestamp:
                for record in _records(stored):
                    if record.timestamp >= timestamp and record.offset >= self.start:
                        return record.offset, record.timestamp
        return None

    def at_largest_timestamp(self) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record with the largest timestamp; None for an empty log.

        Raises: kwire.DecodeError if its batch cannot be decoded.
        """
        if not self._batches:
            return None
        largest = max(self._batches, key=lambda stored: stored.max_timestamp)
        record = max(_records(largest), key=lambda record: record.timestamp)
        return record.offset, record.timestamp

    def _index_of(self, offset: int) -> int:
        """Return the index of the first batch that ends at or after ``offset``; the number of batches without such a
        batch.
        """
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return 0
        return index + (self._batches[index].last_offset < offset)

    def _segment_of(self, offset: int) -> int:
        """Return the index of the segment that contains ``offset``."""
        return max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)

    def _end_of_segment(self, index: int) -> int:
        """Return the index after the last batch of a segment. ``index``: index of any batch in the segment."""
        if len(self.segments) <= 1 or index == len(self._batches):
            return len(self._batches)
        following = self._segment_of(self._bases[index]) + 1
        if following == len(self.segments):
            return len(self._batches)
        return bisect_left(self._bases, self.segments[following].base_offset)


def _base_offset(segment: LogSegment) -> int:
    return segment.base_offset


def _end_position(stored: StoredBatch) -> int:
    return stored.position + len(stored.data)


def _records(stored: StoredBatch) -> Iterator[Record]:
    """Return the records of a batch (``stored``).

    Raises: kwire.DecodeError if the records cannot be decoded; LimitError if they are more than MAX_RECORDS_PER_BATCH.
    """
    batch = read_batch(stored.data)
    if batch.count > MAX_RECORDS_PER_BATCH:
        text = f"{batch.count} records in one batch exceed the limit of {MAX_RECORDS_PER_BATCH}"
        raise LimitError(text, message="RecordBatch")
    return batch.records()
