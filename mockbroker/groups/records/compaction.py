"""Compaction of a partition: of each key the last record stays, at its offset.

What is in an open transaction, and everything behind its begin, stays as it is; so do the last batch, and tombstones
and markers younger than a day (Kafka's delete.retention.ms). Source: Kafka's Cleaner and CleanedTransactionMetadata.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kwire.records.batch import Batch, Record, build_batch, read_batch
from mockbroker.topics.model import Partition

DELETE_RETENTION_MS = 86_400_000
FIRST_COMPACTION = 1 << 20  # bytes of a partition; from then on, when it has doubled


class Compactor:
    """Compacts the partitions of one topic as they grow."""

    def __init__(self) -> None:
        self._at: dict[int, int] = {}  # bytes, by partition

    def look(self, partition: Partition, now_ms: int) -> None:
        """The partition has grown. ``now_ms``: milliseconds since 1970."""
        if partition.log.size > self._at.get(partition.index, FIRST_COMPACTION):
            compact(partition, now_ms)
            self._at[partition.index] = max(FIRST_COMPACTION, 2 * partition.log.size)


def compact(partition: Partition, now_ms: int) -> None:
    """Rewrite the log of a partition, with the same offsets."""
    log, until = partition.log, partition.last_stable
    all_of_it = list(log.batches())
    if not all_of_it:
        return
    until = min(until, all_of_it[-1].base_offset)  # the last one says where the log ends
    old = [batch for batch in all_of_it if batch.base_offset < until]
    young = all_of_it[len(old) :]
    last: dict[bytes, int] = {}
    for batch in all_of_it:
        may_be_aborted = batch.transactional and not partition.is_committed(batch)
        if not (batch.control or may_be_aborted):
            last.update((record.key or b"", record.offset) for record in batch.records())
    kept = _kept(partition, old, _Latest(last), now_ms)
    log.replace([batch.data for batch in [*kept, *young]])
    partition.forget_aborted(until)


class _Latest:
    """The last records of all keys. ``offsets``: by key."""

    def __init__(self, offsets: dict[bytes, int]) -> None:
        self.offsets = offsets
        self._sorted = sorted(offsets.values())

    def count(self, batch: Batch) -> int:
        """How many of them are in a batch."""
        return bisect_right(self._sorted, batch.last_offset) - bisect_left(self._sorted, batch.base_offset)


def _kept(partition: Partition, old: list[Batch], latest: _Latest, now_ms: int) -> Iterator[Batch]:
    """What is left of each batch. The marker of a transaction stays as long as one of its records does."""
    open_for: set[int] = set()  # producers with records that are kept and whose marker has not come
    for batch in old:
        if batch.control:
            if batch.producer_id in open_for or now_ms - batch.max_timestamp < DELETE_RETENTION_MS:
                yield batch
            open_for.discard(batch.producer_id)
            continue
        if not partition.is_committed(batch):
            continue  # it was aborted
        if not latest.count(batch):  # most are like that, and need not be read again
            continue
        records = [record for record in batch.records() if _stays(record, latest.offsets, now_ms)]
        if len(records) == batch.count:
            yield batch
        elif records:
            yield _thinned(batch, records)
        else:
            continue
        if batch.transactional:
            open_for.add(batch.producer_id)


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
