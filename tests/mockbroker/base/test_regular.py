"""Checks at regular intervals."""

from __future__ import annotations

import pytest

from mockbroker.base.regular import next_check


@pytest.mark.parametrize(
    ("wanted", "now", "every", "at"), [(0, 0, 5, 5), (12, 3, 5, 15), (15, 3, 5, 15), (1, 5, 5, 10), (7, 3, 0, 7)]
)
def test_check_is_at_a_multiple_of_the_interval_after_now(wanted, now, every, at):
    assert next_check(wanted, now, every) == at


def test_check_is_never_repeated_at_the_same_time():
    now = 0.0
    for number in range(1, 10_000):
        after = next_check(now, now, 0.05)
        assert after > now
        assert after == pytest.approx(number * 0.05)
        now = after
