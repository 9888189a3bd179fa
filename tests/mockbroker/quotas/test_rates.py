from __future__ import annotations

import pytest

from mockbroker.quotas.rates import TokenBucket, WindowedRate


def test_new_rate_is_divided_by_almost_all_windows() -> None:
    rate = WindowedRate(11, 1.0)
    rate.record(20_000, 5.0)
    assert rate.window(5.0) == 10.0
    assert rate.rate(5.0) == 2_000
    assert rate.excess(1_000, 5.0) == 10.0  # (2000 - 1000) / 1000 of 10 s


def test_rate_is_allowed_again_after_the_excess() -> None:
    rate = WindowedRate(11, 1.0)
    rate.record(15_000, 0.0)
    wait = rate.excess(1_000, 0.0)
    assert wait == 5.0
    assert rate.excess(1_000, wait) == pytest.approx(5.0)  # ten full windows are needed, as in Kafka
    assert rate.excess(1_000, 11.0) == 0.0


def test_old_windows_are_dropped() -> None:
    rate = WindowedRate(2, 1.0)
    for second in range(5):
        rate.record(100, float(second))
    assert rate.rate(4.0) == 200
    assert rate.rate(50.0) == 0


def test_amount_is_taken_back() -> None:
    rate = WindowedRate(11, 1.0)
    rate.record(500, 1.0)
    rate.record(-500, 1.2)
    assert rate.rate(1.2) == 0


def test_bucket_begins_full_and_refills() -> None:
    bucket = TokenBucket(1.0, 11.0)
    assert bucket.tokens(100.0) == 11
    bucket.take(12, 100.0)
    assert bucket.excess(100.0) == 1.0
    assert bucket.tokens(100.5) == -0.5
    assert bucket.excess(101.0) == 0.0
    assert bucket.tokens(500.0) == 11


def test_tokens_are_given_back_up_to_the_burst() -> None:
    bucket = TokenBucket(1.0, 2.0)
    bucket.take(1, 0.0)
    bucket.take(-5, 0.0)
    assert bucket.tokens(0.0) == 2


def test_use_is_the_excess_after_the_amount_is_added() -> None:
    used, recorded = WindowedRate(11, 1.0), WindowedRate(11, 1.0)
    for number in range(400):
        now, amount = number * 0.37, (number * 7919 % 13) * 100
        recorded.record(amount, now)
        assert used.use(amount, 900, now) == recorded.excess(900, now), number
    assert used.rate(148.0) == recorded.rate(148.0) > 0
