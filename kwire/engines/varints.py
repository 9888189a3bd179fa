"""Encoding of unsigned varints: groups of seven bits, lowest first. The high bit of a byte is set if another byte
follows.
"""

from __future__ import annotations

SHORT = [bytes((n,)) for n in range(128)]  # SHORT[n]: the varint of n, for frequent values
SHORT += [bytes((low | 0x80, high)) for high in range(1, 64) for low in range(128)]

_MORE = [bytes((low | 0x80,)) for low in range(128)]


def uvarint(value: int) -> bytes:
    """Return ``value`` as an unsigned varint of minimal length. Raises: ValueError if the value is negative."""
    if value < 0:
        raise ValueError(f"{value} is negative and cannot be an unsigned varint")
    low = b""
    while value >= len(SHORT):
        low += _MORE[value & 0x7F]
        value >>= 7
    return low + SHORT[value]
