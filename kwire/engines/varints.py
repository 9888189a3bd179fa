"""Encoding of varints: groups of seven bits, lowest first. The high bit of a byte is set if another byte follows."""

from __future__ import annotations

_MORE = [bytes((low | 0x80,)) for low in range(128)]
_ENDS = [bytes((high,)) for high in range(128)]

# SHORT[n]: the varint of n, for frequent values
SHORT = _ENDS + [low + high for high in _ENDS[1:64] for low in _MORE]


def varint(value: int) -> bytes:
    """Return a signed number as a zigzag varint. ``value``: the number."""
    return uvarint(value << 1 if value >= 0 else ~(value << 1))


def uvarint(value: int) -> bytes:
    """Return ``value`` as an unsigned varint of minimal length. Raises: ValueError if the value is negative."""
    if value < 0:
        raise ValueError(f"{value} is negative and cannot be an unsigned varint")
    low = b""
    while value >= len(SHORT):
        low += _MORE[value & 0x7F]
        value >>= 7
    return low + SHORT[value]
