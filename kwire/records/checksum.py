"""CRC-32C, the checksum of record batches."""

from __future__ import annotations

from collections.abc import Callable

from kwire.engines.chosen import DEFAULT
from kwire.engines.native import package

PIECE = 1 << 18  # bytes that are copied at once


def _extend(before: int, data: bytes) -> int:
    """Compute a CRC-32C. At its first call, this function is replaced by ``google_crc32c.extend``.

    The module google_crc32c is imported only then, because a broker without records does not need it.

    Args:
        before: CRC-32C of the bytes before ``data``; 0 for none.
        data: further bytes.
    """
    from google_crc32c import extend  # on demand: a broker without records does not need it

    globals()["_extend"] = extend
    return int(extend(before, data))


def _copied(data: bytes, start: int = 0, before: int = 0, /) -> int:
    if not start:
        return int(_extend(before, data))
    for at in range(start, len(data), PIECE):
        before = _extend(before, data[at : at + PIECE])
    return int(before)


def crc32c_with(engine: str) -> Callable[..., int]:
    """Return the function that computes a CRC-32C with an engine. With the native engine, it does not copy the data."""
    if engine != "native":
        return _copied
    function: Callable[..., int] = package().crc32c
    return function


# crc32c(data, start, before) -> the CRC-32C of the bytes from offset ``start`` (0) on; ``before`` (0) is the CRC of the
# bytes before them.
crc32c = crc32c_with(DEFAULT)
