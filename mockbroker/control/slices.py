"""Encoding of JSON in slices (parts of limited size): other tasks run between two slices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import trio

ENCODED_AT_ONCE = 1 << 17  # characters that are encoded before other tasks run
NESTED = 4  # levels of nesting that are divided: a list of groups, a group, its members, a member


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
        size += len(part)
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
