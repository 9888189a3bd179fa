"""The log of one partition, in memory: batches as producers sent them, with base offset and leader epoch set."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Protocol

from kwire import LimitError
from kwire.records.batch import Batch, Record, read_batch, rebase

MAX_RECORDS_PER_BATCH = 100_000  # a small compressed batch can hold millions, which would block the cluster


@dataclass(slots=True)
class StoredBatch:
    """One batch of a log.

    Attributes:
        base_offset: offset of the first record.
        last_offset: offset of the last record.
        max_timestamp: largest timestamp, milliseconds since 1970.
        position: bytes of the log before this batch.
        data: the encoded batch.
    """

    base_offset: int
    last_offset: int
    max_timestamp: int
    position: int
    data: bytes


class LogListener(Protocol):
    """A listener that is called after each change of a log, to store the log on disk as well."""

    def appended(self, stored: StoredBatch, leader_epoch: int) -> None:
        """Record that a batch was appended."""
        ...

    def deleted_before(self, start: int) -> None:
        """Record that the records before the log start offset ``start`` were deleted."""
        ...

    def replaced(self, batches: Sequence[StoredBatch]) -> None:
        """Record that the log now consists of these batches."""
        ...


class PartitionLog:
    """The batches of one partition.

    Attributes:
        start: log start offset.
        end: log end offset, which is also the high watermark.
        listener: is called after each change; None for a log in memory only.
    """

    def __init__(self, listener: LogListener | None = None) -> None:
        self.listener = listener
        self.start = 0
        self.end = 0
        self._batches: list[StoredBatch] = []
        self._bases: list[int] = []
        self._size = 0

    def append(self, batch: Batch, leader_epoch: int) -> int:
        """Append a batch and return its base offset."""
        base = self.end
        last = base + batch.last_offset_delta
        data = rebase(batch, base, leader_epoch)
        stored = StoredBatch(base, last, batch.max_timestamp, self._size, data)
        self._batches.append(stored)
        self._bases.append(base)
        self._size += len(data)
        self.end = last + 1
        if self.listener is not None:
            self.listener.appended(stored, leader_epoch)
        return base

    def batches(self) -> Iterator[Batch]:
        """Yield all batches in order."""
        return (read_batch(stored.data) for stored in self._batches)

    def restore(self, batches: Iterable[Batch], start: int, end: int) -> None:
        """Fill an empty log with batches read from disk, which have their offsets; the listener is not called.

        Args:
            batches: in order; after compaction some may be missing anywhere.
            start: log start offset.
            end: log end offset.
        """
        self._fill(batches)
        self.start, self.end = start, end

    def stored(self) -> tuple[StoredBatch, ...]:
        """Return all batches as stored."""
        return tuple(self._batches)

    def begins_with(self, stored: Sequence[StoredBatch]) -> bool:
        """Return whether the log begins with these objects, compared by identity."""
        return len(stored) <= len(self._batches) and all(map(is_, stored, self._batches))

    def replace(self, batches: Iterable[Batch], count: int) -> None:
        """Replace the first ``count`` batches by compacted ones, in order, which have their offsets.

        The last batch of the log must end at the log end offset, even if it has no records, so that no offset is
        assigned twice. Raises: ValueError.
        """
        compacted, remaining = list(batches), self._batches[count:]
        last = remaining[-1].last_offset if remaining else compacted[-1].last_offset if compacted else None
        if last is None or last + 1 != self.end:
            raise ValueError(f"the last offset after compaction is {last}, but the log ends at offset {self.end - 1}")
        self._batches.clear()
        self._bases.clear()
        self._size = 0
        self._fill(compacted)
        for stored in remaining:
            self._batches.append(replace(stored, position=self._size))
            self._bases.append(stored.base_offset)
            self._size += len(stored.data)
        if self.listener is not None:
            self.listener.replaced(tuple(self._batches))

    @property
    def last_timestamp(self) -> int:
        """The largest timestamp of the last batch, milliseconds since 1970; the log must not be empty."""
        return self._batches[-1].max_timestamp

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self._size - self._batches[0].position if self._batches else 0

    def delete_before(self, offset: int) -> None:
        """Advance the log start offset to ``offset`` and delete the batches that lie wholly before it.

        ``offset`` must not exceed the log end offset; nothing happens if it is below the log start offset.
        """
        if offset <= self.start:
            return
        self.start = offset
        count = self._index_of(offset)
        del self._batches[:count], self._bases[:count]
        if self.listener is not None:
            self.listener.deleted_before(offset)

    def truncate(self, end: int) -> None:
        """Remove the batches that end after offset ``end``, as a replica does that follows a leader with fewer records.

        The log then ends at ``end``, or before it if a batch contains that offset.
        """
        count = self._index_of(end)
        if count == len(self._batches):
            return
        first = self._batches[count]
        self.end = max(first.base_offset, self.start)
        self._size = first.position
        del self._batches[count:], self._bases[count:]
        if self.listener is not None:
            self.listener.replaced(tuple(self._batches))

    def read(self, offset: int, limit: int, *, at_least_one: bool, before: int | None = None) -> bytes:
        """Return whole batches, from the one that contains ``offset`` on, of at most ``limit`` bytes.

        Args:
            offset: the fetch offset.
            limit: maximum size in bytes.
            at_least_one: return the first batch even if it exceeds the limit, so that a consumer can make progress.
            before: return only batches with a lower base offset, such as the last stable offset.
        """
        parts: list[bytes] = []
        size = 0
        last = len(self._batches) if before is None else bisect_left(self._bases, before)
        for index in range(self._index_of(offset), last):
            data = self._batches[index].data
            if size + len(data) > limit and not (at_least_one and not parts):
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    def offset_after(self, offset: int, size: int) -> int:
        """Return the base offset of the first batch that begins at least ``size`` bytes after the one with ``offset``.

        If there is no such batch, return the log end offset.
        """
        first = self._index_of(offset)
        if first == len(self._batches):
            return self.end
        index = bisect_left(self._batches, self._batches[first].position + size, key=lambda stored: stored.position)
        return self._bases[index] if index < len(self._bases) else self.end

    def at_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record at or after ``timestamp`` (ms since 1970), or None.

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
        """Return the index of the batch that contains ``offset``, or of the next one; the count of batches if none."""
        if offset >= self.end:
            return len(self._batches)
        index = max(bisect_right(self._bases, offset) - 1, 0)
        in_gap = index < len(self._batches) and self._batches[index].last_offset < offset
        return index + in_gap

    def _fill(self, batches: Iterable[Batch]) -> None:
        size = self._size
        for batch in batches:
            stored = StoredBatch(batch.base_offset, batch.last_offset, batch.max_timestamp, size, batch.data)
            self._batches.append(stored)
            self._bases.append(batch.base_offset)
            size += len(batch.data)
        self._size = size


def _records(stored: StoredBatch) -> Iterator[Record]:
    """Return the records of a batch. Raises: kwire.DecodeError, also for more than MAX_RECORDS_PER_BATCH records."""
    batch = read_batch(stored.data)
    if batch.count > MAX_RECORDS_PER_BATCH:
        text = f"{batch.count} records in one batch exceed the limit of {MAX_RECORDS_PER_BATCH}"
        raise LimitError(text, message="RecordBatch")
    return batch.records()
