"""Edge values and edge lengths that fuzzing uses often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from uuid import UUID

BITS: Mapping[str, tuple[int, bool]] = {  # bits and signedness of integers, by wire type
    "int8": (8, True),
    "int16": (16, True),
    "uint16": (16, False),
    "int32": (32, True),
    "uint32": (32, False),
    "int64": (64, True),
}
SIZES = (0, 1, 126, 127, 128, 129)  # a compact length of 127 takes a second byte
TEXTS = (
    "",
    "a",
    "topic",
    "\u0442\u0435\u043c\u0430",
    "\U0001f98a" * 32,
    "\udcff not UTF-8",
    "a\0b",
    "../a\nb",
    *("x" * size for size in SIZES[2:]),
)
CONTENTS = (*(bytes(size) for size in SIZES), b"\xff" * 8, b"\0\1\xff\xff\xff\xff")
FLOATS = (0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308)
UUIDS = (UUID(int=0), UUID(int=1), UUID(int=2**128 - 1))
TAGS = (0, 1, 127, 128, 16_383, 16_384, 2**31 - 1)
VARINTS: Mapping[str, bytes] = {  # invalid or unusual unsigned varints, by description
    "2^31": b"\x80\x80\x80\x80\x08",
    "2^32-1": b"\xff\xff\xff\xff\x0f",
    "2^31-1": b"\xff\xff\xff\xff\x07",
    "an unterminated varint": b"\xff\xff\xff\xff\xff\xff\x01",
    "an overlong zero": b"\x80\x80\x00",
}


def limits(wire: str) -> tuple[int, int]:
    """Return the smallest and the largest integer of a wire type. ``wire``: a key of BITS, such as ``int16``."""
    bits, signed = BITS[wire]
    low = -(2 ** (bits - 1)) if signed else 0
    return low, low + 2**bits - 1


def integers(wire: str) -> tuple[int, ...]:
    """Return the edge values of an integer wire type, smallest first. ``wire``: a key of BITS, such as ``int16``."""
    low, high = limits(wire)
    near = {low, low + 1, -2, -1, 0, 1, 2, 127, 128, 255, 256, 32_767, 32_768, 2**31 - 1, 2**31, high - 1, high}
    return tuple(sorted(value for value in near if low <= value <= high))
