"""The length prefix: a byte stream into frames, and a frame onto a byte stream.

Memory grows with the bytes that came in, never with what a prefix promises.
"""

from __future__ import annotations

import struct
from io import BytesIO

from kwire.errors import FrameError
from kwire.limits import MAX_FRAME

PREFIX = struct.Struct(">i")
SMALL = 4_096  # bytes that are copied rather than collected: the begin of a frame whose rest comes with the next bytes
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
    """A frame behind its length, ready to be sent."""
    return PREFIX.pack(len(frame)) + frame


class FrameBuffer:
    """Bytes in, complete frames out.

    limit: the largest frame that is accepted, in bytes
    held: bytes that are incomplete, or complete and not yet taken
    """

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self.held = 0
        self._data: bytes | bytearray = b""  # bytearray while many pieces wait behind a frame that is not taken
        self._at = 0  # where the next frame's prefix begins in _data
        self._frame: BytesIO | None = None  # a frame that takes many pieces; it comes before what is in _data
        self._missing = 0  # bytes of it that have not come

    def feed(self, data: bytes) -> None:
        """Take bytes as they came."""
        self.held += len(data)
        if self._missing:
            data = self._collect(data)
        left = len(self._data) - self._at
        if not left:
            self._data = data
        elif left <= SMALL:
            self._data = bytes(self._data[self._at :]) + data
        elif self._frame is None and not self.complete:
            self._begin_to_collect()
            self._data = self._collect(data)
        else:
            if not isinstance(self._data, bytearray):
                self._data = bytearray(self._data)
            del self._data[: self._at]
            self._data += data
        self._at = 0

    def _begin_to_collect(self) -> None:
        """What is held is the begin of one frame."""
        (size,) = _size_at(self._data, self._at)
        begun = memoryview(self._data)[self._at + PREFIX.size :]
        self._frame = BytesIO()
        self._frame.write(begun)
        self._missing = size - len(begun)

    def _collect(self, data: bytes) -> bytes:
        """Add to the frame that is being collected; the bytes behind it."""
        assert self._frame is not None
        rest = data[self._missing :]
        self._missing -= self._frame.write(data[: self._missing])
        return rest

    def next_frame(self) -> bytes | None:
        """The next complete frame without its prefix, or None if more bytes are needed.

        Raises: FrameError for a length below zero or above the limit; nothing can be read after it.
        """
        if self._frame is not None:
            return self._collected()
        data, begin = self._data, self._at + 4
        held = len(data)
        if held < begin:
            self._drop_taken()
            return None
        (size,) = _size_at(data, self._at)
        if not 0 <= size <= self.limit:
            raise FrameError(self._complaint(size, bytes(data[self._at : self._at + 32])))
        end = begin + size
        if held < end:
            self._drop_taken()
            return None
        self.held -= size + 4
        if held == end:  # do not keep a large frame until the next bytes come
            self._data, self._at = b"", 0
        else:
            self._at = end
        return data[begin:end] if isinstance(data, bytes) else bytes(memoryview(data)[begin:end])

    def _collected(self) -> bytes | None:
        """The frame that took many pieces, if it is complete."""
        if self._missing or self._frame is None:
            return None
        frame = self._frame.getvalue()  # the buffer itself: nothing is copied
        self._frame = None
        self.held -= PREFIX.size + len(frame)
        return frame

    @property
    def complete(self) -> bool:
        """True if ``next_frame`` has a frame, or refuses its length."""
        if self._frame is not None:
            return not self._missing
        held = len(self._data) - self._at - PREFIX.size
        if held < 0:
            return False
        size: int = _size_at(self._data, self._at)[0]
        return held >= size or size > self.limit

    def _drop_taken(self) -> None:
        """Keep no large buffer for the few bytes at its end that begin the next frame."""
        if self._at > SMALL:
            self._data = self._data[self._at :]
            self._at = 0

    def __len__(self) -> int:
        """Bytes held."""
        return self.held

    def _complaint(self, size: int, head: bytes) -> str:
        reason = "negative" if size < 0 else f"above the limit of {self.limit}"
        hint = next((f"; this looks like {what}" for start, what in _HINTS if head.startswith(start)), "")
        return f"frame length {size} is {reason}{hint} (first bytes {head.hex(' ')})"
