"""Buffers for large byte strings that are collected or copied in steps."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from io import BytesIO

STEP = 1 << 22  # bytes that are copied in one step


def reserve(size: int) -> BytesIO:
    """Return a buffer of ``size`` zeros, to be overwritten; ``getvalue`` returns its bytes without a copy.

    The system provides the memory of the zeros when it is first written, and a BytesIO that alone refers to its bytes
    writes to them in place.
    """
    return BytesIO(bytes(size))


def join_in_steps(parts: Iterable[bytes | memoryview]) -> Generator[None, None, bytes]:
    """Return the concatenation of byte strings; yield after about every STEP bytes.

    As with ``b"".join``, the result may be a part itself, without a copy.
    """
    parts = list(parts)
    size = sum(map(len, parts))
    if size <= STEP or (len(parts) == 1 and isinstance(parts[0], bytes)):
        return b"".join(parts)
    joined, copied = reserve(size), 0
    for part in parts:
        view = memoryview(part)
        for at in range(0, len(view), STEP):
            copied += joined.write(view[at : at + STEP])
            if copied >= STEP:
                copied = 0
                yield
    return joined.getvalue()
