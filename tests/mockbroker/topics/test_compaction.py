"""Compaction: random logs against a model of the retained records; the recorded conversations have Kafka's results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.blobs import encode_stored
from kwire.blobs.control_records import ControlRecordKey, LeaderChangeMessage
from kwire.records.batch import Batch, Record, build_batch, read_batch
from kwire.records.compression import GZIP, NONE
from kwire.records.control import ControlType, build_marker
from mockbroker.topics.cleanable import cleanable_log
from mockbroker.topics.compaction import (
    _Cleaner,
    _CompactedGroup,
    _groups,
    _LatestRecords,
    _Transactions,
    _with_records,
    _without_records,
    compaction,
)
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
    """As in CleanedTransactionMetadata, an aborted record is removed, and hides no earlier record of its key."""
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


@pytest.mark.parametrize("base", [0, 2**31, 2**62])
def test_group_of_segments_has_offsets_within_an_int32(base: int) -> None:
    """The offsets in the index of a segment are relative to its base offset."""
    segments = [LogSegment(base, size=1, last_offset=base)]
    for last in (base + 5, base + 2**31 - 1, base + 2**31):
        segments.append(LogSegment(segments[-1].last_offset + 1, size=1, last_offset=last))
    assert _groups(segments, 100) == [(0, 3), (3, 4)]


def test_compacted_segment_without_batches_keeps_its_time() -> None:
    group = _CompactedGroup(0)
    replaced = [LogSegment(0, last_offset=4, modified_ms=5), LogSegment(5, last_offset=9, modified_ms=8)]
    compacted = group.finish(replaced)
    assert (compacted.segment.modified_ms, compacted.segment.last_offset, compacted.changed) == (8, 9, True)
    assert not _CompactedGroup(0).finish(replaced[:1]).changed


def transaction(partition: Partition, *records: Record, committed: bool, producer: int = 7) -> None:
    """Append one batch of a transaction of a producer, then its marker."""
    sequence = sum(each.last_sequence + 1 for each in partition.producers if each.producer_id == producer)
    data = build_batch(
        list(records), producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True
    )
    partition.append(read_batch(data))
    partition.end_transaction(producer, 0, committed=committed, coordinator_epoch=0, timestamp=NOW_MS)


def record(key: bytes, value: bytes | None = b"v") -> Record:
    return Record(key=key, value=value, timestamp=1)


def test_committed_transaction_after_an_aborted_one_supersedes() -> None:
    partition = Partition("t", 0, [0])
    append(partition, record(b"a", b"1"))
    transaction(partition, record(b"a", b"2"), committed=False)
    transaction(partition, record(b"a", b"3"), committed=True)
    append(partition, record(b"z"))
    compact(partition)
    values = {each.offset: each.value for one in partition.log.batches() if not one.control for each in one.records()}
    assert values == {3: b"3", 5: b"v"}


def test_aborted_transactions_are_listed_while_they_have_batches() -> None:
    partition = Partition("t", 0, [0])
    transaction(partition, record(b"a"), committed=False)
    transaction(partition, record(b"b"), committed=False, producer=8)
    append(partition, record(b"z"))
    compact(partition)
    assert [(each.producer_id, each.first, each.last) for each in partition.aborted] == [(7, 0, 1), (8, 2, 3)]
    append(partition, record(b"z"))
    transaction(partition, record(b"c"), committed=False)
    partition.log.roll()
    active = [(7, 6, 7)]
    compact(partition)
    assert [(each.producer_id, each.first, each.last) for each in partition.aborted][-1:] == active


def test_second_of_two_compactions_is_abandoned() -> None:
    partition = Partition("t", 0, [0])
    for _ in range(3):
        append(partition, record(b"k"))
    partition.log.roll()
    steps = [compaction(partition, cleanable_log(partition, now_ms=NOW_MS), NOW_MS) for _ in range(2)]
    assert len(list(steps[0])) == 6
    segments = list(partition.log.segments)
    next(steps[1], None)
    assert all(map(lambda one, other: one is other, partition.log.segments, segments))
    other = Partition("t", 0, [0])
    for _ in range(3):
        append(other, record(b"k"))
    other.log.roll()
    steps = [compaction(other, cleanable_log(other, now_ms=NOW_MS), NOW_MS) for _ in range(2)]
    next(steps[0])
    next(steps[1])
    assert len(list(steps[0])) == 5
    segments = list(other.log.segments)
    assert list(steps[1])
    assert all(map(lambda one, kept: one is kept, other.log.segments, segments))


def test_cost_of_a_step_is_bytes_and_records() -> None:
    partition = Partition("t", 0, [0])
    append(partition, record(b"a"), record(b"b"))
    append(partition, record(b"c"))
    sizes = [len(each.data) for each in partition.log.batches()]
    partition.log.roll()
    steps = list(compaction(partition, cleanable_log(partition, now_ms=NOW_MS), NOW_MS))
    assert steps == [sizes[0] + 100, sizes[1] + 50] * 2


def test_superseded_batches_need_not_be_decoded() -> None:
    latest = _LatestRecords(2)
    batches = [
        ([b"a", b"b"], 2),
        ([b"a", b"c"], 4),
        ([b"b", b"a"], 6),
        ([b"c", b"c"], 8),
        ([None], 10),
        ([b"d"], 11),
    ]
    for keys, base in batches:
        records = [Record(key=key, value=b"v") for key in keys]
        latest.add(read_batch(build_batch(records, base_offset=base)))
    assert latest.superseded == {3, 5, 10}
    assert latest.offsets == {b"a": 7, b"b": 6, b"c": 9, b"d": 11}


def test_records_before_the_dirty_part_supersede_nothing() -> None:
    latest = _LatestRecords(3)
    latest.add(read_batch(build_batch([record(b"a"), record(b"b")], base_offset=2)))
    assert (latest.offsets, latest.superseded) == ({b"b": 3}, set())
    latest.add(read_batch(build_batch([record(b"b"), record(b"a")], base_offset=4)))
    assert (latest.offsets, latest.superseded) == ({b"b": 4, b"a": 5}, set())


def test_segment_without_a_batch_of_the_compaction_is_changed() -> None:
    replaced = [LogSegment(0, last_offset=4, modified_ms=5)]
    [kept] = batches_of(record(b"a"))
    for retained, changed in ((None, True), (kept, False), (batches_of(record(b"b"))[0], True)):
        group = _CompactedGroup(0)
        partition = Partition("t", 0, [0])
        partition.append(kept)
        group.add(partition.log.stored()[0], retained and read_batch(replace_leader(retained.data)))
        assert group.finish(replaced).changed is changed


def replace_leader(data: bytes) -> bytes:
    """Return a batch with leader epoch 0, as it is in a log."""
    return data[:12] + bytes(4) + data[16:]


def batches_of(*records: Record) -> list[Batch]:
    return [read_batch(build_batch([each])) for each in records]


def test_batch_without_tombstones_has_no_delete_horizon() -> None:
    partition = Partition("t", 0, [0])
    append(partition, record(b"a"), record(b"b"))
    append(partition, record(b"c", None), record(b"d"))
    append(partition, record(b"a"))
    append(partition, record(b"z"))
    whole = partition.log.stored()[3].data
    compact(partition)
    horizons = [each.delete_horizon for each in partition.log.batches()]
    assert horizons == [None, NOW_MS + DAY_MS, None, None]
    assert partition.log.stored()[3].data == whole


@pytest.mark.parametrize(("later_ms", "counts"), [(DAY_MS - 1, [1, 1]), (DAY_MS, [0])])
def test_unneeded_marker_is_removed_at_its_delete_horizon(later_ms: int, counts: list[int]) -> None:
    """The batch of the marker with the current epoch of its producer remains, without its record."""
    partition = Partition("t", 0, [0])
    append(partition, record(b"a"))
    for epoch in (1, 2):
        partition.end_transaction(8, epoch, committed=epoch == 1, coordinator_epoch=0, timestamp=1)
    append(partition, record(b"z"))
    compact(partition)
    append(partition, record(b"z"))
    compact(partition, NOW_MS + later_ms)
    assert [each.count for each in partition.log.batches() if each.producer_id == 8] == counts


ATTRIBUTES = (
    *("base_offset", "last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence"),
    *("log_append_time", "transactional", "control", "max_timestamp"),
)
REBUILT = [
    pytest.param({}, id="plain"),
    pytest.param({"codec": GZIP}, id="compressed"),
    pytest.param({"producer_id": 9, "producer_epoch": 3, "base_sequence": 40}, id="idempotent"),
    pytest.param({"log_append_time": 77}, id="LogAppendTime"),
    pytest.param(
        {"producer_id": 9, "producer_epoch": 3, "base_sequence": 40, "transactional": True}, id="transactional"
    ),
]


@pytest.mark.parametrize("options", REBUILT)
@pytest.mark.parametrize("kept", [True, False])
def test_compacted_batch_keeps_its_attributes(options: dict[str, int], kept: bool) -> None:
    partition = Partition("t", 0, [0])
    partition.leader_epoch = 6
    append(partition, record(b"first"))
    partition.append(read_batch(build_batch([record(b"a"), record(b"b" if kept else b"a")], **options)))
    if "transactional" in options:
        partition.end_transaction(9, 3, committed=True, coordinator_epoch=0, timestamp=1)
    before = partition.log.stored()[1]
    append(partition, record(b"a"))
    if not kept:
        partition.log.delete_before(1)
    steps = _retained(partition, until=3 if not kept else 99)
    batch = read_batch(before.data)
    result = steps.retained(batch)
    assert result is not None
    assert result.count == int(kept)
    assert {name: getattr(result, name) for name in ATTRIBUTES} == {name: getattr(batch, name) for name in ATTRIBUTES}
    assert result.crc_is_right()
    if kept:
        assert result.codec == batch.codec


def _retained(partition: Partition, until: int) -> _Cleaner:
    """Return the compaction rules for the whole log of a partition."""
    latest = _LatestRecords(0)
    for batch in partition.log.batches():
        if not batch.control:
            latest.add(batch)
    return _Cleaner(partition, until, latest, NOW_MS, DAY_MS)


def test_last_batch_of_an_active_producer_stays_without_records() -> None:
    partition = Partition("t", 0, [0])
    for sequence in range(2):
        append(partition, record(b"a"), producer=5, sequence=sequence)
    append(partition, record(b"a"))
    first, second, third = partition.log.batches()
    rules = _retained(partition, until=99)
    assert rules.retained(first) is None
    emptied = rules.retained(second)
    assert emptied is not None
    assert (emptied.count, emptied.base_sequence, emptied.last_offset) == (0, 1, 1)
    assert rules.retained(emptied) is emptied
    assert rules.retained(third) is third


def test_marker_of_an_active_producer_stays_without_records() -> None:
    """The marker is the only trace of a producer whose last batch was removed."""
    for epoch, stays in ((1, True), (0, False)):
        partition = Partition("t", 0, [0])
        partition.end_transaction(7, 1, committed=True, coordinator_epoch=0, timestamp=1)
        rules = _retained(partition, until=99)
        data = build_marker(ControlType.COMMIT, producer_id=7, producer_epoch=epoch, timestamp=1)
        old = read_batch(data)
        assert rules._must_stay(old) is stays
        records = read_batch(build_batch([record(b"a")], producer_id=7, producer_epoch=epoch, base_sequence=0))
        assert not rules._must_stay(records)


@pytest.mark.parametrize(("until", "stays"), [(1, True), (2, False)])
def test_last_batch_of_the_compaction_stays(until: int, stays: bool) -> None:
    partition = Partition("t", 0, [0])
    append(partition, record(b"a"))
    append(partition, record(b"a"))
    rules = _retained(partition, until)
    result = rules.retained(next(partition.log.batches()))
    assert (result is not None) is stays


@pytest.mark.parametrize(("first", "is_aborted"), [(3, True), (4, False)])
def test_transaction_that_ended_before_is_not_open(first: int, is_aborted: bool) -> None:
    assert _Transactions([Aborted(7, 0, 3)], first).read_batch(in_transaction(7, 6)) is is_aborted


def test_marker_without_batches_ends_an_aborted_transaction() -> None:
    """An earlier compaction has removed the batches of the transaction."""
    transactions = _Transactions([Aborted(7, 0, 3)], 0)
    assert transactions.read_marker(marker(ControlType.ABORT, 7, 3))
    assert not transactions.read_batch(in_transaction(7, 6))


def test_control_batch_of_another_type_is_needed() -> None:
    key, value = (
        encode_stored(ControlRecordKey(type=ControlType.LEADER_CHANGE), 0),
        encode_stored(LeaderChangeMessage(), 0),
    )
    batch = read_batch(build_batch([Record(key=key, value=value, timestamp=1)], control=True))
    assert not _Transactions([], 0).read_marker(batch)
    assert _Transactions([], 0).read_marker(_without_records(batch)), "without a record, it has no type"


def test_delete_horizon_does_not_remove_a_needed_marker() -> None:
    for committed in (True, False):
        partition = Partition("t", 0, [0])
        transaction(partition, record(b"a"), committed=committed)
        batch, ending = partition.log.batches()
        ending = _with_records(ending, list(ending.records()), NOW_MS - 1)
        rules = _retained(partition, until=99)
        rules.retained(batch)
        assert rules.retained(ending) is ending
        assert _retained(partition, until=99).retained(ending) != ending, "without its batches, it is not needed"


def test_superseded_batch_is_removed_without_decoding_it() -> None:
    partition = Partition("t", 0, [0])
    append(partition, record(b"a"))
    append(partition, record(b"a"))
    rules = _retained(partition, until=99)
    first = partition.log.stored()[0].data
    assert rules.retained(read_batch(first[:-1] + b"?")) is None


def test_records_without_a_key_are_removed() -> None:
    partition = Partition("t", 0, [0])
    append(partition, Record(value=b"v", timestamp=1), record(b"a"), Record(value=b"v", timestamp=1))
    append(partition, record(b"z"))
    compact(partition)
    assert [key for key, _, _ in content(partition).values()] == [b"a", b"z"]


def test_values_outlive_the_tombstones_of_their_batch() -> None:
    partition = Partition("t", 0, [0])
    append(partition, record(b"a"), record(b"b", None))
    append(partition, record(b"z"))
    compact(partition)
    append(partition, record(b"z"))
    compact(partition, NOW_MS + DAY_MS)
    assert [key for key, _, _ in content(partition).values()] == [b"a", b"z"]


def test_removed_aborted_transactions_are_not_listed() -> None:
    partition = Partition("t", 0, [0])
    transaction(partition, record(b"a"), committed=False)
    transaction(partition, record(b"b"), committed=True)
    for _ in range(2):
        append(partition, record(b"z"))
        compact(partition)
    assert partition.aborted == []


def test_batch_without_records_costs_its_bytes() -> None:
    partition = Partition("t", 0, [0])
    partition.append(read_batch(build_batch([], last_offset=0)))
    append(partition, record(b"a"))
    sizes = [len(each.data) for each in partition.log.batches()]
    partition.log.roll()
    steps = list(compaction(partition, cleanable_log(partition, now_ms=NOW_MS), NOW_MS))
    assert steps == [sizes[0], sizes[1] + 50] * 2


def test_batch_without_records_has_no_delete_horizon() -> None:
    for horizon in (None, NOW_MS):
        empty = _without_records(read_batch(build_batch([], last_offset=3, delete_horizon=horizon)))
        assert (empty.count, empty.last_offset, empty.delete_horizon) == (0, 3, None)
