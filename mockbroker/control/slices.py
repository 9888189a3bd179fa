"""Long work on JSON that does not block other tasks: encoding in slices (parts of limited size), and worker threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, TypeVarTuple

import trio

ENCODED_AT_ONCE = 1 << 17  # characters that are encoded before other tasks run
PART_COST = 32  # characters whose encoding takes as long as the overhead of one part
CHECKED_AT_ONCE = 1 << 14  # bytes of a body that are checked in the task of the request
NESTED = 4  # levels of nesting that are divided: a list of groups, a group, its members, a member

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def without_blocking(size: int, check: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return the result of a function. If the body of a request is large, call the function in a worker thread, so that
    other tasks run.

    Args:
        size: size of the body in bytes.
        check: the function. It must depend only on its arguments, because the cluster changes meanwhile.
        args: arguments of the function.
    """
    if size <= CHECKED_AT_ONCE:
        return check(*args)
    return await trio.to_thread.run_sync(check, *args)


async def encode(content: Any, nested: int = NESTED) -> bytes:
    """Return a value as JSON in ASCII, encoded in slices.

    Args:
        content: the value.
        nested: number of levels of nested objects and arrays whose elements are encoded one by one. A deeper value is
            encoded in one piece.
    """
    parts, size = list[str](), 0
    for part in _parts(content, nested):
        parts.append(part)
        size += len(part) + PART_COST
        if size > ENCODED_AT_ONCE:
            size = 0
            await trio.lowlevel.checkpoint()
    return "".join(parts).encode("ascii")


def _parts(content: Any, nested: int) -> Iterator[str]:
    if not nested or not content or not isinstance(content, dict | list):
        yield _json(content)
    elif isinstance(content, dict):
        separator = "{"
        for key, value in content.items():
            yield f"{separator}{_json(key)}:"
            yield from _parts(value, nested - 1)
            separator = ","
        yield "}"
    else:
        separator = "["
        for value in content:
            yield separator
            yield from _parts(value, nested - 1)
            separator = ","
        yield "]"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
