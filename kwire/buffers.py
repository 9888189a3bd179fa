"""Buffers for large byte strings that are collected or copied in parts, so that no single operation takes long."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from io import BytesIO

STEP = 1 << 22  # bytes that are copied in one step


def reserve(size: int) -> BytesIO:
    """Return a buffer of ``size`` zeros, which the caller overwrites; ``getvalue`` returns its bytes without a copy.

    The call is fast, because the system provides the memory of the zeros only when it is first written. A BytesIO
    writes to its bytes in place as long as no other object refers to them.
    """
    return BytesIO(bytes(size))


def join_in_steps(parts: Iterable[bytes | memoryview]) -> Generator[None, None, bytes]:
    """Concatenate byte strings; yield after about every STEP bytes, so that the caller can do other work.

    The generator finally returns the concatenation. As with ``b"".join``, this may be one of ``parts`` itself, without
    a copy.
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
