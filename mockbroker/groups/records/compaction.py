"""Compaction of a partition: only the latest record of each key is retained, at an unchanged offset.

Records after the start of an open transaction and the last batch are not compacted. Tombstones and transaction markers
are retained for a day (the default of delete.retention.ms). Source: Kafka's Cleaner and CleanedTransactionMetadata.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass

from kwire.records.batch import Batch, Record, build_batch, read_batch
from mockbroker.topics.model import Partition

DELETE_RETENTION_MS = 86_400_000
FIRST_COMPACTION = 1 << 20  # partition size in bytes at the first compaction; the next ones start when it has doubled
COMPACTED_PER_APPENDED_BYTE = 2  # bytes, so that a compaction ends before the next one starts
SKIPPED_BATCH_COST = 100  # bytes that are counted for a batch that is not decoded again
MIN_COMPACTED_PER_APPEND = 16_384  # minimum number of bytes that are compacted at each append


class Compactor:
    """The compactor of one topic's partitions, which runs one compaction step at each append."""

    def __init__(self) -> None:
        self._thresholds: dict[int, int] = {}  # size in bytes that starts the next compaction, by partition index
        self._running: dict[int, _RunningCompaction] = {}

    def compact_if_grown(self, partition: Partition, now_ms: int) -> None:
        """Continue a running compaction after an append, or start one if the partition has grown enough.

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
                partition, compaction(partition, now_ms), size
            )
        if not running.advance(MIN_COMPACTED_PER_APPEND + COMPACTED_PER_APPENDED_BYTE * max(size - running.size, 0)):
            del self._running[partition.index]
            self._thresholds[partition.index] = max(FIRST_COMPACTION, 2 * partition.log.size)
        running.size = size


@dataclass(slots=True)
class _RunningCompaction:
    """A compaction in progress.

    Attributes:
        partition: The partition.
        steps: Generator that compacts one batch per step and yields the number of compacted bytes.
        size: Size of the log in bytes at the last step.
    """

    partition: Partition
    steps: Generator[int, None, None]
    size: int

    def advance(self, size: int) -> bool:
        """Compact at least ``size`` bytes; return False if the compaction is complete."""
        for done in self.steps:
            size -= done
            if size <= 0:
                return True
        return False


def compact(partition: Partition, now_ms: int) -> None:
    """Compact a partition in a single step. ``now_ms``: the current time in milliseconds since 1970."""
    for _ in compaction(partition, now_ms):
        pass


def compaction(partition: Partition, now_ms: int) -> Generator[int, None, None]:
    """Compact a partition in steps, one for each batch; yield the cost of each step in bytes.

    Batches that are appended in the meantime are not changed. If earlier batches are replaced or deleted in the
    meantime, the compaction has no effect.
    """
    log, until = partition.log, partition.last_stable
    stored = log.stored()
    if not stored:
        return
    until = min(until, stored[-1].base_offset)  # the last batch determines the end of the log
    latest = _LatestRecords()
    for number, each in enumerate(stored):
        batch = read_batch(each.data)
        may_be_aborted = batch.transactional and not partition.is_committed(batch)
        if not (batch.control or may_be_aborted):
            latest.add(number, batch)
        yield len(each.data)
    old = stored[: bisect_left(stored, until, key=lambda each: each.base_offset)]
    kept: list[Batch] = []
    open_for: set[int] = set()  # producers with retained records before their marker
    for number, each in enumerate(old):
        batch = read_batch(each.data)
        remaining = _retained(partition, batch, number, latest, open_for, now_ms)
        if remaining is not None:
            kept.append(remaining)
        yield len(each.data) if latest.count[number] else SKIPPED_BATCH_COST
    if log.begins_with(stored):
        log.replace(kept, len(old))
        partition.forget_aborted(until)


class _LatestRecords:
    """The latest record of each key in a partition.

    Attributes:
        offsets: Offset of the latest record, by key.
        count: Number of records in a batch that are the latest of their key, by batch number.
    """

    def __init__(self) -> None:
        self.offsets: dict[bytes, int] = {}
        self.count: Counter[int] = Counter()
        self._batches: dict[bytes, int] = {}  # by key

    def add(self, number: int, batch: Batch) -> None:
        """Add the records of the next batch; ``number``: position of the batch in the log, from 0."""
        for record in batch.records():
            key = record.key or b""
            if key in self._batches:
                self.count[self._batches[key]] -= 1
            self._batches[key] = number
            self.offsets[key] = record.offset
            self.count[number] += 1


def _retained(
    partition: Partition, batch: Batch, number: int, latest: _LatestRecords, open_for: set[int], now_ms: int
) -> Batch | None:
    """Return the batch with its retained records; None if no record is retained.

    A transaction marker is retained as long as a record of the transaction is retained.
    """
    if batch.control:
        retained = batch.producer_id in open_for or now_ms - batch.max_timestamp < DELETE_RETENTION_MS
        open_for.discard(batch.producer_id)
        return batch if retained else None
    if (
        not partition.is_committed(batch) or not latest.count[number]
    ):  # usually none is a latest record; then the batch is not decoded again
        return None
    records = [record for record in batch.records() if _is_retained(record, latest.offsets, now_ms)]
    if not records:
        return None
    if batch.transactional:
        open_for.add(batch.producer_id)
    return batch if len(records) == batch.count else _with_records(batch, records)


def _is_retained(record: Record, last: dict[bytes, int], now_ms: int) -> bool:
    if last[record.key or b""] != record.offset:
        return False
    return record.value is not None or now_ms - record.timestamp < DELETE_RETENTION_MS


def _with_records(batch: Batch, records: list[Record]) -> Batch:
    """Return a batch with only these records, and with the same first and last offset."""
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
