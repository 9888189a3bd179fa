"""Compaction of a partition: of each key the last record stays, at its offset.

What is in an open transaction, and everything behind its begin, stays as it is; so do the last batch, and tombstones
and markers younger than a day (Kafka's delete.retention.ms). Source: Kafka's Cleaner and CleanedTransactionMetadata.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass

from kwire.records.batch import Batch, Record, build_batch, read_batch
from mockbroker.topics.model import Partition

DELETE_RETENTION_MS = 86_400_000
FIRST_COMPACTION = 1 << 20  # bytes of a partition; from then on, when it has doubled
PACE = 2  # bytes that are compacted for each byte that is appended meanwhile, so that it ends before the next is due
BATCH = 100  # bytes that are worth the work on a batch that is not read again
LEAST = 16_384  # and bytes that are compacted at least whenever something is appended


class Compactor:
    """Compacts the partitions of one topic as they grow, a part each time that something is appended."""

    def __init__(self) -> None:
        self._at: dict[int, int] = {}  # bytes, by partition
        self._running: dict[int, _Running] = {}

    def compact_if_grown(self, partition: Partition, now_ms: int) -> None:
        """The partition has grown. ``now_ms``: milliseconds since 1970."""
        size = partition.log.size
        running = self._running.get(partition.index)
        if running is None or running.partition is not partition:
            if size <= self._at.get(partition.index, FIRST_COMPACTION):
                return
            running = self._running[partition.index] = _Running(partition, compaction(partition, now_ms), size)
        if not running.goes_on(LEAST + PACE * max(size - running.size, 0)):
            del self._running[partition.index]
            self._at[partition.index] = max(FIRST_COMPACTION, 2 * partition.log.size)
        running.size = size


@dataclass(slots=True)
class _Running:
    """A compaction that has begun. ``size``: of the log, when it last went on, in bytes."""

    partition: Partition
    steps: Generator[int, None, None]
    size: int

    def goes_on(self, size: int) -> bool:
        """Compact so many bytes; False once all is done."""
        for done in self.steps:
            size -= done
            if size <= 0:
                return True
        return False


def compact(partition: Partition, now_ms: int) -> None:
    """Rewrite the log of a partition, with the same offsets."""
    for _ in compaction(partition, now_ms):
        pass


def compaction(partition: Partition, now_ms: int) -> Generator[int, None, None]:
    """The work of a compaction, batch by batch: yields the bytes of each that it has read.

    Batches that are appended meanwhile stay as they are. If the first ones are replaced or deleted, nothing is done.
    """
    log, until = partition.log, partition.last_stable
    stored = log.stored()
    if not stored:
        return
    until = min(until, stored[-1].base_offset)  # the last one says where the log ends
    latest = _Latest()
    for number, each in enumerate(stored):
        batch = read_batch(each.data)
        may_be_aborted = batch.transactional and not partition.is_committed(batch)
        if not (batch.control or may_be_aborted):
            latest.add(number, batch)
        yield len(each.data)
    old = stored[: bisect_left(stored, until, key=lambda each: each.base_offset)]
    kept: list[Batch] = []
    open_for: set[int] = set()  # producers with records that are kept and whose marker has not come
    for number, each in enumerate(old):
        batch = read_batch(each.data)
        remaining = _remaining(partition, batch, number, latest, open_for, now_ms)
        if remaining is not None:
            kept.append(remaining)
        yield len(each.data) if latest.count[number] else BATCH
    if log.begins_with(stored):
        log.replace(kept, len(old))
        partition.forget_aborted(until)


class _Latest:
    """The last records of all keys.

    offsets: by key
    count: how many of them are in a batch, by its number
    """

    def __init__(self) -> None:
        self.offsets: dict[bytes, int] = {}
        self.count: Counter[int] = Counter()
        self._batches: dict[bytes, int] = {}  # by key

    def add(self, number: int, batch: Batch) -> None:
        """Add the records of a batch, which comes after those before."""
        for record in batch.records():
            key = record.key or b""
            if key in self._batches:
                self.count[self._batches[key]] -= 1
            self._batches[key] = number
            self.offsets[key] = record.offset
            self.count[number] += 1


def _remaining(
    partition: Partition, batch: Batch, number: int, latest: _Latest, open_for: set[int], now_ms: int
) -> Batch | None:
    """What is left of a batch. The marker of a transaction stays as long as one of its records does."""
    if batch.control:
        stays = batch.producer_id in open_for or now_ms - batch.max_timestamp < DELETE_RETENTION_MS
        open_for.discard(batch.producer_id)
        return batch if stays else None
    if not partition.is_committed(batch) or not latest.count[number]:  # most are superseded, and are not read again
        return None
    records = [record for record in batch.records() if _stays(record, latest.offsets, now_ms)]
    if not records:
        return None
    if batch.transactional:
        open_for.add(batch.producer_id)
    return batch if len(records) == batch.count else _thinned(batch, records)


def _stays(record: Record, last: dict[bytes, int], now_ms: int) -> bool:
    if last[record.key or b""] != record.offset:
        return False
    return record.value is not None or now_ms - record.timestamp < DELETE_RETENTION_MS


def _thinned(batch: Batch, records: list[Record]) -> Batch:
    """The batch with some of its records, from the same offset to the same."""
    data = build_batch(
        records,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        keep_offsets=True,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.transactional,
    )
    return read_batch(data)
