"""The purgatory: the pending requests that watch a partition."""

from __future__ import annotations

from mockbroker.base.effects import Ticket
from mockbroker.broker.purgatory import Purgatory

FIRST, SECOND, THIRD = (Ticket(number, 1, 1, 11) for number in range(3))


def test_returns_watching_requests_oldest_first():
    purgatory: Purgatory[tuple[str, int], str] = Purgatory()
    purgatory.add(FIRST, "first", [("t", 0), ("t", 1)])
    purgatory.add(SECOND, "second", [("u", 0)])
    purgatory.add(THIRD, "third", [("t", 1)])
    assert purgatory.watching([("t", 1)]) == ["first", "third"]
    assert purgatory.watching([("t", 0)]) == ["first"]
    assert purgatory.watching([("t", 0), ("u", 0), ("t", 1)]) == ["first", "second", "third"]
    assert purgatory.watching([("t", 2)]) == []
    assert purgatory.remove(FIRST) == "first"
    assert purgatory.remove(FIRST) is None
    assert purgatory.watching([("t", 1)]) == ["third"]
    purgatory.remove(SECOND)
    purgatory.remove(THIRD)
    assert (purgatory.pending, purgatory.watchers, purgatory.watched) == ({}, {}, {})


def test_accepts_a_duplicate_partition():
    purgatory: Purgatory[tuple[str, int], str] = Purgatory()
    purgatory.add(FIRST, "twice", [("t", 0), ("t", 0)])
    assert purgatory.watching([("t", 0)]) == ["twice"]
    assert purgatory.remove(FIRST) == "twice"
    assert (purgatory.pending, purgatory.watchers, purgatory.watched) == ({}, {}, {})
