"""The log of one partition, in memory: batches as they came, but for base offset and leader epoch."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Protocol

from kwire import LimitError
from kwire.records.batch import Batch, Record, read_batch, rebase

MOST_RECORDS = 100_000  # records of one batch; a small one can claim millions, and everybody would wait


@dataclass(slots=True)
class Stored:
    """One batch. ``max_timestamp`` in milliseconds since 1970. ``place``: bytes of the log that stand before it."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    place: int
    data: bytes


class Copy(Protocol):
    """A second place for the same log, as a file, which hears of every change after it was made."""

    def appended(self, stored: Stored, leader_epoch: int) -> None: ...

    def cut(self, start: int) -> None:
        """What is before this offset is gone."""
        ...

    def replaced(self, batches: Sequence[Stored]) -> None:
        """These are all the batches now."""
        ...


class PartitionLog:
    """``start``: the first offset there is; ``end``: the next to be given, which is also the high watermark.

    ``copy``: None if memory is all there is.
    """

    def __init__(self, copy: Copy | None = None) -> None:
        self.copy = copy
        self.start = 0
        self.end = 0
        self._batches: list[Stored] = []
        self._bases: list[int] = []
        self._size = 0

    def append(self, batch: Batch, leader_epoch: int) -> int:
        """Store a batch; the offset of its first record."""
        base = self.end
        last = base + batch.last_offset_delta
        data = rebase(batch, base, leader_epoch)
        stored = Stored(base, last, batch.max_timestamp, self._size, data)
        self._batches.append(stored)
        self._bases.append(base)
        self._size += len(data)
        self.end = last + 1
        if self.copy is not None:
            self.copy.appended(stored, leader_epoch)
        return base

    def batches(self) -> Iterator[Batch]:
        """All of them, from the first on that there is."""
        return (read_batch(stored.data) for stored in self._batches)

    def put_back(self, batches: Iterable[Batch], start: int, end: int) -> None:
        """The batches of a copy, in order, into a log that is empty, with their offsets. ``copy`` does not hear of it.

        ``start``, ``end``: of the log; batches may be missing anywhere.
        """
        self._fill(batches)
        self.start, self.end = start, end

    def stored(self) -> tuple[Stored, ...]:
        """All of them, as they are stored now."""
        return tuple(self._batches)

    def begins_with(self, stored: Sequence[Stored]) -> bool:
        """True if these are its first batches still."""
        return len(stored) <= len(self._batches) and all(map(is_, stored, self._batches))

    def replace(self, batches: Iterable[Batch], count: int) -> None:
        """Replace the first ``count`` batches by these, in order, with offsets of their own: what compaction leaves.

        The last batch of all must end where the log ends, even if it has no records: nobody may get an offset twice.
        Raises: ValueError.
        """
        found, remain = list(batches), self._batches[count:]
        last = remain[-1].last_offset if remain else found[-1].last_offset if found else None
        if last is None or last + 1 != self.end:
            raise ValueError(f"the batches of a log that ends at {self.end} cannot end elsewhere")
        self._batches.clear()
        self._bases.clear()
        self._size = 0
        self._fill(found)
        for stored in remain:
            self._batches.append(replace(stored, place=self._size))
            self._bases.append(stored.base_offset)
            self._size += len(stored.data)
        if self.copy is not None:
            self.copy.replaced(tuple(self._batches))

    @property
    def written(self) -> int:
        """The largest timestamp of its last batch, milliseconds since 1970; there has to be one."""
        return self._batches[-1].max_timestamp

    @property
    def size(self) -> int:
        """Bytes of all batches that are there."""
        return self._size - self._batches[0].place if self._batches else 0

    def delete_before(self, offset: int) -> None:
        """Begin at ``offset``, which is not behind the end; what is before is gone, as far as it is whole batches."""
        if offset <= self.start:
            return
        self.start = offset
        gone = self._index_of(offset)
        del self._batches[:gone], self._bases[:gone]
        if self.copy is not None:
            self.copy.cut(offset)

    def read(self, offset: int, limit: int, *, at_least_one: bool, before: int | None = None) -> bytes:
        """Whole batches from the one that holds ``offset`` on, at most ``limit`` bytes.

        ``at_least_one``: the first batch comes even if it is larger, else a consumer would never get past it.
        ``before``: batches from this offset on are not there yet for whoever reads.
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

    def beyond(self, offset: int, size: int) -> int:
        """The offset of the first batch that begins ``size`` bytes or more behind the one that holds ``offset``."""
        first = self._index_of(offset)
        if first == len(self._batches):
            return self.end
        index = bisect_left(self._batches, self._batches[first].place + size, key=lambda stored: stored.place)
        return self._bases[index] if index < len(self._bases) else self.end

    def at_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """Offset and timestamp of the first record at or after a time; None if there is none.

        Raises: kwire.DecodeError if that batch cannot be opened.
        """
        for stored in self._batches:
            if stored.max_timestamp >= timestamp:
                for record in _opened(stored):
                    if record.timestamp >= timestamp and record.offset >= self.start:
                        return record.offset, record.timestamp
        return None

    def at_largest_timestamp(self) -> tuple[int, int] | None:
        """Offset and timestamp of the record with the largest timestamp, the first of several; None if empty.

        Raises: kwire.DecodeError if that batch cannot be opened.
        """
        if not self._batches:
            return None
        largest = max(self._batches, key=lambda stored: stored.max_timestamp)
        record = max(_opened(largest), key=lambda record: record.timestamp)
        return record.offset, record.timestamp

    def _index_of(self, offset: int) -> int:
        """Where the batch that holds ``offset`` is, or the next one; past the end if it is not there yet."""
        if offset >= self.end:
            return len(self._batches)
        found = max(bisect_right(self._bases, offset) - 1, 0)
        gap = found < len(self._batches) and self._batches[found].last_offset < offset
        return found + gap

    def _fill(self, batches: Iterable[Batch]) -> None:
        size = self._size
        for batch in batches:
            self._batches.append(Stored(batch.base_offset, batch.last_offset, batch.max_timestamp, size, batch.data))
            self._bases.append(batch.base_offset)
            size += len(batch.data)
        self._size = size


def _opened(stored: Stored) -> Iterator[Record]:
    """The records of a batch. Raises: kwire.DecodeError, also for one with more records than anybody sends."""
    batch = read_batch(stored.data)
    if batch.count > MOST_RECORDS:
        raise LimitError(f"{batch.count} records in one batch", message="RecordBatch")
    return batch.records()
