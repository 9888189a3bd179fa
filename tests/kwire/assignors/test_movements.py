"""A moved partition is moved back before another partition of its topic moves."""

from __future__ import annotations

from kwire.assignors.movements import Movements
from kwire.java import bucket_of, partition_hash

A, B, C = range(3)  # members


def test_a_partition_that_never_moved_is_the_one_to_move() -> None:
    assert Movements(partition_hash).instead(("t", 0), A, B) == ("t", 0)


def test_the_first_that_moved_the_other_way_moves_back() -> None:
    movements = Movements(partition_hash)
    for number in (2, 0, 1):
        movements.add(("t", number), A, B)
    first = min(range(3), key=lambda number: bucket_of(partition_hash("t", number), 16))
    assert movements.instead(("t", 5), B, A) == ("t", first)
    assert movements.instead(("u", 5), B, A) == ("u", 5)


def test_a_move_is_counted_from_where_a_partition_was_first() -> None:
    movements = Movements(partition_hash)
    movements.add(("t", 0), A, B)
    movements.add(("t", 0), B, C)
    assert movements.instead(("t", 1), C, A) == ("t", 0)
    assert movements.instead(("t", 1), B, A) == ("t", 1)


def test_partition_that_returns_has_not_moved() -> None:
    movements = Movements(partition_hash)
    movements.add(("t", 0), A, B)
    movements.add(("t", 0), B, A)
    assert movements.instead(("t", 1), B, A) == ("t", 1)
