"""Long work in slices (parts of limited size): other tasks run between two slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import trio

T = TypeVar("T")


async def complete(slices: Generator[None, None, T]) -> T:
    """Run a generator (``slices``) to its end, and let other tasks run at each ``yield``.

    Return the generator's result.
    """
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result
        await trio.lowlevel.checkpoint()
