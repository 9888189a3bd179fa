"""The amount of work in a slice."""

from __future__ import annotations

from mockbroker.faults.slice_counter import ELEMENT, ELEMENTS, SliceCounter


def full_after(size: int) -> int:
    """Return the number of elements of ``size`` bytes that fill a slice."""
    count, elements = SliceCounter(), 1
    while not count.is_full(size):
        elements += 1
    return elements


def test_small_elements_fill_a_slice_by_their_number() -> None:
    assert full_after(0) == full_after(ELEMENT - 1) == ELEMENTS


def test_large_elements_fill_a_slice_by_their_size() -> None:
    assert full_after(ELEMENT) == ELEMENTS / 2
    assert full_after(ELEMENT * ELEMENTS) == 1


def test_next_slice_begins_empty() -> None:
    count = SliceCounter()
    assert [count.is_full() for _ in range(3 * ELEMENTS)].count(True) == 3
    assert count.is_full(ELEMENT * ELEMENTS)
    assert not count.is_full()
