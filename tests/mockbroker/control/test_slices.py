"""JSON that is encoded in slices, next to a task that counts how often it runs."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from tools.turns import turns_beside

from mockbroker.control.slices import CHECKED_AT_ONCE, encode, without_blocking

VALUES = [{}, [], None, "é", 1.5, {"a": {}}, {"a": [{"b": [{"c": [1, {"d": None}]}]}], "e": True}, [[[[[[1]]]]]]]


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("nested", [0, 1, 4])
async def test_json_in_parts_is_the_same_json(value: Any, nested: int) -> None:
    assert await encode(value, nested) == json.dumps(value, separators=(",", ":")).encode()


async def test_other_tasks_run_while_much_is_encoded() -> None:
    member = {"member_id": "m" * 1_000}
    groups = {"items": [{"members": [member] * 1_000}]}
    assert await turns_beside(encode(groups)) >= 4  # of 7 pauses; trio runs tasks in random order


async def test_other_tasks_run_while_many_small_values_are_encoded() -> None:
    assert await turns_beside(encode([{}] * 50_000)) >= 10  # of 25 pauses; trio runs tasks in random order


async def test_a_large_body_is_checked_in_a_worker_thread() -> None:
    here = threading.get_ident()
    assert await without_blocking(CHECKED_AT_ONCE, threading.get_ident) == here
    assert await without_blocking(CHECKED_AT_ONCE + 1, threading.get_ident) != here
