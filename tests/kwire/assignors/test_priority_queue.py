from __future__ import annotations

from kwire.assignors.priority_queue import PriorityQueue


def test_lowest_priority_first() -> None:
    queue = PriorityQueue([3, 1, 2, 5, 4], float)
    assert [queue.poll() for _ in range(5)] == [1, 2, 3, 4, 5]
    assert not queue


def test_equal_priorities_in_the_order_of_java() -> None:
    """jshell: new PriorityQueue<>(comparingInt(String::length)), then add "a" to "e", then poll until it is empty."""
    queue = PriorityQueue("abcde", len)
    assert "".join(queue.poll() for _ in range(5)) == "aedcb"


def test_elements_are_added_between_polls() -> None:
    queue = PriorityQueue([2, 4], float)
    assert queue.poll() == 2
    queue.add(1)
    assert [queue.poll(), queue.poll()] == [1, 4]
