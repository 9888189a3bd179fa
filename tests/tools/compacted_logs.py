"""Compaction of a log to given batches."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.records.batch import read_batch
from mockbroker.topics.log import CompactedSegment, PartitionLog, StoredBatch
from mockbroker.topics.log_segments import LogSegment


def compact_to(log: PartitionLog, batches: Iterable[bytes]) -> None:
    """Replace all segments of a log by one with these batches, followed by a new active segment."""
    log.roll()
    segment = LogSegment(log.segments[0].base_offset)
    stored = []
    for data in batches:
        batch = read_batch(data)
        stored.append(StoredBatch(batch.base_offset, batch.last_offset, batch.max_timestamp, 0, data))
        segment.add(batch.last_offset, len(data), batch.max_timestamp, -1)
    log.replace_segments(len(log.segments) - 1, [CompactedSegment(segment, stored)])
