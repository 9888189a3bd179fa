"""Deadlines as data: which is next, which is due, and that old ones do not accumulate."""

from __future__ import annotations

from math import inf
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockbroker.base import deadlines
from mockbroker.base.deadlines import Deadlines


def due(kept: Deadlines[str], now: float) -> list[str]:
    results = []
    while (key := kept.pop_due(now)) is not None:
        results.append(key)
    return results


def test_nothing_is_due_at_first():
    kept = Deadlines[str]()
    assert (kept.earliest, kept.pop_due(1e9), len(kept)) == (inf, None, 0)


def test_earliest_first_and_then_as_they_were_set():
    kept = Deadlines[str]()
    for key, at in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("late", 9.0)):
        kept.set(key, at)
    assert kept.earliest == 1.0
    assert due(kept, 3.0) == ["a", "b", "c"]
    assert "late" in kept
    assert "a" not in kept
    assert kept.earliest == 9.0


def test_a_deadline_is_due_at_its_time_and_not_before():
    kept = Deadlines[str]()
    kept.set("a", 5.0)
    assert due(kept, 4.999) == []
    assert due(kept, 5.0) == ["a"]
    assert due(kept, 5.0) == []


def test_moved_back():
    kept = Deadlines[str]()
    kept.set("a", 1.0)
    kept.set("a", 5.0)
    assert due(kept, 4.0) == []
    assert kept.earliest == 5.0
    assert due(kept, 5.0) == ["a"]


def test_deadline_moves_after_another():
    kept = Deadlines[str]()
    kept.set("a", 1.0)
    kept.set("b", 3.0)
    kept.set("a", 5.0)
    assert due(kept, 9.0) == ["b", "a"]


def test_moved_forward():
    kept = Deadlines[str]()
    kept.set("a", 5.0)
    kept.set("a", 1.0)
    assert kept.earliest == 1.0
    assert due(kept, 9.0) == ["a"]


def test_forgotten():
    kept = Deadlines[str]()
    kept.set("a", 1.0)
    kept.forget("a")
    kept.forget("a")
    assert "a" not in kept
    assert due(kept, 9.0) == []
    assert kept.earliest == inf


def test_forgotten_and_set_again():
    kept = Deadlines[str]()
    kept.set("a", 1.0)
    kept.forget("a")
    kept.set("a", 5.0)
    assert due(kept, 4.0) == []
    assert due(kept, 5.0) == ["a"]


def test_never_is_a_deadline_too():
    kept = Deadlines[str]()
    kept.set("a", 1.0)
    kept.set("a", inf)
    assert due(kept, 1e12) == []
    kept.set("a", 2.0)
    assert due(kept, 2.0) == ["a"]


def test_key_set_again_while_deadlines_are_popped_is_due():
    kept = Deadlines[str]()
    kept.set("a", 1.0)
    assert kept.pop_due(1.0) == "a"
    kept.set("a", 1.0)
    assert due(kept, 1.0) == ["a"]


def held(kept: Deadlines) -> int:
    return len(kept._heap) + len(kept._queued) + len(kept._at)


def test_heartbeats_cost_nothing():
    kept = Deadlines[str]()
    for now in range(10_000):
        kept.set("member", now + 10.0)
    assert held(kept) == 3


def test_forgotten_deadline_is_not_kept_until_due():
    """An example is a fetch that may wait for a day, but gets its response at once after a produce, many times."""
    kept = Deadlines[int]()
    for number in range(100_000):
        kept.set(number, number + 86_400.0)
        kept.forget(number)
    assert held(kept) < 1_000


def test_one_key_moved_forward_again_and_again_is_kept_once():
    kept = Deadlines[str]()
    for at in range(100_000, 0, -1):
        kept.set("a", float(at))
    assert held(kept) < 1_000
    assert kept.earliest == 1.0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 20)),
        st.tuples(st.just("forget"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 6), st.just(0)),
    ),
    max_size=60,
)


@pytest.mark.parametrize("slack", [0, deadlines.SLACK])
@given(script=steps)
def test_as_a_plain_dictionary_would(slack, script):
    with patch.object(deadlines, "SLACK", slack):
        kept, plain, now = Deadlines[int](), dict[int, float](), 0.0
        for what, number, at in script:
            match what:
                case "set":
                    kept.set(number, now + at)
                    plain[number] = now + at
                case "forget":
                    kept.forget(number)
                    plain.pop(number, None)
                case _:
                    now += number
                    popped = []
                    while (key := kept.pop_due(now)) is not None:
                        popped.append(plain.pop(key))
                    assert popped == sorted(popped)
                    assert all(when <= now for when in popped)
                    assert all(when > now for when in plain.values())
                    assert kept.earliest > now
            assert kept.earliest <= min(plain.values(), default=inf)
            assert len(kept) == len(plain)
