"""A partition log: offsets, reads, lookup by timestamp."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tools.compacted_logs import compact_to

from kwire import DecodeError
from kwire.records.batch import Batch, Record, batches, build_batch, read_batch
from kwire.records.compression import GZIP, SNAPPY
from mockbroker.topics.log import MAX_RECORDS_PER_BATCH, CompactedSegment, PartitionLog


def batch(*timestamps: int, codec: int = 0, value: bytes = b"v") -> bytes:
    return build_batch([Record(timestamp=timestamp, value=value) for timestamp in timestamps], codec=codec)


def log_of(*datas: bytes) -> PartitionLog:
    log = PartitionLog()
    for data in datas:
        log.append(read_batch(data), leader_epoch=0)
    return log


def offsets(data: bytes) -> list[int]:
    return [found.base_offset for found in batches(data)]


def test_empty_log():
    log = PartitionLog()
    assert (log.start, log.end) == (0, 0)
    assert log.read(0, 1_000, at_least_one=True) == b""
    assert log.at_timestamp(0) is None
    assert log.at_largest_timestamp() is None


def test_append_assigns_offsets_and_keeps_the_crc_valid():
    log = PartitionLog()
    assert [log.append(read_batch(batch(*[1] * count)), leader_epoch=7) for count in (3, 1, 2)] == [0, 3, 4]
    assert log.end == 6
    results = list(batches(log.read(0, 10_000, at_least_one=False)))
    assert [(each.base_offset, each.last_offset, each.leader_epoch) for each in results] == [
        (0, 2, 7),
        (3, 3, 7),
        (4, 5, 7),
    ]
    assert all(each.crc_is_right() for each in results)
    assert [record.offset for each in results for record in each.records()] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("offset", "bases"), [(0, [0, 3, 4]), (2, [0, 3, 4]), (3, [3, 4]), (4, [4]), (5, [4]), (6, []), (99, [])]
)
def test_read_starts_with_the_batch_of_the_offset(offset, bases):
    log = log_of(batch(1, 1, 1), batch(1), batch(1, 1))
    assert offsets(log.read(offset, 10_000, at_least_one=False)) == bases


SIZE = len(batch(1))


@pytest.mark.parametrize(
    ("limit", "at_least_one", "count"),
    [
        pytest.param(SIZE * 3, False, 3, id="all"),
        pytest.param(SIZE * 2, False, 2, id="exactly two"),
        pytest.param(SIZE * 2 - 1, False, 1, id="a byte short of two"),
        pytest.param(SIZE - 1, False, 0, id="a byte short of one"),
        pytest.param(SIZE - 1, True, 1, id="the first is returned anyway"),
        pytest.param(0, True, 1, id="the first is returned at limit 0"),
        pytest.param(0, False, 0, id="limit 0"),
        pytest.param(SIZE, True, 1, id="but no second"),
    ],
)
def test_read_returns_whole_batches_up_to_the_limit(limit, at_least_one, count):
    log = log_of(batch(1), batch(1), batch(1))
    assert len(offsets(log.read(0, limit, at_least_one=at_least_one))) == count


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (0, 100)), (100, (0, 100)), (101, (1, 300)), (150, (1, 300)), (301, None), (200, (1, 300))],
)
def test_lookup_by_timestamp(codec, timestamp, found):
    log = log_of(batch(100, 300, codec=codec), batch(200, codec=codec))
    assert log.at_timestamp(timestamp) == found


def test_lookup_decodes_no_earlier_batches():
    log = log_of(batch(1), batch(5))
    log._batches[0] = replace(log._batches[0], data=b"cannot be decoded")
    assert log.at_timestamp(5) == (1, 5)


def test_lookup_of_the_largest_timestamp():
    assert log_of(batch(5, 9), batch(9), batch(7)).at_largest_timestamp() == (1, 9)


def test_lookup_in_a_damaged_batch_is_a_decode_error():
    whole = bytearray(batch(5))
    opaque = read_batch(bytes(whole))
    log = PartitionLog()
    log.append(opaque.__class__(bytes(whole[:-3]), *[getattr(opaque, name) for name in opaque.__slots__[1:]]), 0)
    with pytest.raises(DecodeError):
        log.at_timestamp(0)
    with pytest.raises(DecodeError):
        log.at_largest_timestamp()
    assert SNAPPY not in (0, GZIP)


@pytest.mark.parametrize(
    ("offset", "left", "size"), [(0, [0, 2, 4], 3), (1, [0, 2, 4], 3), (2, [2, 4], 2), (5, [4], 1), (6, [], 0)]
)
def test_delete_before_removes_whole_batches(offset, left, size):
    log = log_of(batch(1, 2), batch(3, 4), batch(5, 6))
    log.delete_before(offset)
    assert (log.start, log.end) == (offset, 6)
    assert offsets(log.read(offset, 10_000, at_least_one=True)) == left
    assert log.size == size * len(batch(1, 2))
    assert log.at_timestamp(0) == (None if offset == 6 else (offset, offset + 1))
    assert log.append(read_batch(batch(7)), leader_epoch=0) == 6
    assert offsets(log.read(6, 10_000, at_least_one=True)) == [6]
    log.delete_before(0)
    assert log.start == offset


@pytest.mark.parametrize(
    ("end", "left", "new_end"), [(6, [0, 2, 4], 6), (5, [0, 2], 4), (4, [0, 2], 4), (1, [], 0), (0, [], 0)]
)
def test_truncate_removes_whole_batches(end, left, new_end):
    log = log_of(batch(1, 2), batch(3, 4), batch(5, 6))
    log.truncate(end)
    assert (log.start, log.end) == (0, new_end)
    assert offsets(log.read(0, 10_000, at_least_one=True)) == left
    assert log.size == len(left) * len(batch(1, 2))
    assert log.append(read_batch(batch(7)), leader_epoch=1) == new_end
    assert offsets(log.read(0, 10_000, at_least_one=True)) == [*left, new_end]


def test_truncate_keeps_the_log_start_offset():
    log = log_of(batch(1, 2, 3))
    log.delete_before(2)
    log.truncate(2)
    assert (log.start, log.end, log.size) == (2, 2, 0)


@pytest.mark.parametrize(("size", "offset"), [(0, 0), (1, 3), (200, 3), (10_000, 9)])
def test_offset_after_so_many_bytes(size, offset):
    log = PartitionLog()
    for _ in range(3):
        log.append(read_batch(build_batch([Record(value=b"x" * 100)] * 3)), 0)
    assert log.offset_after(0, size) == offset
    assert log.offset_after(log.end, size) == log.end


def test_read_ends_before_an_offset():
    log = PartitionLog()
    for _ in range(3):
        log.append(read_batch(build_batch([Record()] * 2)), 0)
    result = batches(log.read(0, 10_000, at_least_one=True, before=4))
    assert [batch.base_offset for batch in result] == [0, 2]
    assert log.read(4, 10_000, at_least_one=True, before=4) == b""


# --- compaction and listeners ---


def compacted(*offsets: int, last: int | None = None) -> bytes:
    """Return a batch with these offsets, as compaction leaves it."""
    records = [Record(offset=offset, value=b"v") for offset in offsets]
    return build_batch(records, keep_offsets=True, base_offset=offsets[0] if offsets else last, last_offset=last)


def test_compacted_log_may_have_gaps():
    log = log_of(batch(1, 1, 1), batch(1), batch(1, 1), batch(1, 1))
    compact_to(log, [compacted(1), compacted(4, 5), compacted(last=7)])
    assert (log.start, log.end) == (0, 8)
    assert log.size == len(compacted(1)) + len(compacted(4, 5)) + len(compacted(last=7))
    for offset, first in ((0, 1), (1, 1), (2, 4), (3, 4), (5, 4), (6, 7), (7, 7)):
        assert offsets(log.read(offset, 1, at_least_one=True)) == [first]
    assert log.read(8, 1, at_least_one=True) == b""
    assert log.append(read_batch(batch(1)), 0) == 8


@pytest.mark.parametrize("batches", [[], [compacted(0)]])
def test_compaction_keeps_the_log_end_offset(batches):
    log = log_of(batch(1, 1, 1))
    compact_to(log, batches)
    assert log.end == 3
    assert log.append(read_batch(batch(1)), 0) == 3
    assert log.size_from(0, 4) == log.size


class RecordingListener:
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.calls = []

    def appended(self, stored: Any, leader_epoch: int, *, new_segment: bool) -> None:
        self.calls.append(("appended", stored.base_offset, leader_epoch, new_segment))

    def rolled(self, base_offset: int) -> None:
        self.calls.append(("rolled", base_offset))

    def deleted_before(self, start: int) -> None:
        self.calls.append(("deleted_before", start))

    def replaced(self, base_offset: int, end: int, batches: Any) -> None:
        self.calls.append(("replaced", base_offset, end, [stored.base_offset for stored in batches]))


def test_listener_is_called_once_per_change():
    log = PartitionLog(listener := RecordingListener())
    for _ in range(3):
        log.append(read_batch(batch(1, 1)), 4)
    log.delete_before(3)
    log.delete_before(3)
    log.delete_before(1)
    compact_to(log, [compacted(last=5)])
    log.truncate(6)
    log.truncate(5)
    assert listener.calls == [
        ("appended", 0, 4, True),
        ("appended", 2, 4, False),
        ("appended", 4, 4, False),
        ("deleted_before", 3),
        ("rolled", 6),
        ("replaced", 0, 6, [5]),
        ("replaced", 0, 7, []),
    ]


def test_restore_does_not_call_the_listener():
    log = PartitionLog(listener := RecordingListener())
    log.restore([read_batch(data) for data in (compacted(2), compacted(3, 4))], 2, 7)
    assert listener.calls == []
    assert (log.start, log.end) == (2, 7)
    assert offsets(log.read(2, 1_000, at_least_one=True)) == [2, 3]
    assert log.append(read_batch(batch(1)), 0) == 7


class Replaced:
    """A listener that records the replaced segments."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []

    def replaced(self, base: int, end: int, batches: Any) -> None:
        self.calls.append((base, end, len(batches)))

    def appended(self, *_: Any, **__: Any) -> None:
        pass

    def rolled(self, *_: Any) -> None:
        pass


def log_of_segments(count: int) -> PartitionLog:
    """Return a log with ``count`` segments of one batch with one record each."""
    log = PartitionLog()
    for number in range(count):
        if number:
            log.roll()
        log.append(read_batch(batch(number)), leader_epoch=0)
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_truncation_keeps_the_segments_before() -> None:
    log = log_of_segments(4)
    log.truncate(2)
    assert (bases(log), log.end) == ([0, 1, 2], 2)
    assert log.segments[-1].size == 0


RESTORED = [  # base offsets of the batches, log start offset, base offsets on disk, restored base offsets
    ([5], 5, [0, 5], [5]),
    ([5], 4, [0, 5], [0, 5]),
    ([0, 5], 5, [0, 5], [0, 5]),
    ([9], 9, [0, 5, 9], [9]),
    ([], 9, [9], [9]),
    ([], 9, [0, 5], [5]),
]


@pytest.mark.parametrize(("batches", "start", "segments", "expected"), RESTORED)
def test_empty_segments_before_the_start_are_dropped(
    batches: list[int], start: int, segments: list[int], expected: list[int]
) -> None:
    log = PartitionLog()
    stored = [read_batch(build_batch([Record(value=b"v")], base_offset=base)) for base in batches]
    log.restore(stored, start, max([start, *[base + 1 for base in batches]]), segments)
    assert bases(log) == expected


def test_log_begins_with_its_own_segments() -> None:
    log = log_of_segments(3)
    first, second, third = log.segments
    assert log.begins_with_segments([])
    assert log.begins_with_segments([first, second, third])
    assert not log.begins_with_segments([first, replace(second)])
    assert not log.begins_with_segments([first, second, third, replace(third)])


def test_each_compacted_segment_ends_where_the_next_begins() -> None:
    log = log_of_segments(4)
    log.listener = listener = Replaced()  # type: ignore[assignment]
    first, second, third, _ = log.segments
    compacted = [
        CompactedSegment(segment, [replace(log.stored()[number])], changed)
        for number, (segment, changed) in enumerate(((first, True), (second, False), (third, True)))
    ]
    log.replace_segments(3, compacted)
    assert listener.calls == [(0, 1, 1), (2, 3, 1)]
    assert bases(log) == [0, 1, 2, 3]


# --- lookups, compared with a search through all batches ---

LAID_OUT = {0: [(0, 1), (2, 2)], 4: [(4, 6)], 8: [(9, 9), (10, 12), (15, 15)], 20: []}  # segment -> offsets of batches
END = 22


@pytest.fixture
def laid_out() -> PartitionLog:
    """Return a compacted log with four segments, of which the last is empty. Each batch has a different size."""
    log = PartitionLog()
    log.restore(laid_out_batches(), 1, END, list(LAID_OUT))
    return log


def laid_out_batches() -> list[Batch]:
    return [
        read_batch(build_batch([Record(value=b"v" * (7 * last + 1))] * (last - first + 1), base_offset=first))
        for each in LAID_OUT.values()
        for first, last in each
    ]


def segment_of(offset: int) -> int:
    """Return the base offset of the segment of ``LAID_OUT`` that contains an offset."""
    return max(base for base in LAID_OUT if base <= offset)


def expected(offset: int, limit: int, *, at_least_one: bool, before: int | None, until: int = END) -> list[int]:
    """Return the base offsets of the expected batches of a read."""
    found: list[int] = []
    size, segment = 0, None
    for each in laid_out_batches():
        if each.last_offset < offset:
            continue
        segment = segment_of(each.base_offset) if segment is None else segment
        size += len(each.data)
        is_allowed = size <= limit or (at_least_one and not found)
        is_before = before is None or each.base_offset < before
        if segment_of(each.base_offset) != segment or not is_allowed or not is_before or each.base_offset > until:
            break
        found.append(each.base_offset)
    return found


LIMITS = (0, 1, 70, 150, 230, 500, 10_000)


@pytest.mark.parametrize("at_least_one", [True, False])
def test_read_returns_the_batches_of_one_segment(laid_out: PartitionLog, at_least_one: bool) -> None:
    for offset in range(END + 1):
        for limit in LIMITS:
            for before in (None, *range(END + 1)):
                data = laid_out.read(offset, limit, at_least_one=at_least_one, before=before)
                wanted = expected(offset, limit, at_least_one=at_least_one, before=before)
                assert offsets(data) == wanted, (offset, limit, before)


@pytest.mark.parametrize("at_least_one", [True, False])
def test_select_returns_the_batches_of_one_segment(laid_out: PartitionLog, at_least_one: bool) -> None:
    for offset in range(END + 1):
        for limit in LIMITS:
            for until in range(offset, END + 1):
                for before in (None, offset + 1, END):
                    found = laid_out.select(offset, limit, until, at_least_one=at_least_one, before=before)
                    wanted = expected(offset, limit, at_least_one=at_least_one, before=before, until=until)
                    assert [each.base_offset for each in found] == wanted, (offset, limit, until, before)


def test_size_between_two_offsets_is_that_of_the_batches(laid_out: PartitionLog) -> None:
    for offset in range(END + 1):
        for before in range(END + 1):
            sizes = [
                len(each.data)
                for each in laid_out_batches()
                if each.last_offset >= offset and each.base_offset < before
            ]
            assert laid_out.size_from(offset, before) == sum(sizes), (offset, before)


def test_offset_after_a_size_is_that_of_a_batch(laid_out: PartitionLog) -> None:
    for offset in range(END + 1):
        for size in range(0, 700, 5):
            passed, wanted = 0, END
            for each in laid_out_batches():
                if each.last_offset < offset:
                    continue
                if passed >= size:
                    wanted = each.base_offset
                    break
                passed += len(each.data)
            assert laid_out.offset_after(offset, size) == wanted, (offset, size)


def test_offsets_are_in_different_segments(laid_out: PartitionLog) -> None:
    for offset in range(END):
        for end in range(offset, END + 1):
            assert laid_out.spans_segments(offset, end) is (segment_of(offset) != segment_of(end))
    assert not log_of(batch(1), batch(2)).spans_segments(0, 1)


def test_batches_of_a_segment(laid_out: PartitionLog) -> None:
    for index, each in enumerate(LAID_OUT.values()):
        stored = laid_out.segment_batches(index)
        assert [(one.base_offset, one.last_offset) for one in stored] == each


@pytest.mark.parametrize("offset", range(END + 1))
def test_deletion_removes_whole_segments_before_the_start(laid_out: PartitionLog, offset: int) -> None:
    laid_out.delete_before(offset)
    left = [each for each in laid_out_batches() if each.last_offset >= offset or offset <= 1]
    assert [each.base_offset for each in laid_out.stored()] == [each.base_offset for each in left]
    assert bases(laid_out) == [base for base in LAID_OUT if base >= segment_of(offset)]
    assert (laid_out.start, laid_out.end) == (max(offset, 1), END)
    assert laid_out.size == sum(len(each.data) for each in left)


@pytest.mark.parametrize("end", range(END + 1))
def test_truncation_removes_batches_and_later_segments(laid_out: PartitionLog, end: int) -> None:
    laid_out.truncate(end)
    left = [each for each in laid_out_batches() if each.last_offset < end]
    is_cut = len(left) < len(laid_out_batches())
    assert [each.base_offset for each in laid_out.stored()] == [each.base_offset for each in left]
    assert laid_out.size == sum(len(each.data) for each in left)
    if is_cut:
        active = laid_out.segments[-1]
        own = [each for each in left if each.base_offset >= active.base_offset]
        cut = laid_out_batches()[len(left)].base_offset
        assert active.base_offset == segment_of(cut)
        assert active.size == sum(len(each.data) for each in own)
        last = left[-1].last_offset + 1 if left else 0
        assert laid_out.end == max(last, laid_out.start)
    else:
        assert (laid_out.end, bases(laid_out)) == (END, list(LAID_OUT))


def test_segment_counts_its_bytes_and_times() -> None:
    log = PartitionLog()
    log.append(read_batch(batch(5, 9)), 0, now_ms=100)
    log.append(read_batch(batch(7)), 0, now_ms=90)
    [segment] = log.segments
    assert (segment.size, segment.last_offset) == (len(batch(5, 9)) + len(batch(7)), 2)
    assert (segment.first_timestamp, segment.max_timestamp, segment.modified_ms) == (9, 9, 100)


def test_roll_begins_one_empty_segment() -> None:
    log = PartitionLog(listener := RecordingListener())
    log.roll()
    assert (bases(log), listener.calls) == ([], [])
    log.append(read_batch(batch(1)), 0)
    log.roll()
    log.roll()
    assert (bases(log), listener.calls[1:]) == ([0, 1], [("rolled", 1)])


def test_deleted_last_segment_leaves_an_empty_one() -> None:
    log = log_of_segments(3)
    log.delete_segments(2)
    assert (bases(log), log.start, log.end) == ([2], 2, 3)
    log.delete_segments(1)
    assert (bases(log), log.start, log.end, log.size) == ([3], 3, 3, 0)


def test_compaction_keeps_the_positions_of_later_batches() -> None:
    log = log_of_segments(4)
    positions = [each.position for each in log.stored()]
    first, second, *_ = log.segments
    kept = replace(log.stored()[1])
    log.replace_segments(2, [CompactedSegment(replace(first), []), CompactedSegment(second, [kept])])
    assert [each.position for each in log.stored()] == positions[1:]
    assert log.size == 3 * len(batch(1))
    assert offsets(log.read(0, 10_000, at_least_one=True)) == [1]


def test_lookup_by_timestamp_decodes_at_most_100_000_records() -> None:
    for count in (MAX_RECORDS_PER_BATCH, MAX_RECORDS_PER_BATCH + 1):
        data = bytearray(batch(5))
        data[57:61] = count.to_bytes(4, "big")  # the number of records
        with pytest.raises(DecodeError) as raised:
            log_of(bytes(data)).at_timestamp(5)
        is_refused = f"{count} records in one batch exceed the limit of 100000" in str(raised.value)
        assert is_refused is (count > 100_000)


def test_records_before_the_log_start_offset_have_no_timestamp() -> None:
    log = log_of(batch(5, 6, 7), batch(8))
    log.delete_before(1)
    found = [log.at_timestamp(timestamp) for timestamp in (0, 5, 6, 7, 8, 9)]
    assert found == [(1, 6), (1, 6), (1, 6), (2, 7), (3, 8), None]


def test_last_timestamp_is_that_of_the_last_batch() -> None:
    assert log_of(batch(9), batch(5, 7)).last_timestamp == 7


@pytest.mark.parametrize("segments", [1, 2, 3])
def test_fetch_returns_batches_of_one_segment(segments: int) -> None:
    """As in Kafka, a fetch reads from only one file."""
    log = PartitionLog()
    for _ in range(segments):
        log.roll()
        for _ in range(2):
            log.append(read_batch(batch(1)), 0)
    for offset in range(2 * segments):
        expected = list(range(offset, offset // 2 * 2 + 2))
        assert offsets(log.read(offset, 10_000, at_least_one=False)) == expected
        chosen = log.select(offset, 10_000, log.end, at_least_one=False)
        assert [each.base_offset for each in chosen] == expected
