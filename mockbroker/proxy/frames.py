"""Splits a byte stream into frames. Most frames are forwarded in pieces, as they arrive."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kwire.errors import RemoteProtocolError
from kwire.limits import MAX_FRAME

SIZE = struct.Struct(">i")
PASS = 0  # the frame is passed on as it arrives
COPY = -1  # so is this one, and a copy of it is collected

# Takes the beginning of a frame, with its length prefix. Returns PASS or COPY, or the number of bytes that must be
# there before it is called again; at the size of the whole frame, the frame is passed on as a whole.
Inspect: TypeAlias = Callable[[bytes, int], int]
Copied: TypeAlias = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Whole:
    """A complete frame, with its length prefix, that must be processed before it is passed on."""

    frame: bytes


class FrameSplitter:
    """The splitter of one direction of a connection.

    Args:
        head: Number of bytes of a frame, after its length prefix, that ``inspect`` needs.
        inspect: Function that decides whether a frame is forwarded in pieces. For other frames it may be called several
            times.
        copied: Function that is called with each copied frame, without its length prefix, before the last piece is
            forwarded.
    """

    def __init__(self, head: int, inspect: Inspect, copied: Copied | None = None) -> None:
        self._head = head
        self._inspect = inspect
        self._copied = copied
        self._copy: bytearray | None = None  # of the present frame
        self._held = bytearray()
        self._passing = 0  # bytes of the present frame that are passed on as they arrive

    @property
    def held(self) -> int:
        """The number of bytes that were received and not yet forwarded."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[bytes | Whole]:
        """Add received bytes; yield the bytes to forward and the frames to process, in order.

        ``data``: the received bytes.

        Raises: RemoteProtocolError if the size of a frame is negative or above 100 MiB; everything before the frame is
        yielded first.
        """
        if len(data) <= self._passing:  # a part of a large frame
            self._passed(data)
            yield data
            return
        held = self._held
        held += data
        start = at = 0
        try:
            while at < len(held):
                if self._passing:
                    step = min(self._passing, len(held) - at)
                    self._passed(held, at, at + step)
                    at += step
                    continue
                size = self._frame_at(at)
                if size is None:
                    break
                end = at + size
                needed = self._needed(at, size)
                if needed in (PASS, COPY):
                    self._passing = size
                    self._copy = bytearray() if needed == COPY else None
                elif needed >= size and end <= len(held):
                    if start < at:
                        yield bytes(held[start:at])
                    yield Whole(bytes(held[at:end]))
                    start = at = end
                else:
                    break
            if start < at:
                yield bytes(held[start:at])
        finally:
            del held[:at]

    def _passed(self, data: bytes | bytearray, begin: int = 0, end: int | None = None) -> None:
        """Record that a part of the present frame, ``data[begin:end]``, is forwarded.

        Args:
            data: Received bytes.
            begin: Index of the first byte.
            end: Index after the last byte; None for the end of ``data``.
        """
        self._passing -= (len(data) if end is None else end) - begin
        if self._copy is not None:
            self._copy += memoryview(data)[begin:end]
            if not self._passing and self._copied is not None:
                copy, self._copy = bytes(memoryview(self._copy)[SIZE.size :]), None
                self._copied(copy)

    def _frame_at(self, at: int) -> int | None:
        """Return the size of the frame at an offset, with its length prefix, in bytes; None if its head has not
        arrived.

        ``at``: the offset. Raises: RemoteProtocolError if the size is out of range.
        """
        held = self._held
        if len(held) - at < SIZE.size:
            return None
        (size,) = SIZE.unpack_from(held, at)
        if not 0 <= size <= MAX_FRAME:
            raise RemoteProtocolError(f"frame size {size} is out of range (0-{MAX_FRAME} bytes)")
        return None if len(held) - at < SIZE.size + min(self._head, size) else SIZE.size + int(size)

    def _needed(self, at: int, size: int) -> int:
        """Return PASS or COPY, or the number of bytes of the frame that are needed before it can be inspected or
        processed.

        Args:
            at: Offset of the frame.
            size: Size of the frame, with its length prefix, in bytes.
        """
        available = min(len(self._held) - at, size)
        needed = min(SIZE.size + self._head, size)
        while needed <= available:
            more = self._inspect(bytes(self._held[at : at + needed]), size)
            if more in (PASS, COPY, size):
                return more
            needed = more
        return needed
