"""The part of a log that compaction may clean."""

from __future__ import annotations

import pytest

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import Settings
from mockbroker.topics.cleanable import CleanableLog, cleanable_log
from mockbroker.topics.log_config import LogConfig
from mockbroker.topics.log_segments import SegmentLimits
from mockbroker.topics.model import Partition


def partition() -> Partition:
    """Return a partition with four batches of one record, each in its own segment, at the timestamps 1,000 to 4,000."""
    made = Partition("t", 0, [0])
    made.log.limits = SegmentLimits(size=1)
    for number in range(1, 5):
        made.append(read_batch(build_batch([Record(key=b"k", value=b"v", timestamp=1_000 * number)])))
    return made


def test_active_segment_is_not_cleanable():
    result = cleanable_log(partition(), now_ms=0)
    assert (result.first_dirty, result.until, result.segments) == (0, 3, 3)
    assert result.dirty_ratio == 1.0


def test_cleaned_part_lowers_the_dirty_ratio():
    of = partition()
    of.cleaned_until = 1
    result = cleanable_log(of, now_ms=0)
    assert (result.first_dirty, result.until) == (1, 3)
    assert result.dirty_ratio == pytest.approx(2 / 3)
    of.cleaned_until = 3
    assert cleanable_log(of, now_ms=0).dirty_ratio == 0


@pytest.mark.parametrize(("lag", "until"), [(0, 3), (1_000, 3), (2_000, 2), (2_001, 1), (9_000, 0)])
def test_segments_with_young_records_are_not_cleanable(lag, until):
    assert cleanable_log(partition(), min_lag_ms=lag, now_ms=4_000).until == until


@pytest.mark.parametrize(("lag", "until"), [(0, 3), (1, 2)])
def test_future_records_are_cleanable_without_a_minimum_lag(lag, until):
    """The default of min.compaction.lag.ms is 0."""
    assert cleanable_log(partition(), min_lag_ms=lag, now_ms=3_000).until == until


def test_open_transaction_in_the_first_segment_blocks_cleaning():
    of = Partition("t", 0, [0])
    of.log.limits = SegmentLimits(size=1)
    data = build_batch([Record(key=b"k")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    of.append(read_batch(data))
    of.append(read_batch(build_batch([Record(key=b"k")])))
    result = cleanable_log(of, now_ms=0)
    assert (result.until, result.segments, result.clean_bytes, result.dirty_bytes) == (0, 0, 0, 0)


def test_segment_of_an_open_transaction_is_not_cleanable():
    of = partition()
    data = build_batch([Record(key=b"k")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    of.append(read_batch(data))
    of.append(read_batch(build_batch([Record(key=b"k")])))
    assert cleanable_log(of, now_ms=0).until == 4


@pytest.mark.parametrize(("ratio", "lag", "now_ms", "needed"), [(1.0, 5_000, 6_000, False), (1.0, 5_000, 6_001, True)])
def test_old_records_make_a_compaction_necessary(ratio, lag, now_ms, needed):
    configs = {"min.cleanable.dirty.ratio": str(ratio), "max.compaction.lag.ms": str(lag)}
    config = LogConfig.of(configs, Settings(), KAFKA_4_2)
    assert cleanable_log(partition(), max_lag_ms=lag, now_ms=now_ms).needs_compaction(config) is needed


def test_empty_log_is_not_cleanable():
    empty = Partition("t", 0, [0])
    empty.cleaned_until = 4
    assert cleanable_log(empty, now_ms=0) == CleanableLog(4, 4, 0, 0, 0, overdue=False)


def stamped(*timestamps: int) -> Partition:
    """Return a partition with one batch in each segment, with these timestamps, and an active segment."""
    made = Partition("t", 0, [0])
    made.log.limits = SegmentLimits(size=1)
    for timestamp in (*timestamps, 1):
        made.append(read_batch(build_batch([Record(key=b"k", value=b"v", timestamp=timestamp)])))
    return made


@pytest.mark.parametrize(
    ("timestamps", "overdue"),
    [((0, 9_000), False), ((-1, 9_000), False), ((1, 9_000), True), ((9_000, 1), True), ((9_000, 4_999), True)],
)
def test_oldest_first_timestamp_decides_the_maximum_lag(timestamps, overdue):
    """In LogCleanerManager, timestamps of 0 and below are unknown."""
    assert cleanable_log(stamped(*timestamps), max_lag_ms=5_000, now_ms=10_000).overdue is overdue


def test_first_dirty_offset_divides_clean_and_dirty_bytes():
    of = stamped(1, 2, 3)
    of.cleaned_until = 1
    sizes = [segment.size for segment in of.log.segments]
    result = cleanable_log(of, now_ms=0)
    assert (result.clean_bytes, result.dirty_bytes) == (sizes[0], sizes[1] + sizes[2])
    assert (result.first_dirty, result.until, result.segments, result.overdue) == (1, 3, 3, False)


def test_segments_before_the_log_start_offset_are_clean():
    of = stamped(1, 2, 3)
    of.log.start = 2
    assert cleanable_log(of, now_ms=0).first_dirty == 2
    of.cleaned_until = 3
    assert cleanable_log(of, now_ms=0).first_dirty == 3


@pytest.mark.parametrize(
    ("clean", "dirty", "overdue", "needed"),
    [
        (50, 50, False, False),
        (49, 51, False, True),
        (100, 0, True, False),
        (99, 1, True, True),
        (0, 1, False, True),
        (99, 1, False, False),
    ],
)
def test_compaction_is_needed_above_the_dirty_ratio(clean, dirty, overdue, needed):
    config = LogConfig.of({"min.cleanable.dirty.ratio": "0.5"}, Settings(), KAFKA_4_2)
    assert CleanableLog(0, 1, 1, clean, dirty, overdue).needs_compaction(config) is needed


def test_open_transaction_ends_the_cleanable_part():
    of = stamped(1, 2)
    data = build_batch([Record(key=b"k")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    of.append(read_batch(data))  # offset 3
    for _ in range(3):
        of.append(read_batch(build_batch([Record(key=b"k")])))
    result = cleanable_log(of, now_ms=0)
    assert (result.until, result.segments) == (3, 3)
    of.end_transaction(1, 0, committed=True, coordinator_epoch=0, timestamp=1)
    assert cleanable_log(of, now_ms=0).until == 7


def test_young_clean_segments_do_not_count():
    of = stamped(9_000, 1_000, 9_000)
    of.cleaned_until = 1
    result = cleanable_log(of, min_lag_ms=2_000, now_ms=10_000)
    assert (result.until, result.segments, result.dirty_bytes) == (2, 2, of.log.segments[1].size)


def test_log_whose_first_segment_is_after_its_start_is_dirty():
    of = Partition("t", 0, [0])
    stored = [read_batch(build_batch([Record(key=b"k")], base_offset=base)) for base in (5, 9)]
    of.restore(stored, 0, 10, [5, 9])
    result = cleanable_log(of, now_ms=0)
    assert (result.first_dirty, result.until, result.segments) == (0, 9, 1)
    assert (result.clean_bytes, result.dirty_bytes) == (0, of.log.segments[0].size)
