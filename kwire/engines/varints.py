"""Unsigned varints as they are written: seven bits a byte, lowest first, the high bit where another byte follows."""

from __future__ import annotations

SHORT = [bytes((n,)) for n in range(128)]  # the varint of n, for all that are used much
SHORT += [bytes((low | 0x80, high)) for high in range(1, 64) for low in range(128)]

_MORE = [bytes((low | 0x80,)) for low in range(128)]


def uvarint(value: int) -> bytes:
    """``value`` as an unsigned varint, as long as it needs to be. Raises: ValueError if it is negative."""
    if value < 0:
        raise ValueError(f"{value} is negative, an unsigned varint is not")
    low = b""
    while value >= len(SHORT):
        low += _MORE[value & 0x7F]
        value >>= 7
    return low + SHORT[value]
