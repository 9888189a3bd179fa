"""Long work in slices: other tasks run between two slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import trio

T = TypeVar("T")


async def complete(slices: Generator[None, None, T]) -> T:
    """Run a generator that yields between slices to its end; other tasks run between two slices. Return its result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result
        await trio.lowlevel.checkpoint()
