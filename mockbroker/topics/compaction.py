"""Compaction of a log: only the latest record of each key is retained, at its original offset.

Tombstones and the markers of transactions without records are retained for ``delete.retention.ms`` after the first
compaction that finds them. The last batch of an active producer, and the last batch of a compaction, are retained even
without records. Source: Kafka's Cleaner and CleanedTransactionMetadata, MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import field

from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch, Record, build_batch, read_batch
from mockbroker.topics.cleanable import CleanableLog
from mockbroker.topics.log import CompactedSegment, StoredBatch
from mockbroker.topics.log_segments import OFFSETS_IN_A_SEGMENT, LogSegment
from mockbroker.topics.model import Aborted, Partition
from mockbroker.topics.producers import Producer

DELETE_RETENTION_MS = 86_400_000  # default of delete.retention.ms
COST_PER_RECORD = 50  # bytes, in the cost of a step


def compaction(
    partition: Partition, cleanable: CleanableLog, now_ms: int, delete_retention_ms: int = DELETE_RETENTION_MS
) -> Generator[int, None, None]:
    """Compact a part of a partition's log. After each batch, yield the processing cost of the batch, as a number of
    bytes.

    At the end, the new segments replace the old segments, and ``cleaned_until`` and ``aborted`` of the partition are
    updated.

    Batches that are appended during the compaction are not changed. If records are deleted from the log during the
    compaction, or a different compaction replaces segments, the log remains as it is.

    Args:
        partition: the partition.
        cleanable: the part of the partition's log to compact.
        now_ms: the current time, milliseconds since 1970.
        delete_retention_ms: time for which tombstones and markers are retained, milliseconds (delete.retention.ms).

    Raises: kwire.DecodeError for a batch whose records cannot be decoded.
    """
    log, count = partition.log, cleanable.segments
    segments, start = log.segments[:count], log.start
    batches = [log.segment_batches(index) for index in range(count)]
    latest = _LatestRecords(cleanable.first_dirty)
    transactions = _Transactions(partition.aborted, cleanable.first_dirty)
    for segment, stored_batches in zip(segments, batches, strict=True):
        if segment.last_offset < cleanable.first_dirty:
            continue
        for stored in stored_batches:
            batch = read_batch(stored.data)
            if batch.control:
                transactions.read_marker(batch)
            elif not transactions.read_batch(batch):
                latest.add(batch)
            yield _cost(batch)
    cleaner = _Cleaner(partition, cleanable.until, latest, now_ms, delete_retention_ms)
    compacted: list[CompactedSegment] = []
    for first, last in _groups(segments, log.limits.size):
        group = _CompactedGroup(segments[first].base_offset)
        for stored in (each for index in range(first, last) for each in batches[index]):
            batch = read_batch(stored.data)
            group.add(stored, cleaner.retained(batch))
            yield _cost(batch)
        compacted.append(group.finish(segments[first:last]))
    if log.start == start and log.begins_with_segments(segments):
        log.replace_segments(count, compacted)
        partition.cleaned_until = cleanable.until
        partition.replace_aborted(cleaner.transactions.retained_aborted, cleanable.until)


def _cost(batch: Batch) -> int:
    return len(batch.data) + COST_PER_RECORD * max(batch.count, 0)


def _groups(segments: Sequence[LogSegment], limit: int) -> list[tuple[int, int]]:
    """Divide segments into groups of adjacent segments, and return the first index and the end index of each group.

    The end index is exclusive. Compaction turns each group into one segment. Source: Cleaner.groupSegmentsBySize.

    Args:
        segments: the segments, in order.
        limit: maximum size of a group in bytes; a single larger segment is a group.
    """
    groups: list[tuple[int, int]] = []
    first = 0
    while first < len(segments):
        last, size = first + 1, segments[first].size
        while (
            last < len(segments)
            and size + segments[last].size <= limit
            and segments[last].last_offset - segments[first].base_offset < OFFSETS_IN_A_SEGMENT
        ):
            size += segments[last].size
            last += 1
        groups.append((first, last))
        first = last
    return groups


class _LatestRecords:
    """The latest record of each key in the part of a log that was not compacted before.

    Args:
        first_dirty: first offset that was not compacted before.

    Attributes:
        offsets: offset of the latest record, by key.
        superseded: last offsets of batches without a record to retain: each record has no key, or a later record has
            the same key. These batches need not be decoded again.
    """

    def __init__(self, first_dirty: int) -> None:
        self.offsets: dict[bytes, int] = {}
        self.superseded: set[int] = set()
        self._first_dirty = first_dirty
        self._counts: dict[int, int] = {}  # last offset of a batch -> number of its records that may be retained
        self._holders: dict[bytes, int] = {}  # key -> last offset of the batch with its latest record

    def add(self, batch: Batch) -> None:
        """Add the records of the next batch."""
        holder, counts, holders = batch.last_offset, self._counts, self._holders
        counts[holder] = 0
        for record in batch.records():
            if record.offset < self._first_dirty:
                counts[holder] += 1
            elif (key := record.key) is not None:
                if (before := holders.get(key)) is not None:
                    counts[before] -= 1
                    if not counts[before] and before != holder:
                        self.superseded.add(before)
                holders[key] = holder
                counts[holder] += 1
                self.offsets[key] = record.offset
        if not counts[holder]:
            self.superseded.add(holder)


@dataclass(slots=True)
class _CompactedGroup:
    """The builder of the segment that replaces a group of compacted segments.

    Attributes:
        base_offset: base offset of the new segment.
        batches: the remaining batches.
        changed: True if a record or batch was removed.
    """

    base_offset: int
    batches: list[StoredBatch] = field(default_factory=list)
    changed: bool = False

    def add(self, stored: StoredBatch, retained: Batch | None) -> None:
        if retained is None or retained.data != stored.data:
            self.changed = True
        if retained is not None:
            base, last = retained.base_offset, retained.last_offset
            self.batches.append(StoredBatch(base, last, retained.max_timestamp, 0, retained.data))

    def finish(self, replaced: Sequence[LogSegment]) -> CompactedSegment:
        segment = LogSegment(self.base_offset, last_offset=replaced[-1].last_offset)
        for stored in self.batches:
            segment.add(stored.last_offset, len(stored.data), stored.max_timestamp, replaced[-1].modified_ms)
        segment.modified_ms = replaced[-1].modified_ms
        return CompactedSegment(segment, self.batches, self.changed or len(replaced) > 1)


@dataclass(slots=True)
class _OpenAborted:
    """An aborted transaction whose marker has not been read yet. ``seen``: whether one of its batches was read."""

    aborted: Aborted
    seen: bool = False


class _Transactions:
    """The transactions of a log, tracked while its batches are read in order. Source: CleanedTransactionMetadata.

    Args:
        aborted: the aborted transactions of the partition.
        first: offset of the first batch that is read.

    Attributes:
        retained_aborted: aborted transactions whose batches were read before their markers.
    """

    def __init__(self, aborted: Iterable[Aborted], first: int) -> None:
        self.retained_aborted: list[Aborted] = []
        self._coming = deque(sorted((each for each in aborted if each.last >= first), key=lambda each: each.first))
        self._aborted: dict[int, _OpenAborted] = {}
        self._committed: set[int] = set()

    def read_batch(self, batch: Batch) -> bool:
        """Read the next batch of records; return whether the batch belongs to an aborted transaction."""
        self._begin_until(batch.last_offset)
        if not batch.transactional:
            return False
        if (transaction := self._aborted.get(batch.producer_id)) is not None:
            transaction.seen = True
            return True
        self._committed.add(batch.producer_id)
        return False

    def read_marker(self, batch: Batch) -> bool:
        """Read the next transaction marker; return whether the marker can be removed.

        A marker can be removed if none of the batches read before belongs to the marker's transaction.
        """
        from kwire.records.control import ControlType, control_records  # late: most clusters have no transactions

        self._begin_until(batch.last_offset)
        kind = next((record.type for record in control_records(batch)), None)
        if kind == ControlType.ABORT:
            transaction = self._aborted.pop(batch.producer_id, None)
            if transaction is not None and transaction.seen:
                self.retained_aborted.append(transaction.aborted)
                return False
            return True
        if kind == ControlType.COMMIT:
            needed = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not needed
        return kind is None

    def _begin_until(self, offset: int) -> None:
        while self._coming and self._coming[0].first <= offset:
            aborted = self._coming.popleft()
            self._aborted.setdefault(aborted.producer_id, _OpenAborted(aborted))


class _Cleaner:
    """The compaction rules: they decide whether a batch or record of a log is retained.

    Args:
        partition: the partition.
        until: end offset of the compacted part, exclusive.
        latest: the latest record of each key in the part that was not compacted before.
        now_ms: the current time, milliseconds since 1970.
        delete_retention_ms: time for which tombstones and markers are retained, milliseconds.

    Attributes:
        transactions: the transactions of the batches for which ``retained`` was called.
    """

    def __init__(
        self, partition: Partition, until: int, latest: _LatestRecords, now_ms: int, delete_retention_ms: int
    ) -> None:
        self.transactions = _Transactions(partition.aborted, partition.log.start)
        self._until = until
        self._latest = latest.offsets
        self._superseded = latest.superseded
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._producers: dict[int, Producer] = {each.producer_id: each for each in partition.producers}

    def retained(self, batch: Batch) -> Batch | None:
        """Return the batch as it is stored after compaction, with the retained records only; None if the batch is
        deleted.

        The method must be called for all batches in order, because it tracks their transactions.
        """
        horizon = batch.delete_horizon
        if batch.control:
            unneeded = self.transactions.read_marker(batch)
            discarded = unneeded and horizon is not None and horizon <= self._now_ms
            records = [] if discarded else list(batch.records())
        else:
            unneeded = False
            discarded = self.transactions.read_batch(batch) or batch.last_offset in self._superseded
            records = [] if discarded else [each for each in batch.records() if self._is_retained(each, horizon)]
        if not records:
            return _without_records(batch) if self._must_stay(batch) else None
        sets_horizon = horizon is None and (unneeded or any(r.value is None for r in records))
        if len(records) == batch.count and not sets_horizon:
            return batch
        return _with_records(batch, records, self._horizon_ms if sets_horizon else horizon)

    def _is_retained(self, record: Record, horizon: int | None) -> bool:
        if record.key is None or record.offset < self._latest.get(record.key, 0):
            return False
        return record.value is not None or horizon is None or self._now_ms < horizon

    def _must_stay(self, batch: Batch) -> bool:
        """Return whether a batch without remaining records must be retained.

        The last batch of an active producer and the last batch of the compaction are retained.
        """
        if batch.last_offset + 1 == self._until:
            return True
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return False
        if producer.batches:
            return batch.last_offset == producer.batches[-1].last_offset
        return batch.control and batch.producer_epoch == producer.epoch


def _with_records(batch: Batch, records: list[Record], delete_horizon: int | None) -> Batch:
    """Return a copy of a batch with only some of its records. First offset, last offset and producer are unchanged.

    Args:
        batch: the batch.
        records: the records of the copy.
        delete_horizon: time after which tombstones and markers in the batch are removed, milliseconds since 1970; None
            if the batch has no such time.
    """
    data = build_batch(
        records,
        codec=batch.codec,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        keep_offsets=True,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        log_append_time=batch.max_timestamp if batch.log_append_time else None,
        transactional=batch.transactional,
        control=batch.control,
        delete_horizon=delete_horizon,
    )
    return read_batch(data)


def _without_records(batch: Batch) -> Batch:
    """Return a copy of a batch without records. First offset, last offset, producer and largest timestamp are
    unchanged.
    """
    if not batch.count and batch.delete_horizon is None:
        return batch
    data = build_batch(
        [],
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        log_append_time=batch.max_timestamp if batch.log_append_time else None,
        transactional=batch.transactional,
        control=batch.control,
        max_timestamp=batch.max_timestamp,
    )
    return read_batch(data)
