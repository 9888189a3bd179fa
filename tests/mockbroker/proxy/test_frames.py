"""Frames are passed on in order, however the stream is split; only frames that must be processed are buffered."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import pytest

from kwire.errors import RemoteProtocolError
from mockbroker.proxy.frames import PASS, FrameSplitter, Whole

HEAD = 4


def frame(text: bytes) -> bytes:
    return struct.pack(">i", len(text)) + text


def inspect(head: bytes, size: int) -> int:
    """Request whole frames that begin with w; let frames that begin with m pass after ten bytes were seen, and others
    at once."""
    if head[4:5] == b"w":
        return size
    if head[4:5] == b"m" and len(head) < min(14, size):
        return min(14, size - 1) if len(head) < size - 1 else PASS
    return PASS


def passed(parts: Iterator[bytes | Whole]) -> tuple[bytes, list[bytes]]:
    """Return all bytes that were passed on, and the frames that were processed as a whole."""
    items = list(parts)
    whole = [each.frame for each in items if isinstance(each, Whole)]
    return b"".join(each.frame if isinstance(each, Whole) else each for each in items), whole


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, 1_000])
def test_streams_are_passed_unchanged_in_pieces_of_any_size(size: int) -> None:
    random = Random(size)
    frames = [frame(random.choice([b"p", b"w", b"m"]) + random.randbytes(random.randrange(40))) for _ in range(200)]
    frames += [frame(b"")]
    stream = b"".join(frames)
    splitter, out, whole = FrameSplitter(HEAD, inspect), b"", []
    for at in range(0, len(stream), size):
        data, processed = passed(splitter.feed(stream[at : at + size]))
        out += data
        whole += processed
    assert out == stream
    assert whole == [each for each in frames if each[4:5] == b"w"]
    assert splitter.held == 0


def test_a_large_frame_is_not_held() -> None:
    splitter = FrameSplitter(HEAD, inspect)
    stream = frame(b"p" + bytes(1_000_000))
    for at in range(0, len(stream), 1_000):
        data, _ = passed(splitter.feed(stream[at : at + 1_000]))
        assert data == stream[at : at + 1_000]
        assert splitter.held == 0


@pytest.mark.parametrize("size", [-1, 2**31 - 1, 104_857_601])
def test_invalid_sizes_are_refused_after_what_is_before(size: int) -> None:
    parts = FrameSplitter(HEAD, inspect).feed(frame(b"w123") + struct.pack(">i", size))
    assert next(parts) == Whole(frame(b"w123"))
    with pytest.raises(RemoteProtocolError, match=rf"frame size {size} is out of range \(0-104857600 bytes\)"):
        next(parts)
