"""The splitting of a byte stream into frames. Most frames are forwarded in pieces, as the bytes arrive."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TypeAlias

from kwire.errors import RemoteProtocolError
from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_FRAME

SIZE = struct.Struct(">i")
PASS = 0  # the frame is forwarded as it arrives
COPY = -1  # the same, and a copy is collected

# Takes the beginning of a frame, with its length prefix. Returns PASS, COPY, or the number of bytes that it needs to
# decide. If this is the size of the frame, the frame is collected, and forwarded when it is complete.
Inspect: TypeAlias = Callable[[bytes, int], int]
Copied: TypeAlias = Callable[[bytes], None]

# Takes received bytes, and the offset of a frame in them. Returns the offset of the next frame that must be inspected,
# or whose head is incomplete. The offset is beyond the end of the bytes if the frame before it is incomplete.
Skip: TypeAlias = Callable[[bytes, int], int]


def no_skip(data: bytes, at: int) -> int:  # noqa: ARG001
    """Return ``at``, so that no frame is skipped. This is the default of the argument ``skip`` of FrameSplitter.

    Args:
        data: received bytes; not used.
        at: offset of a frame in ``data``.
    """
    return at


@dataclass(frozen=True, slots=True)
class Whole:
    """A complete frame, with its length prefix, that must be processed and possibly changed before it is forwarded."""

    frame: bytes


class FrameSplitter:
    """The splitter of a byte stream, one direction of a connection, into frames.

    Args:
        head: number of bytes of a frame, after its length prefix, that ``inspect`` needs at least.
        inspect: function that decides how to forward a frame. It gets the beginning of the frame and the frame's size.
            It returns PASS to forward the frame in pieces; COPY to forward it in pieces and call ``copied``; the
            frame's size to get the complete frame as a ``Whole``; or a number of bytes, if it needs this many bytes of
            the frame to decide.
        copied: function that gets each frame for which ``inspect`` has returned COPY, without its length prefix. It is
            called before the last piece of the frame is forwarded.
        skip: function that gets received bytes and the offset of a frame, and returns the offset of the next frame to
            inspect. Frames before the returned offset are forwarded in pieces.
    """

    def __init__(self, head: int, inspect: Inspect, copied: Copied | None = None, skip: Skip = no_skip) -> None:
        self._head = head
        self._inspect = inspect
        self._copied = copied
        self._skip = skip
        self._copy: bytearray | None = None  # of the present frame
        self._held = bytearray()
        self._wanted = 0  # bytes that must be held before the frame at the beginning of them is inspected again
        self._passing = 0  # bytes of the present frame that are forwarded as they arrive

    @property
    def is_between_frames(self) -> bool:
        """Whether the bytes yielded so far end with a complete frame."""
        return not self._passing

    @property
    def passing(self) -> int:
        """The number of bytes of the current frame that have not arrived and need only be forwarded. 0 between frames,
        and if the bytes must be copied.
        """
        return self._passing if self._copy is None else 0

    def skip(self, size: int) -> None:
        """Record that bytes of the current frame were received and forwarded without ``feed``.

        ``size``: number of these bytes, at most ``passing``.
        """
        self._passing -= size

    @property
    def held(self) -> int:
        """The number of bytes that were received and not yet forwarded."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[bytes | Whole]:
        """Add received bytes; yield the bytes to forward and the frames to process, in order.

        ``data``: the received bytes.

        Raises:
            RemoteProtocolError: The size of a frame is negative or above 100 MiB. All bytes before the frame are
                yielded first.
        """
        if len(data) <= self._passing:  # a part of a large frame
            self._passed(data)
            return iter((data,))
        if not self._held and self._copy is None:
            self._passing = self._skip(data, self._passing)
            if self._passing >= len(data):
                self._passing -= len(data)
                return iter((data,))
        return self._parts(data)

    def _parts(self, data: bytes) -> Iterator[bytes | Whole]:
        if self._held:
            self._held += data
            if len(self._held) < self._wanted:
                return
            data, self._held = bytes(self._held), bytearray()
        start = at = 0
        try:
            while at < len(data):
                if self._passing:
                    step = min(self._passing, len(data) - at)
                    self._passed(data, at, at + step)
                    at += step
                    continue
                if (following := self._skip(data, at)) > at:
                    self._passing = following - at
                    continue
                size = self._frame_at(data, at)
                if size is None:
                    break
                end = at + size
                needed = self._needed(data, at, size)
                if needed in (PASS, COPY):
                    self._passing = size
                    self._copy = bytearray() if needed == COPY else None
                elif needed >= size and end <= len(data):
                    if start < at:
                        yield data[start:at]
                    yield Whole(data[at:end])
                    start = at = end
                else:
                    self._wanted = needed
                    break
        except RemoteProtocolError:
            if start < at:
                yield data[start:at]
            raise
        else:
            if start < at:
                yield data[start:at]
        finally:
            self._held += memoryview(data)[at:]

    def _passed(self, data: bytes, begin: int = 0, end: int | None = None) -> None:
        """Record that a part of the current frame, ``data[begin:end]``, is forwarded.

        Args:
            data: received bytes.
            begin: index of the first forwarded byte.
            end: index after the last forwarded byte; None for the end of ``data``.
        """
        self._passing -= (len(data) if end is None else end) - begin
        if self._copy is not None:
            self._copy += memoryview(data)[begin:end]
            if not self._passing and self._copied is not None:
                copy, self._copy = bytes(memoryview(self._copy)[SIZE.size :]), None
                self._copied(copy)

    def _frame_at(self, data: bytes, at: int) -> int | None:
        """Return the size of the frame at an offset, in bytes with its length prefix; None if too few of its bytes have
        arrived.

        Args:
            data: received bytes.
            at: offset of the frame in ``data``.

        Raises:
            RemoteProtocolError: The size is negative or above 100 MiB.
        """
        self._wanted = SIZE.size
        if len(data) - at < SIZE.size:
            return None
        (size,) = SIZE.unpack_from(data, at)
        if not 0 <= size <= MAX_FRAME:
            raise RemoteProtocolError(f"frame size {size} is out of range (0-{MAX_FRAME} bytes)")
        self._wanted = SIZE.size + min(self._head, size)
        return None if len(data) - at < self._wanted else SIZE.size + int(size)

    def _needed(self, data: bytes, at: int, size: int) -> int:
        """Return how to forward a frame: PASS, COPY, or its size for a ``Whole``.

        If ``inspect`` cannot decide with the bytes that have arrived, return the number of bytes that it needs.

        Args:
            data: received bytes.
            at: offset of the frame in ``data``.
            size: size of the frame in bytes, with its length prefix.
        """
        available = min(len(data) - at, size)
        needed = min(SIZE.size + self._head, size)
        while needed <= available:
            more = self._inspect(data[at : at + needed], size)
            if more in (PASS, COPY, size):
                return more
            needed = more
        return needed
