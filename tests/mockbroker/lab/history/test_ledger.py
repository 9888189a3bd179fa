"""The ledger of partition owners counts the reported readers exactly."""

from __future__ import annotations

from mockbroker.lab.history.ledger import Band, Ledger, Overlap
from mockbroker.lab.simulation.queue import Queue

P0, P1 = ("t", 0), ("t", 1)


def ledger(partitions: int = 2, groups: tuple[str, ...] = ("A",)) -> Ledger:
    return Ledger(Queue(), {"t": partitions}, groups)


def test_no_partition_is_read_before_the_first_join():
    result = ledger()
    result.queue.now = 10.0
    result.come("A", "a")
    result.queue.now = 12.0
    result.read("A", "a", {P0, P1})
    result.queue.now = 20.0
    result.end()
    assert (result.unread, result.stopped, result.double, result.moved) == (2 * 2.0, 0.0, 0.0, 0)
    assert result.bands == [Band("A", P0, "a", 12.0, 20.0), Band("A", P1, "a", 12.0, 20.0)]
    assert result.whole


def test_stopped_live_reader_stops_the_partition():
    result = ledger(1)
    for name in "ab":
        result.come("A", name)
    result.read("A", "a", {P0})
    result.queue.now = 5.0
    result.read("A", "a", ())
    result.queue.now = 8.0
    result.read("A", "b", {P0})
    result.queue.now = 10.0
    result.go("A", "b")
    result.read("A", "b", ())
    result.queue.now = 14.0
    result.read("A", "a", {P0})
    assert (result.unread, result.stopped, result.moved) == (7.0, 3.0, 2)


def test_stop_ends_with_the_death_of_the_last_reader():
    result = ledger(1)
    for name in "ab":
        result.come("A", name)
    result.read("A", "a", {P0})
    result.read("A", "a", ())
    result.queue.now = 2.0
    result.go("A", "a")
    result.queue.now = 5.0
    result.read("A", "b", {P0})
    assert (result.unread, result.stopped) == (5.0, 2.0)


def test_two_and_three_readers():
    result = ledger(1)
    for name, begin in (("a", 0.0), ("b", 1.0), ("c", 3.0)):
        result.queue.now = begin
        result.come("A", name)
        result.read("A", name, {P0})
    assert not result.whole
    result.queue.now = 4.0
    result.read("A", "b", ())
    result.queue.now = 6.0
    result.read("A", "a", ())
    assert result.whole
    assert result.double == 2.0 + 2 * 1.0 + 2.0
    assert result.overlaps == [
        Overlap("A", P0, ("a", "b"), 1.0, 3.0),
        Overlap("A", P0, ("a", "b", "c"), 3.0, 4.0),
        Overlap("A", P0, ("a", "c"), 4.0, 6.0),
    ]
    assert result.moved == 2
    assert result.unread == 0.0


def test_groups_do_not_mind_each_other():
    result = ledger(1, ("A", "B"))
    result.come("A", "a")
    result.come("B", "b")
    result.read("A", "a", {P0})
    result.read("B", "b", {P0})
    result.queue.now = 3.0
    result.end()
    assert (result.double, result.unread, result.overlaps) == (0.0, 0.0, [])
    assert result.readers("A") == {P0: ["a"]}


def test_reader_that_should_not_run_is_recorded():
    result = ledger(1)
    result.come("A", "a")
    result.read("A", "a", {P0})
    result.go("A", "a")
    assert not result.whole
    result.read("A", "a", ())
    assert result.whole


def test_new_partitions_are_unread_from_their_beginning():
    result = ledger(1)
    result.come("A", "a")
    result.read("A", "a", {P0})
    result.queue.now = 10.0
    result.grow("t", 3)
    assert not result.whole
    result.queue.now = 11.0
    result.read("A", "a", {P0, P1, ("t", 2)})
    assert (result.unread, result.stopped, result.moved) == (2.0, 0.0, 0)


def test_returning_reader_is_no_move():
    result = ledger(1)
    result.come("A", "a")
    for share in ({P0}, (), {P0}):
        result.read("A", "a", share)
    assert result.moved == 0
