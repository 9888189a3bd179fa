"""Divides the work on a malformed response into slices, by elements and bytes."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

ELEMENTS = 1_000  # of a slice: fields, records or batches
ELEMENT = 1 << 10  # bytes that cost as much as an element

BytesInSlices: TypeAlias = Generator[None, None, bytes]  # yields after each slice, and returns the changed bytes


class SliceCounter:
    """A counter of the work in a slice. It counts elements instead of time, so that simulations are reproducible."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_full(self, size: int = 0) -> bool:
        """Count an element of ``size`` bytes. If that fills the slice, return True and begin the next slice."""
        self._done += 1 + size // ELEMENT
        if self._done < ELEMENTS:
            return False
        self._done = 0
        return True
