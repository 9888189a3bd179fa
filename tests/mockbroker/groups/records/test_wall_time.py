"""Wall-clock times of the broker: complete milliseconds, as Java's System.currentTimeMillis returns them."""

from __future__ import annotations

import pytest

from mockbroker.groups.records.wall_time import WallClock

CLOCK = WallClock(1_795_974_000.123_456_7)
BEGIN_MS = 1_795_974_000_123


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.5, 0.9, 0.98])
def test_a_time_is_not_ahead_of_the_wall_clock(fraction: float) -> None:
    clock = WallClock(1_795_974_000.0)
    assert clock.to_ms((5 + fraction) / 1000) == 1_795_974_000_005


@pytest.mark.parametrize("start", [BEGIN_MS, BEGIN_MS + 86_400_000, 4_102_444_800_000])
def test_a_millisecond_is_the_same_after_both_conversions(start: int) -> None:
    for ms in range(start, start + 1_000):
        assert CLOCK.to_ms(CLOCK.from_ms(ms)) == ms
