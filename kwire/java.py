"""Hashes of Java's classes and the order of its HashMap: Kafka's ties are decided by them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import mul
from typing import TypeVar
from uuid import UUID

_MASK = 0xFFFF_FFFF
_POWERS = [31**n & _MASK for n in range(64)]  # what each unit of a part counts, the last one first

_Key = TypeVar("_Key")


@lru_cache(maxsize=16_384)  # a coordinator asks for the same member ids again and again
def string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, signed 32 bits."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        data = utf16(text)
        units = struct.unpack(f">{len(data) // 2}H", data)
    value = 0
    for at in range(0, len(units), len(_POWERS)):
        part = units[at : at + len(_POWERS)]
        value = value * 31 ** len(part) + sum(map(mul, reversed(part), _POWERS))
        value &= _MASK
    return _signed(value)


def uuid_hash(uuid: UUID) -> int:
    """``hashCode`` of Kafka's Uuid: its four quarters xored, signed 32 bits."""
    halves = uuid.int >> 64 ^ uuid.int
    return _signed((halves >> 32 ^ halves) & _MASK)


def map_order(keys: Iterable[str], most: int = 0) -> list[str]:
    """Strings as a HashMap iterates them; see ``bucket_order``."""
    return bucket_order(keys, string_hash, most)


def bucket_order(keys: Iterable[_Key], hash_of: Callable[[_Key], int], most: int = 0) -> list[_Key]:
    """Keys as a HashMap iterates them; ``keys`` in the order they were put, ``most``: the most it ever held."""
    listed = list(keys)
    size = 16
    while max(most, len(listed)) > size * 3 // 4:
        size *= 2

    def bucket(key: _Key) -> int:
        value = hash_of(key) & _MASK
        return (value ^ value >> 16) & (size - 1)

    return sorted(listed, key=bucket)


def copy_order(keys: Iterable[_Key], hash_of: Callable[[_Key], int]) -> list[_Key]:
    """Keys as a HashSet iterates them that was made from a collection: one at 12, 24, 48 ... keys has grown already."""
    listed = list(keys)
    return bucket_order(listed, hash_of, most=len(listed) + 1)


def utf16(text: str) -> bytes:
    """A sort key in the order of ``String.compareTo``, which goes by UTF-16 units and not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def uuid_order(uuid: UUID) -> int:
    """A sort key in the order of ``Uuid.compareTo``: both halves as signed numbers."""
    return uuid.int ^ (1 << 127 | 1 << 63)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
