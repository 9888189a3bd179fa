"""Deadlines as data: which is next, which is due, and that nothing piles up."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from mockbroker.deadlines import Deadlines


def due(deadlines: Deadlines[str], now: float) -> list[str]:
    found = []
    while (key := deadlines.pop_due(now)) is not None:
        found.append(key)
    return found


def test_nothing_is_due_at_first():
    deadlines = Deadlines[str]()
    assert (deadlines.next(), deadlines.pop_due(1e9), len(deadlines)) == (inf, None, 0)


def test_earliest_first_and_then_as_they_were_set():
    deadlines = Deadlines[str]()
    for key, at in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("late", 9.0)):
        deadlines.set(key, at)
    assert deadlines.next() == 1.0
    assert due(deadlines, 3.0) == ["a", "b", "c"]
    assert "late" in deadlines
    assert "a" not in deadlines
    assert deadlines.next() == 9.0


def test_a_deadline_is_due_at_its_time_and_not_before():
    deadlines = Deadlines[str]()
    deadlines.set("a", 5.0)
    assert due(deadlines, 4.999) == []
    assert due(deadlines, 5.0) == ["a"]
    assert due(deadlines, 5.0) == []


def test_moved_back():
    deadlines = Deadlines[str]()
    deadlines.set("a", 1.0)
    deadlines.set("a", 5.0)
    assert due(deadlines, 4.0) == []
    assert deadlines.next() == 5.0
    assert due(deadlines, 5.0) == ["a"]


def test_moved_forward():
    deadlines = Deadlines[str]()
    deadlines.set("a", 5.0)
    deadlines.set("a", 1.0)
    assert deadlines.next() == 1.0
    assert due(deadlines, 9.0) == ["a"]


def test_forgotten():
    deadlines = Deadlines[str]()
    deadlines.set("a", 1.0)
    deadlines.forget("a")
    deadlines.forget("a")
    assert "a" not in deadlines
    assert due(deadlines, 9.0) == []
    assert deadlines.next() == inf


def test_forgotten_and_set_again():
    deadlines = Deadlines[str]()
    deadlines.set("a", 1.0)
    deadlines.forget("a")
    deadlines.set("a", 5.0)
    assert due(deadlines, 4.0) == []
    assert due(deadlines, 5.0) == ["a"]


def test_never_is_a_deadline_too():
    deadlines = Deadlines[str]()
    deadlines.set("a", 1.0)
    deadlines.set("a", inf)
    assert due(deadlines, 1e12) == []
    deadlines.set("a", 2.0)
    assert due(deadlines, 2.0) == ["a"]


def test_a_key_set_while_the_due_ones_are_taken():
    deadlines = Deadlines[str]()
    deadlines.set("a", 1.0)
    assert deadlines.pop_due(1.0) == "a"
    deadlines.set("a", 1.0)
    assert due(deadlines, 1.0) == ["a"]


def held(deadlines: Deadlines) -> int:
    return len(deadlines._heap) + len(deadlines._queued) + len(deadlines._at)


def test_heartbeats_cost_nothing():
    deadlines = Deadlines[str]()
    for now in range(10_000):
        deadlines.set("member", now + 10.0)
    assert held(deadlines) == 3


def test_what_is_forgotten_is_not_kept_until_its_time():
    """A fetch that may wait for a day, and is answered at once by a produce, again and again."""
    deadlines = Deadlines[int]()
    for number in range(100_000):
        deadlines.set(number, number + 86_400.0)
        deadlines.forget(number)
    assert held(deadlines) < 1_000


def test_one_key_moved_forward_again_and_again_is_kept_once():
    deadlines = Deadlines[str]()
    for at in range(100_000, 0, -1):
        deadlines.set("a", float(at))
    assert held(deadlines) < 1_000
    assert deadlines.next() == 1.0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 20)),
        st.tuples(st.just("forget"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 6), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
def test_as_a_plain_dictionary_would(script):
    deadlines, plain, now = Deadlines[int](), dict[int, float](), 0.0
    for what, number, at in script:
        match what:
            case "set":
                deadlines.set(number, now + at)
                plain[number] = now + at
            case "forget":
                deadlines.forget(number)
                plain.pop(number, None)
            case _:
                now += number
                popped = []
                while (key := deadlines.pop_due(now)) is not None:
                    popped.append(plain.pop(key))
                assert popped == sorted(popped)
                assert all(when <= now for when in popped)
                assert all(when > now for when in plain.values())
                assert deadlines.next() > now
        assert deadlines.next() <= min(plain.values(), default=inf)
        assert len(deadlines) == len(plain)
