"""The occurrence of a rule: to which of the matching requests it applies."""

from __future__ import annotations

import pytest

from mockbroker.faults.occurrence import Counters
from mockbroker.faults.rule import Delay, Occurrence

CASES = [  # occurrence, which of ten requests the rule applies to
    (Occurrence(), [1]),
    (Occurrence(times=3), [1, 2, 3]),
    (Occurrence(times=None), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
    (Occurrence(skip=2, times=2), [3, 4]),
    (Occurrence(every=3, times=None), [1, 4, 7, 10]),
    (Occurrence(skip=1, every=4, times=None), [2, 6, 10]),
    (Occurrence(skip=1, every=4, times=2), [2, 6]),
    (Occurrence(skip=10), []),
    (Occurrence(probability=0, times=None), []),
    (Occurrence(probability=0.5, seed=1, times=None), [1, 4, 5, 6, 9, 10]),
    (Occurrence(probability=0.5, seed=1, times=2), [1, 4]),
    (Occurrence(probability=0.5, seed=2, every=2, times=None), [5, 7]),
]


@pytest.mark.parametrize(("occurrence", "applied"), CASES)
def test_applied_requests(occurrence, applied):
    counters = Counters(occurrence)
    assert [number for number in range(1, 11) if counters.record_match()] == applied
    assert (counters.matched, counters.applied) == (10, len(applied))
    assert counters.exhausted is (occurrence.times == len(applied))


def test_an_exhausted_rule_still_counts_matches():
    counters = Counters(Occurrence(times=1))
    assert not counters.exhausted
    assert [counters.record_match() for _ in range(3)] == [True, False, False]
    assert (counters.matched, counters.applied, counters.exhausted) == (3, 1, True)


def test_equal_seeds_give_equal_outcomes():
    outcomes = []
    for _ in range(2):
        counters = Counters(Occurrence(probability=0.3, seed=7, times=None))
        delay = Delay(delay_ms=100, jitter_ms=50)
        outcomes.append([(counters.record_match(), counters.delay_ms(delay)) for _ in range(100)])
    assert outcomes[0] == outcomes[1]


def test_jitter_is_added_to_the_delay():
    counters = Counters(Occurrence())
    delays = {counters.delay_ms(Delay(delay_ms=100, jitter_ms=3)) for _ in range(100)}
    assert delays == {100, 101, 102, 103}


def test_a_delay_without_jitter_is_exact():
    assert Counters(Occurrence()).delay_ms(Delay(delay_ms=5)) == 5
