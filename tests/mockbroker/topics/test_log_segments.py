"""Segments: their base offsets, and the segments that retention deletes."""

from __future__ import annotations

import pytest

from mockbroker.topics.log_segments import LogSegment, SegmentLimits, expired_segments, next_expiry

LIMITS = SegmentLimits(1_000, 500)


def segment(base: int, size: int = 100, timestamp: int = 0, modified: int = 0) -> LogSegment:
    made = LogSegment(base)
    if size:
        made.add(base, size, timestamp, modified)
    return made


@pytest.mark.parametrize(
    ("offset", "size", "timestamp", "full"),
    [
        (1, 900, 0, False),
        (1, 901, 0, True),
        (1, 1, 500, False),
        (1, 1, 501, True),
        (1, 1, -501, False),
        (2**31, 1, 0, True),
    ],
)
def test_batch_beyond_a_limit_begins_a_segment(offset, size, timestamp, full):
    assert segment(0).is_full(offset, size, timestamp, LIMITS) is full


@pytest.mark.parametrize(
    ("offset", "timestamp", "full"),
    [(78, 1_500, False), (78, 1_501, True), (77 + 2**31 - 1, 0, False), (77 + 2**31, 0, True)],
)
def test_limits_count_from_the_start_of_the_segment(offset: int, timestamp: int, full: bool) -> None:
    assert segment(77, timestamp=1_000).is_full(offset, 1, timestamp, LIMITS) is full


def test_batch_without_timestamps_does_not_begin_the_time() -> None:
    assert not segment(0, timestamp=-1).is_full(1, 1, 10**6, SegmentLimits(duration_ms=0))


def test_empty_segment_accepts_any_batch():
    assert not segment(0, 0).is_full(1, 10_000, 10_000, LIMITS)


def test_segment_expires_by_its_largest_timestamp():
    segments = [segment(0, timestamp=10), segment(1, timestamp=5), segment(2, timestamp=100)]
    assert [expired_segments(segments, now, retention_ms=10) for now in (20, 21, 110, 111)] == [0, 2, 2, 3]
    assert expired_segments(segments, 10**6) == 0
    assert next_expiry(segments, 15, retention_ms=10) == 21


def test_segment_without_timestamps_expires_by_its_last_append():
    segments = [segment(0, timestamp=-1, modified=50)]
    assert [expired_segments(segments, now, retention_ms=10) for now in (60, 61)] == [0, 1]


def test_log_does_not_shrink_below_its_size_limit():
    segments = [segment(base) for base in range(5)]
    results = [expired_segments(segments, 0, retention_bytes=limit) for limit in (0, 100, 299, 300, 301, 500)]
    assert results == [5, 4, 2, 2, 1, 0]
    assert next_expiry(segments, 7, retention_bytes=300) == 7
    assert next_expiry(segments, 7, retention_bytes=500) is None


def test_empty_active_segment_is_never_deleted():
    segments = [segment(0), segment(1, 0)]
    assert expired_segments(segments, 10**6, retention_ms=0, retention_bytes=0) == 1
    assert next_expiry(segments[1:], 10**6, retention_ms=0) is None
    assert next_expiry([], 10**6, retention_ms=0) is None
    assert expired_segments([], 10**6, retention_ms=0, retention_bytes=0) == 0


@pytest.mark.parametrize(("offset", "full"), [(1_000 + 2**31 - 1, False), (1_000 + 2**31, True)])
def test_offsets_of_a_segment_are_relative_to_its_base(offset, full):
    """The index of a segment stores offsets as int32."""
    assert segment(1_000).is_full(offset, 1, 0, LIMITS) is full


def test_first_batch_without_a_timestamp_starts_no_duration():
    made = segment(0, timestamp=-1)
    assert not made.is_full(1, 1, 10_000, LIMITS)
    assert segment(0, timestamp=0).is_full(1, 1, 501, LIMITS)


def test_segment_has_its_largest_times_and_all_bytes():
    made = LogSegment(5)
    assert (made.size, made.first_timestamp, made.max_timestamp, made.modified_ms, made.last_offset) == (
        0,
        -1,
        -1,
        -1,
        -1,
    )
    for offset, timestamp, now in ((5, 7, 100), (6, 9, 90), (8, 8, 110)):
        made.add(offset, 10, timestamp, now)
    assert (made.size, made.first_timestamp, made.max_timestamp, made.modified_ms, made.last_offset) == (
        30,
        7,
        9,
        110,
        8,
    )
    assert made.largest_timestamp == 9


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, 50), (0, 0), (3, 3)])
def test_segment_without_timestamps_has_the_time_of_its_append(timestamp, expected):
    assert segment(0, timestamp=timestamp, modified=50).largest_timestamp == expected


def test_default_limits_are_kafkas():
    assert (SegmentLimits().size, SegmentLimits().duration_ms) == (1 << 30, 604_800_000)


def test_size_limit_is_applied_before_the_age():
    segments = [segment(0, timestamp=10), segment(1, timestamp=90), segment(2, timestamp=10), segment(3, timestamp=95)]
    assert expired_segments(segments, 100, retention_ms=50, retention_bytes=200) == 3
    assert expired_segments(segments, 100, retention_ms=50, retention_bytes=300) == 1
    assert expired_segments(segments, 100, retention_ms=50) == 1


def test_segment_without_any_time_does_not_expire():
    assert expired_segments([segment(0, timestamp=-1, modified=-1)], 10**6, retention_ms=1) == 0
    assert expired_segments([segment(0, timestamp=0, modified=-1)], 10**6, retention_ms=1) == 1


def test_next_expiry_without_limits_is_never():
    assert next_expiry([segment(0, timestamp=5)], 10**6) is None
    assert next_expiry([segment(0, timestamp=5)], 10**6, retention_ms=10) == 16
    assert next_expiry([segment(0, timestamp=5), segment(1, 0)], 7, retention_ms=10) == 16


def test_emptied_segment_expires_by_its_last_append() -> None:
    segments = [LogSegment(0, modified_ms=50), segment(1, timestamp=100)]
    assert [expired_segments(segments, now, retention_ms=10) for now in (60, 61)] == [0, 1]
    assert next_expiry(segments, 15, retention_ms=10) == 61
