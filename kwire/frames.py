"""The length prefix: a byte stream into frames, and a frame onto a byte stream.

Memory grows with the bytes that came in, never with what a prefix promises.
"""

from __future__ import annotations

import struct

from kwire.errors import FrameError
from kwire.limits import MAX_FRAME

PREFIX = struct.Struct(">i")
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
    """Bytes in, complete frames out. ``limit``: the largest frame that is accepted, in bytes."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.limit = limit
        self._data = bytearray()
        self._at = 0  # where the next frame's prefix begins in _data

    def feed(self, data: bytes) -> None:
        """Take bytes as they came."""
        if self._at:
            del self._data[: self._at]
            self._at = 0
        self._data += data

    def next_frame(self) -> bytes | None:
        """The next complete frame without its prefix, or None if more bytes are needed.

        Raises: FrameError for a length below zero or above the limit; nothing can be read after it.
        """
        at = self._at
        if len(self._data) - at < PREFIX.size:
            return None
        (size,) = PREFIX.unpack_from(self._data, at)
        if not 0 <= size <= self.limit:
            raise FrameError(self._complaint(size, bytes(self._data[at : at + 32])))
        end = at + PREFIX.size + size
        if len(self._data) < end:
            return None
        frame = bytes(self._data[at + PREFIX.size : end])
        self._at = end
        if end == len(self._data):  # do not keep a large frame until the next bytes come
            self._data.clear()
            self._at = 0
        return frame

    def __len__(self) -> int:
        """Bytes held: incomplete, or complete and not yet taken."""
        return len(self._data) - self._at

    def _complaint(self, size: int, head: bytes) -> str:
        reason = "negative" if size < 0 else f"above the limit of {self.limit}"
        hint = next((f"; this looks like {what}" for start, what in _HINTS if head.startswith(start)), "")
        return f"frame length {size} is {reason}{hint} (first bytes {head.hex(' ')})"
