"""Compaction: random logs against a model of what must be retained; the recorded conversations have Kafka's results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.records.batch import Batch, Record, build_batch, read_batch
from kwire.records.compression import GZIP, NONE
from kwire.records.control import ControlType, build_marker
from mockbroker.topics.cleanable import cleanable_log
from mockbroker.topics.compaction import _CompactedGroup, _groups, _Transactions, compaction
from mockbroker.topics.log_segments import LogSegment, SegmentLimits
from mockbroker.topics.model import Aborted, Partition

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def compact(partition: Partition, now_ms: int = NOW_MS) -> None:
    partition.log.roll()
    cleanable = cleanable_log(partition, now_ms=now_ms)
    if cleanable.dirty_bytes:
        for _ in compaction(partition, cleanable, now_ms):
            pass


def append(partition: Partition, *records: Record, codec: int = NONE, producer: int = -1, sequence: int = -1) -> None:
    epoch = 0 if producer >= 0 else -1
    data = build_batch(list(records), codec=codec, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    partition.append(read_batch(data))


def content(partition: Partition) -> dict[int, tuple[bytes | None, bytes | None, int]]:
    return {
        record.offset: (record.key, record.value, record.timestamp)
        for batch in partition.log.batches()
        for record in batch.records()
    }


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
RECORDS = st.builds(Record, key=KEYS, value=st.one_of(st.none(), st.binary(max_size=3)), timestamp=st.just(1_000))
BATCHES = st.lists(st.tuples(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from([NONE, GZIP])), max_size=12)


@given(BATCHES, st.integers(60, 400), st.sets(st.integers(0, 11)))
def test_latest_records_stay_at_their_offsets(batches, segment_bytes, compacted_after):
    partition = Partition("t", 0, [0])
    partition.log.limits = SegmentLimits(segment_bytes)
    produced: dict[int, tuple[bytes | None, bytes | None, int]] = {}
    for number, (records, codec) in enumerate(batches):
        produced |= {partition.log.end + n: (each.key, each.value, each.timestamp) for n, each in enumerate(records)}
        append(partition, *records, codec=codec)
        if number in compacted_after:
            compact(partition)
    end = partition.log.end
    compact(partition)
    latest = {key: offset for offset, (key, _, _) in produced.items()}
    assert content(partition) == {offset: produced[offset] for offset in sorted(latest.values())}
    assert partition.log.end == end
    stored = partition.log.stored()
    assert all(each.crc_is_right() for each in partition.log.batches())
    assert [each.position for each in stored[1:]] == [each.position + len(each.data) for each in stored[:-1]]
    assert sum(each.size for each in partition.log.segments) == partition.log.size
    append(partition, Record(key=b"x", value=b"", timestamp=1))
    assert partition.log.stored()[-1].base_offset == end


@given(BATCHES)
def test_tombstones_are_removed_a_day_later(batches):
    partition = Partition("t", 0, [0])
    for records, codec in batches:
        append(partition, *records, codec=codec)
    compact(partition)
    append(partition, Record(key=b"x", value=b"1", timestamp=1))
    compact(partition, NOW_MS + DAY_MS - 1)
    tombstones = [offset for offset, (_, value, _) in content(partition).items() if value is None]
    last = {records[n].key: records[n].value for records, _ in batches for n in range(len(records))}
    assert len(tombstones) == list(last.values()).count(None)
    append(partition, Record(key=b"x", value=b"2", timestamp=1))
    compact(partition, NOW_MS + DAY_MS)
    assert None not in {value for _, value, _ in content(partition).values()}


@pytest.mark.parametrize(("committed", "kept"), [(True, {0: b"1", 1: b"2"}), (False, {0: b"1"})])
def test_records_of_aborted_transactions_are_removed(committed: bool, kept: dict[int, bytes]) -> None:
    """CleanedTransactionMetadata: an aborted record is removed, and hides no earlier record of its key."""
    partition = Partition("t", 0, [0])
    append(partition, Record(key=b"a", value=b"1", timestamp=1))
    records = [Record(key=b"b" if committed else b"a", value=b"2", timestamp=1)]
    data = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(read_batch(data))
    partition.end_transaction(7, 0, committed=committed, coordinator_epoch=0, timestamp=NOW_MS)
    compact(partition)
    stored = [batch for batch in partition.log.batches() if not batch.control]
    assert {record.offset: record.value for batch in stored for record in batch.records()} == kept


def test_sequence_numbers_of_producers_survive_a_restart():
    partition = Partition("t", 0, [0])
    for sequence in range(3):
        append(partition, Record(key=b"k", value=b"v"), producer=5, sequence=sequence)
    append(partition, Record(key=b"k", value=b"w"))
    compact(partition)
    assert [(each.count, each.base_sequence) for each in partition.log.batches()] == [(0, 2), (1, -1)]
    restored = Partition("t", 0, [0])
    restored.restore(list(partition.log.batches()), partition.log.start, partition.log.end)
    duplicate = read_batch(build_batch([Record()], producer_id=5, producer_epoch=0, base_sequence=3))
    assert restored.producers.check(duplicate) == 0
    assert [each.last_sequence for each in restored.producers] == [2]


def test_compaction_during_a_deletion_has_no_effect():
    partition = Partition("t", 0, [0])
    for value in (b"1", b"2", b"3"):
        append(partition, Record(key=b"k", value=value))
    partition.log.roll()
    steps = compaction(partition, cleanable_log(partition, now_ms=NOW_MS), NOW_MS)
    next(steps)
    partition.delete_before(1)
    before = partition.log.stored()
    assert list(steps)
    assert partition.log.stored() == before


def marker(kind: ControlType, producer: int, offset: int) -> Batch:
    data = build_marker(kind, producer_id=producer, producer_epoch=0, timestamp=1)
    return replace_offset(data, offset)


def replace_offset(data: bytes, offset: int) -> Batch:
    return read_batch(offset.to_bytes(8, "big") + data[8:])


def in_transaction(producer: int, offset: int) -> Batch:
    records = [Record(key=b"k", value=b"v")]
    return read_batch(
        build_batch(
            records, base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        )
    )


def test_marker_is_needed_while_the_log_has_its_transaction() -> None:
    for kind, aborted in ((ControlType.COMMIT, []), (ControlType.ABORT, [Aborted(7, 0, 3)])):
        transactions = _Transactions(aborted, 0)
        transactions.read_batch(in_transaction(7, 0))
        assert not transactions.read_marker(marker(kind, 7, 3))
        assert transactions.retained_aborted == aborted
        assert transactions.read_marker(marker(kind, 7, 4)), "a second marker has no transaction"


def test_marker_of_a_transaction_without_batches_is_unneeded() -> None:
    for kind, aborted in (
        (ControlType.COMMIT, []),
        (ControlType.ABORT, []),
        (ControlType.ABORT, [Aborted(7, 0, 3)]),
    ):
        transactions = _Transactions(aborted, 0)
        transactions.read_batch(in_transaction(8, 0))
        assert transactions.read_marker(marker(kind, 7, 3))
        assert transactions.retained_aborted == []


def test_needed_marker_survives_its_delete_horizon() -> None:
    partition = Partition("t", 0, [0])
    append_transaction = build_batch(
        [Record(key=b"k", value=b"v")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    partition.append(read_batch(append_transaction))
    partition.end_transaction(7, 0, committed=True, coordinator_epoch=0, timestamp=1)
    for days in range(4):
        compact(partition, NOW_MS + days * 3 * DAY_MS)
    assert [batch.control for batch in partition.log.batches()] == [False, True]


def test_group_of_segments_fits_the_maximum_size() -> None:
    segments = [LogSegment(offset, size=size, last_offset=offset) for offset, size in enumerate((40, 40, 40, 90, 30))]
    assert _groups(segments, 100) == [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert _groups(segments, 120) == [(0, 3), (3, 5)]


def test_compacted_segment_without_batches_keeps_its_time() -> None:
    group = _CompactedGroup(0)
    replaced = [LogSegment(0, last_offset=4, modified_ms=5), LogSegment(5, last_offset=9, modified_ms=8)]
    compacted = group.finish(replaced)
    assert (compacted.segment.modified_ms, compacted.segment.last_offset, compacted.changed) == (8, 9, True)
    assert not _CompactedGroup(0).finish(replaced[:1]).changed
