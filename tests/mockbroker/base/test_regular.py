"""Checks at regular intervals."""

from __future__ import annotations

import pytest

from mockbroker.base.regular import RegularChecks


@pytest.mark.parametrize(
    ("wanted", "now", "every", "at"), [(0, 0, 5, 5), (12, 3, 5, 15), (15, 3, 5, 15), (1, 5, 5, 10), (7, 3, 0, 7)]
)
@pytest.mark.parametrize("started", [0, 2, 1_003])
def test_check_is_a_multiple_of_the_interval_after_the_start(wanted, now, every, at, started):
    assert RegularChecks(started).next(started + wanted, started + now, every) == started + at


@pytest.mark.parametrize(("wanted", "at"), [(0, 0), (1, 5), (5, 5), (6, 10)])
@pytest.mark.parametrize("started", [0, 2, 1_003])
def test_first_check_may_be_at_the_wanted_time(wanted, at, started):
    assert RegularChecks(started).first(started + wanted, 5) == started + at


def test_check_is_never_repeated_at_the_same_time():
    for started in (0.0, 123_456.789):
        checks, now = RegularChecks(started), started
        for number in range(1, 10_000):
            after = checks.next(now, now, 0.05)
            assert after > now
            assert after == pytest.approx(started + number * 0.05)
            now = after
