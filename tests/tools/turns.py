"""The number of turns of another task during some work."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import trio


async def turns_beside(work: Awaitable[Any]) -> int:
    """Return how often another task runs during some work."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await work
        nursery.cancel_scope.cancel()
    return turns
