"""Acquisition: choosing which fetched records a member acquires. Source: Kafka's SharePartition.acquire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple, Protocol

from kwire.lazy_dataclass import dataclass
from mockbroker.share.in_flight import ACQUIRED, AVAILABLE, InFlightBatch, Run
from mockbroker.share.share_partition import SharePartition


class AcquireMode(IntEnum):
    """The acquire mode of a ShareFetch: whether ``max_records`` is a strict limit (KIP-1206).

    Source: Kafka's ShareAcquireMode.

    Attributes:
        BATCH_OPTIMIZED: whole record batches are acquired, so there may be more records than ``max_records``.
        RECORD_LIMIT: at most ``max_records`` records are acquired.
    """

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class LogBatch(Protocol):
    """The interface of a record batch of the log, with the properties that acquisition needs."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...


class Acquired(NamedTuple):
    """Consecutive records that were acquired.

    Attributes:
        first: First offset.
        last: Last offset.
        deliveries: Number of deliveries of the records, including this one.
    """

    first: int
    last: int
    deliveries: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class Acquisition:
    """A member's request for records, and the records that it has acquired.

    Attributes:
        member_id: member id.
        mode: the acquire mode.
        batch_size: minimum number of records in each range of newly acquired records; the last range may have fewer.
        max_records: maximum number of records.
        locked_until: end of the acquisition locks, in seconds.
        acquired: the acquired records.
        count: number of the acquired records.
    """

    member_id: str
    mode: AcquireMode
    batch_size: int
    max_records: int
    locked_until: float
    acquired: list[Acquired] = field(default_factory=list)
    count: int = 0

    @property
    def remaining(self) -> int:
        return self.max_records - self.count

    def add(self, acquired: Iterable[Acquired], count: int) -> None:
        """Add acquired records to the result. ``count``: number of the records."""
        self.acquired += acquired
        self.count += count


def acquire(partition: SharePartition, request: Acquisition, fetch_offset: int, batches: Sequence[LogBatch]) -> None:
    """Acquire available records for a member, as many as the limits allow, and add them to ``request.acquired``.

    If the maximum number of records in flight would be exceeded, ``request.max_records`` is reduced.

    Args:
        partition: the share partition.
        request: the request of the member.
        fetch_offset: offset from which the batches were read: ``partition.next_fetch_offset()``.
        batches: record batches of the log, in order. The first batch contains the fetch offset, or is the first batch
            after it if compaction has removed the record.
    """
    if request.max_records <= 0 or not batches or batches[-1].last_offset < partition.start:
        return
    last = _limit(partition, request, fetch_offset, batches[-1].last_offset)
    if request.max_records <= 0:
        return
    base = batches[0].base_offset
    _archive_compacted(partition, fetch_offset, base)
    floor = partition.batches.floor(base)
    if floor is None:
        base = max(base, partition.start)
    elif floor.last >= base:
        base = floor.first
    in_flight = partition.batches.beginning_in(min(batches[0].base_offset, base), last)
    if not in_flight:
        _acquire_new(partition, request, batches, base, last)
        return
    finished = _acquire_again(partition, request, batches, base, last, in_flight)
    if not finished and request.remaining > 0 and in_flight[-1].last < last:
        _acquire_new(partition, request, batches, in_flight[-1].last + 1, last)
    if request.acquired:
        partition.narrow_gap(request.acquired[-1].last + 1)


def _limit(partition: SharePartition, request: Acquisition, fetch_offset: int, last: int) -> int:
    """Limit a request to the maximum number of records in flight, and return the last offset that may be acquired.

    If the maximum is reached, only records that are already in flight can be acquired.

    Args:
        partition: The share partition.
        request: The request, whose ``max_records`` is reduced. The result may be 0 or negative: then no record may be
            acquired.
        fetch_offset: Offset from which the batches were read.
        last: Last offset of the batches.
    """
    room = partition.max_in_flight - partition.in_flight_count
    if room > 0 or fetch_offset > partition.end:
        request.max_records = min(request.max_records, room)
        return last
    request.max_records = min(request.max_records, partition.end - fetch_offset + 1)
    return min(last, partition.end)


def _archive_compacted(partition: SharePartition, fetch_offset: int, base: int) -> None:
    """Set available records to the state archived if compaction has removed them from the log.

    These are the in-flight records from the fetch offset to the offset before the first fetched batch.

    Args:
        partition: The share partition.
        fetch_offset: Offset from which the batches were read.
        base: Base offset of the first fetched batch.
    """
    if not len(partition.batches) or fetch_offset >= base:
        return
    floor = partition.batches.floor(fetch_offset)
    first = floor.first if floor is not None and floor.last >= fetch_offset else fetch_offset
    compacted = partition.batches.beginning_in(first, base - 1)
    if partition.archive(fetch_offset, base - 1, AVAILABLE, compacted, counts=True):
        partition.may_have_available = True


# --- records that are not in flight ---


def _acquire_new(
    partition: SharePartition, request: Acquisition, batches: Sequence[LogBatch], first: int, last: int
) -> None:
    """Acquire records that are not in flight.

    With AcquireMode.BATCH_OPTIMIZED, the last record batch is acquired as a whole, even if this exceeds the maximum
    number of records. With AcquireMode.RECORD_LIMIT, the maximum is never exceeded.

    Args:
        partition: the share partition.
        request: the request of the member.
        batches: record batches of the log.
        first: first offset to acquire.
        last: last offset to acquire.
    """
    limit = request.remaining
    if not len(partition.batches):
        first = max(first, partition.end)
    end = last
    if limit < last - first + 1:
        end = _end_of_batch(batches, first + limit - 1)
        if partition.has_gaps:
            end = min(end, last)
    strict = request.mode is AcquireMode.RECORD_LIMIT
    ranges = _divide(request, batches, first, end)
    if strict and ranges[0].size > limit:
        acquired = _acquire_part(partition, request, ranges[0], first + limit - 1)
    else:
        acquired = ranges
        for each in ranges:
            run = Run(each.first, each.last, AVAILABLE, 0)
            partition.lock(run, request.member_id, request.locked_until)
            partition.batches.add(InFlightBatch(run))
    if partition.batches.first.first == first:
        partition.start = first
    partition.end = max(partition.end, end)
    end = acquired[0].last if strict else end
    partition.narrow_gap(end + 1)
    request.add(acquired, end - first + 1)


def _end_of_batch(batches: Sequence[LogBatch], offset: int) -> int:
    """Return the last offset of the record batch that contains ``offset``; ``offset`` itself if no batch contains it.

    ``batches``: record batches of the log, in order.
    """
    low, high = 0, len(batches)
    while low < high:
        middle = (low + high) // 2
        if batches[middle].base_offset <= offset:
            low = middle + 1
        else:
            high = middle
    last = batches[low - 1].last_offset if low else -1
    return max(last, offset)


def _divide(request: Acquisition, batches: Sequence[LogBatch], first: int, last: int) -> list[Acquired]:
    """Return a range of offsets to acquire, divided into smaller ranges.

    All ranges except the first begin at a record batch of the log. All ranges except the last have at least
    ``request.batch_size`` offsets. With AcquireMode.RECORD_LIMIT, the range is not divided.

    Args:
        request: The request of the member.
        batches: Record batches of the log.
        first: First offset of the range.
        last: Last offset of the range.
    """
    ranges: list[Acquired] = []
    if request.mode is not AcquireMode.RECORD_LIMIT and last - first + 1 > request.batch_size:
        for batch in batches:
            base = batch.base_offset
            if base > last:
                break
            if base - first >= request.batch_size and base > first:
                ranges.append(Acquired(first, base - 1, 1))
                first = base
    ranges.append(Acquired(first, last, 1))
    return ranges


def _acquire_part(partition: SharePartition, request: Acquisition, batch: Acquired, last: int) -> list[Acquired]:
    """Add a batch to the in-flight records, acquire its first records, and return the acquired records.

    The remaining records of the batch are in flight and available, so that another request can acquire them.

    Args:
        partition: the share partition.
        request: the request of the member.
        batch: the range of offsets to add.
        last: last offset to acquire.
    """
    run = Run(batch.first, batch.last, AVAILABLE, 0)
    in_flight = InFlightBatch(run)
    in_flight.by_offset = True
    (acquired,) = in_flight.runs_between(batch.first, last)
    partition.lock(acquired, request.member_id, request.locked_until)
    partition.batches.add(in_flight)
    partition.may_have_available = True
    return [Acquired(batch.first, last, 1)]


# --- records that are in flight ---


def _acquire_again(
    partition: SharePartition,
    request: Acquisition,
    batches: Sequence[LogBatch],
    base: int,
    last: int,
    in_flight: Sequence[InFlightBatch],
) -> bool:
    """Acquire available records that are already in flight, and records in the gaps between in-flight batches.

    Args:
        partition: The share partition.
        request: The request of the member.
        batches: Record batches of the log.
        base: First offset that may be acquired.
        last: Last offset that may be acquired.
        in_flight: The in-flight batches between these offsets.

    Returns:
        True if no more records may be acquired.
    """
    first = batches[0].base_offset
    gap_start = base
    for batch in in_flight:
        if request.remaining <= 0:
            break
        if partition.has_gaps:
            if gap_start < batch.first:
                _acquire_new(partition, request, batches, gap_start, batch.first - 1)
            gap_start = batch.last + 1
            if request.remaining <= 0:
                break
        throttled = _is_throttled(partition, batch, first, last)
        if throttled and request.count > 0:
            return True
        whole = batch.first >= first and batch.last <= last
        limited = request.mode is AcquireMode.RECORD_LIMIT and batch.size > request.remaining
        if not whole or batch.by_offset or limited or throttled:
            if not batch.by_offset:
                if batch.whole.state is not AVAILABLE:
                    continue
                batch.by_offset = True
            count = _acquire_offsets(partition, request, batch, first, last)
            if throttled and count > 0:
                return True
        elif batch.whole.state is AVAILABLE:
            partition.lock(batch.whole, request.member_id, request.locked_until)
            request.add([Acquired(batch.first, batch.last, batch.whole.deliveries)], batch.size)
    return False


def _is_throttled(partition: SharePartition, batch: InFlightBatch, first: int, last: int) -> bool:
    """Return whether some available records were delivered so often that only few records may be acquired at a time.

    Args:
        partition: The share partition.
        batch: The in-flight batch that contains the records.
        first: First offset of the records.
        last: Last offset of the records.
    """
    limit = partition.throttle_from
    if not batch.by_offset:
        return batch.whole.state is AVAILABLE and batch.whole.deliveries >= limit
    return any(
        run.state is AVAILABLE and run.deliveries >= limit and run.last >= first and run.first <= last
        for run in batch.runs
    )


def _acquire_offsets(
    partition: SharePartition, request: Acquisition, batch: InFlightBatch, first: int, last: int
) -> int:
    """Acquire single available records of a batch, and return their number.

    Of records that were delivered often, fewer are acquired at each further delivery. In its last possible delivery,
    such a record is acquired alone. So a bad record does not use up the deliveries of the records around it.

    Args:
        partition: The share partition.
        request: The request of the member.
        batch: The in-flight batch.
        first: First offset to acquire.
        last: Last offset to acquire.
    """
    limit = request.remaining if request.mode is AcquireMode.RECORD_LIMIT else batch.size
    found: list[Acquired] = []
    count = 0
    throttle: int | None = None
    for run in _available(batch, max(first, batch.first), min(last, batch.last)):
        final = partition.max_deliveries > 2 and run.deliveries == partition.max_deliveries - 1
        if final and count > 0:
            break
        if run.deliveries >= partition.throttle_from and throttle is None:
            throttle = max(1, batch.size >> (run.deliveries - partition.throttle_from + 1))
        taken = 1 if final else min(run.size, limit - count)
        if throttle is not None and throttle > count:  # else more were acquired before, and Kafka does not throttle
            taken = min(taken, throttle - count)
        (part,) = batch.runs_between(run.first, run.first + taken - 1)
        partition.lock(part, request.member_id, request.locked_until)
        if found and found[-1].last + 1 == part.first and found[-1].deliveries == part.deliveries:
            found[-1] = found[-1]._replace(last=part.last)
        else:
            found.append(Acquired(part.first, part.last, part.deliveries))
        count += taken
        if final or count in (limit, throttle):
            break
    request.add(found, count)
    return count


def _available(batch: InFlightBatch, first: int, last: int) -> list[Run]:
    """Return the available runs (consecutive offsets with the same state) of a batch between two offsets.

    Runs that cross one of the two offsets are split there.

    Args:
        batch: The in-flight batch.
        first: First offset.
        last: Last offset.
    """
    batch.runs_between(first, last)
    return [run for run in batch.runs if run.state is AVAILABLE and first <= run.first and run.last <= last]


# --- aborted transactions ---


def remove_aborted(partition: SharePartition, request: Acquisition, aborted: Iterable[LogBatch]) -> None:
    """Archive the acquired records of aborted transactions, and remove them from the result of a request.

    Args:
        partition: The share partition.
        request: The request, after ``acquire``.
        aborted: Record batches of aborted transactions, in order.
    """
    for batch in aborted:
        floor = partition.batches.floor(batch.base_offset)
        first = batch.base_offset if floor is None else floor.first
        in_flight = partition.batches.beginning_in(first, batch.last_offset)
        partition.archive(batch.base_offset, batch.last_offset, ACQUIRED, in_flight, counts=True)
        request.acquired = [
            part for each in request.acquired for part in _without(each, batch.base_offset, batch.last_offset)
        ]
    request.count = sum(each.size for each in request.acquired)


def _without(acquired: Acquired, first: int, last: int) -> list[Acquired]:
    """Return the parts of a range of acquired records that are outside of the offsets from ``first`` to ``last``.

    The result has 0 to 2 ranges.
    """
    if acquired.last < first or acquired.first > last:
        return [acquired]
    parts = [acquired._replace(last=first - 1), acquired._replace(first=last + 1)]
    return [part for part in parts if part.first <= part.last]
