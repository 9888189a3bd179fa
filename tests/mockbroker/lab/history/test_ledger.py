"""The checker of ownership counts the reported readers, to the second."""

from __future__ import annotations

from mockbroker.lab.history.ledger import Band, Ledger, Overlap
from mockbroker.lab.simulation.queue import Queue

P0, P1 = ("t", 0), ("t", 1)


def ledger(partitions: int = 2, groups: tuple[str, ...] = ("A",)) -> Ledger:
    return Ledger(Queue(), {"t": partitions}, groups)


def test_no_partition_is_read_before_the_first_join():
    found = ledger()
    found.queue.now = 10.0
    found.come("A", "a")
    found.queue.now = 12.0
    found.read("A", "a", {P0, P1})
    found.queue.now = 20.0
    found.end()
    assert (found.unread, found.stopped, found.double, found.moved) == (2 * 2.0, 0.0, 0.0, 0)
    assert found.bands == [Band("A", P0, "a", 12.0, 20.0), Band("A", P1, "a", 12.0, 20.0)]
    assert found.whole


def test_stopped_live_reader_stops_the_partition():
    found = ledger(1)
    for name in "ab":
        found.come("A", name)
    found.read("A", "a", {P0})
    found.queue.now = 5.0
    found.read("A", "a", ())
    found.queue.now = 8.0
    found.read("A", "b", {P0})
    found.queue.now = 10.0
    found.go("A", "b")
    found.read("A", "b", ())
    found.queue.now = 14.0
    found.read("A", "a", {P0})
    assert (found.unread, found.stopped, found.moved) == (7.0, 3.0, 2)


def test_stop_ends_with_the_death_of_the_last_reader():
    found = ledger(1)
    for name in "ab":
        found.come("A", name)
    found.read("A", "a", {P0})
    found.read("A", "a", ())
    found.queue.now = 2.0
    found.go("A", "a")
    found.queue.now = 5.0
    found.read("A", "b", {P0})
    assert (found.unread, found.stopped) == (5.0, 2.0)


def test_two_and_three_readers():
    found = ledger(1)
    for name, begin in (("a", 0.0), ("b", 1.0), ("c", 3.0)):
        found.queue.now = begin
        found.come("A", name)
        found.read("A", name, {P0})
    assert not found.whole
    found.queue.now = 4.0
    found.read("A", "b", ())
    found.queue.now = 6.0
    found.read("A", "a", ())
    assert found.whole
    assert found.double == 2.0 + 2 * 1.0 + 2.0
    assert found.overlaps == [
        Overlap("A", P0, ("a", "b"), 1.0, 3.0),
        Overlap("A", P0, ("a", "b", "c"), 3.0, 4.0),
        Overlap("A", P0, ("a", "c"), 4.0, 6.0),
    ]
    assert found.moved == 2
    assert found.unread == 0.0


def test_groups_do_not_mind_each_other():
    found = ledger(1, ("A", "B"))
    found.come("A", "a")
    found.come("B", "b")
    found.read("A", "a", {P0})
    found.read("B", "b", {P0})
    found.queue.now = 3.0
    found.end()
    assert (found.double, found.unread, found.overlaps) == (0.0, 0.0, [])
    assert found.readers("A") == {P0: ["a"]}


def test_reader_that_should_not_run_is_recorded():
    found = ledger(1)
    found.come("A", "a")
    found.read("A", "a", {P0})
    found.go("A", "a")
    assert not found.whole
    found.read("A", "a", ())
    assert found.whole


def test_new_partitions_are_unread_from_their_beginning():
    found = ledger(1)
    found.come("A", "a")
    found.read("A", "a", {P0})
    found.queue.now = 10.0
    found.grow("t", 3)
    assert not found.whole
    found.queue.now = 11.0
    found.read("A", "a", {P0, P1, ("t", 2)})
    assert (found.unread, found.stopped, found.moved) == (2.0, 0.0, 0)


def test_returning_reader_is_no_move():
    found = ledger(1)
    found.come("A", "a")
    for share in ({P0}, (), {P0}):
        found.read("A", "a", share)
    assert found.moved == 0
