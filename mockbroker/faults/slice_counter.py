"""The division of the work on a malformed response into slices (parts of limited size), by number of elements and
bytes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

ELEMENTS = 1_000  # of a slice: fields, records or batches
ELEMENT = 1 << 10  # bytes that cost as much as an element

BytesInSlices: TypeAlias = Generator[None, None, bytes]  # yields after each slice, and returns the changed bytes


class SliceCounter:
    """A counter of the work in a slice (part of limited size), in elements and bytes.

    Between two slices, other requests are handled.

    The work is not measured in time, because simulations would then be irreproducible.
    """

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_full(self, size: int = 0) -> bool:
        """Count an element, and return whether the slice is now full. After a full slice, counting restarts at 0.

        ``size``: size of the element in bytes.
        """
        self._done += 1 + size // ELEMENT
        if self._done < ELEMENTS:
            return False
        self._done = 0
        return True
