"""The part of a log that compaction may clean."""

from __future__ import annotations

import pytest

from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import Settings
from mockbroker.topics.cleanable import cleanable_log
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
    assert cleanable_log(Partition("t", 0, [0]), now_ms=0).dirty_bytes == 0
