"""Length-prefixed frames: splitting a byte stream into frames, and adding the prefix.

Memory grows with the bytes received, not with the announced length. A large frame is collected without long pauses: no
reallocation copies more than an eighth of the frame.
"""

from __future__ import annotations

import struct
from io import BytesIO

from kwire.buffers import reserve
from kwire.errors import FrameError
from kwire.limits import MAX_FRAME

PREFIX = struct.Struct(">i")
SMALL = 4_096  # an incomplete frame of at most this many bytes is copied, a longer one is collected in a BytesIO
RESERVING = 4 << 20  # a frame of more bytes is collected in a buffer that is reserved ahead
AHEAD = 8  # maximum bytes reserved for each received byte
_size_at = PREFIX.unpack_from
_HINTS = (
    (b"GET ", "an HTTP request"),
    (b"POST", "an HTTP request"),
    (b"PUT ", "an HTTP request"),
    (b"HEAD", "an HTTP request"),
    (b"HTTP", "an HTTP response"),
    (b"PRI ", "an HTTP/2 connection"),
    (b"SSH-", "an SSH client"),
    (b"PROX", "a PROXY protocol header"),
    (b"\x16\x03", "a TLS handshake"),
)


def pack(frame: bytes) -> bytes:
    """Return a frame with its length prefix, an int32."""
    return PREFIX.pack(len(frame)) + frame


class FrameBuffer:
    """A buffer that takes received bytes and returns complete frames.

    Attributes:
        limit: maximum size of a frame, in bytes.
        held: number of bytes in the buffer: incomplete frames, and complete frames not yet returned.
    """

    __slots__ = ("_at", "_data", "_frame", "_missing", "_reserved", "_size", "held", "limit")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self.held = 0
        self._data: bytes | bytearray = b""  # bytearray while many chunks follow a frame that has not been returned yet
        self._at = 0  # where the next frame's prefix begins in _data
        self._frame: BytesIO | None = None  # an incomplete large frame; it precedes the bytes in _data
        self._size: int  # announced size of the incomplete large frame
        self._missing = 0  # bytes of the incomplete large frame still to be received
        self._reserved: int  # bytes of it that the BytesIO receives without reallocation, or with a short one

    def feed(self, data: bytes | bytearray | memoryview) -> bool:
        """Append bytes received from the connection, and return the new value of ``complete``.

        A bytearray or memoryview is copied, so the caller may use its memory for the next bytes.
        """
        if type(data) is not bytes:
            data = _copy(data)
        if not self.held and len(data) >= 4:  # most often: a whole frame, after all earlier frames were returned
            self.held = held = len(data)
            self._data, self._at = data, 0
            size: int = _size_at(data)[0]
            return held - 4 >= size or size > self.limit
        self._append_after_held(data)
        return self.complete

    def _append_after_held(self, data: bytes) -> None:
        self.held += len(data)
        if self._missing:
            data = self._collect(data)
        left = len(self._data) - self._at
        if not left:
            self._data = data
        elif left <= SMALL:
            self._data = bytes(self._data[self._at :]) + data
        elif not self.complete:
            self._begin_to_collect()
            self._data = self._collect(data)
        else:
            if not isinstance(self._data, bytearray):
                self._data = bytearray(self._data)
            del self._data[: self._at]
            self._data += data
        self._at = 0

    def _begin_to_collect(self) -> None:
        """Begin to collect a large frame in a BytesIO: move its received bytes from the buffer to the BytesIO.

        Bytes of the frame that arrive later are appended to the BytesIO.
        """
        (size,) = _size_at(self._data, self._at)
        received = memoryview(self._data)[self._at + PREFIX.size :]
        self._frame, self._reserved = BytesIO(), 0 if size > RESERVING else size
        self._size = self._missing = size
        self._append(received)

    def _collect(self, data: bytes) -> bytes:
        """Append received bytes to the large frame that is being collected. Return the bytes after the end of this
        frame.
        """
        rest = data[self._missing :]
        self._append(data[: self._missing])
        return rest

    def _append(self, data: bytes | memoryview) -> None:
        assert self._frame is not None
        received = self._size - self._missing
        end = received + len(data)
        if end > self._reserved:
            self._reserved = self._size
            while self._reserved // AHEAD >= end:
                self._reserved //= AHEAD
            reserved = reserve(self._reserved)
            reserved.write(self._frame.getbuffer()[:received])
            self._frame = reserved
        self._missing -= self._frame.write(data)

    def next_frame(self) -> bytes | None:
        """Return the next complete frame without its prefix, or None if more bytes are needed.

        Raises: FrameError if the length is negative or above the limit; the stream is unusable after that.
        """
        if (large := self._frame) is not None:
            return None if self._missing else self._next_large_frame(large)
        data, at = self._data, self._at
        begin, held = at + 4, len(data)
        if held < begin:
            self._release_consumed()
            return None
        (size,) = _size_at(data, at)
        if not 0 <= size <= self.limit:
            raise FrameError(_length_error(size, self.limit, bytes(data[at : at + 32])))
        end = begin + size
        if held < end:
            self._release_consumed()
            return None
        self.held -= size + 4
        if held == end:  # release a large frame at once, not with the next bytes
            self._data, self._at = b"", 0
        else:
            self._at = end
        return bytes(data[begin:end])

    def _next_large_frame(self, collected: BytesIO) -> bytes:
        """Return the large frame in the BytesIO, which is complete."""
        frame = collected.getvalue()  # getvalue shares the buffer: no copy
        self._frame = None
        self.held -= PREFIX.size + len(frame)
        return frame

    @property
    def complete(self) -> bool:
        """True if ``next_frame`` would return a frame or raise FrameError, instead of None."""
        if self._frame is not None:
            return not self._missing
        held = len(self._data) - self._at - PREFIX.size
        if held < 0:
            return False
        size: int = _size_at(self._data, self._at)[0]
        return held >= size or size > self.limit

    def _release_consumed(self) -> None:
        """Release the memory of the frames that were returned: keep only the bytes after them."""
        if self._at:  # else each piece of an incomplete frame would copy all pieces before it
            self._data, self._at = self._data[self._at :], 0

    def __len__(self) -> int:
        """Return the number of bytes in the buffer."""
        return self.held


def _copy(data: bytes | bytearray | memoryview) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, bytearray or memoryview, got {type(data).__name__}")
    return bytes(data)


def _length_error(size: int, limit: int, head: bytes) -> str:
    reason = "negative" if size < 0 else f"above the limit of {limit} bytes"
    hint = next((f"; this looks like {kind}" for start, kind in _HINTS if head.startswith(start)), "")
    return f"frame length {size} is {reason}{hint} (first bytes {head.hex(' ')})"
