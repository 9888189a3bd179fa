"""Work in slices, beside a task that counts how often it runs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Generator
from typing import Any

import pytest
import trio

from mockbroker.control.slices import complete, encode

VALUES = [{}, [], None, "é", 1.5, {"a": {}}, {"a": [{"b": [{"c": [1, {"d": None}]}]}], "e": True}, [[[[[[1]]]]]]]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("nested", [0, 1, 4])
async def test_json_in_parts_is_the_same_json(value: Any, nested: int) -> None:
    assert await encode(value, nested) == json.dumps(value, separators=(",", ":")).encode()


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


async def test_other_tasks_run_while_much_is_encoded() -> None:
    member = {"member_id": "m" * 1_000}
    groups = {"items": [{"members": [member] * 1_000}]}
    assert await turns_beside(encode(groups)) >= 4  # in 7 pauses; trio runs tasks in random order


async def test_other_tasks_run_between_slices() -> None:
    def slices() -> Generator[None, None, int]:
        for _ in range(10):
            yield
        return 5

    assert await turns_beside(complete(slices())) >= 7
    assert await complete(slices()) == 5
