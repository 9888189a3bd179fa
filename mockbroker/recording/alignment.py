"""The division of recorded bytes at the ends of frames."""

from __future__ import annotations

import struct

SIZE = struct.Struct(">I")  # the length prefix of a frame
SMALL = 4 * 1024  # bytes; the next bytes are joined to a smaller buffer, because each buffer takes 50 bytes more
UNKNOWN = -1  # of a frame whose length prefix is incomplete


class FrameAligner:
    """A buffer for the bytes of incomplete frames. The bytes stay in the buffer until the rest of the frame has
    arrived.

    Attributes:
        size: number of bytes in the buffer.
    """

    def __init__(self) -> None:
        self.size = 0
        self._incomplete: dict[tuple[int, bool], tuple[list[bytes], int]] = {}  # with the number of missing bytes

    def complete(self, connection: int, to_broker: bool, data: bytes, *, ends_frame: bool) -> list[bytes]:
        """Add bytes of a connection, and return the bytes of all frames that are complete now and were not returned
        before.

        The result is a list of byte strings. Joined, they are complete frames with length prefixes; a single byte
        string may begin or end within a frame. The list is empty if no frame is complete.

        Args:
            connection: number of the connection.
            to_broker: True for the bytes from the client.
            data: the next bytes of the connection in this direction.
            ends_frame: True if the last byte of ``data`` is known to be the end of a frame.
        """
        key = connection, to_broker
        pieces: list[bytes] = []
        at = 0
        if ends_frame:
            if self._incomplete:
                pieces = self._removed(key)
            pieces.append(data)
            return pieces
        if self._incomplete:
            held, missing = self._incomplete.get(key, (pieces, 0))
            if missing > len(data):
                if len(held[-1]) < SMALL:
                    held[-1] += data
                else:
                    held.append(data)
                self.size += len(data)
                self._incomplete[key] = held, missing - len(data)
                return []
            pieces = self._removed(key)
            if missing == UNKNOWN:
                data = b"".join((*pieces, data))
                pieces = []
            else:
                at = missing
        end, read = len(data), SIZE.unpack_from
        while at + SIZE.size <= end:
            following = at + SIZE.size + read(data, at)[0]
            if following > end:
                break
            at = following
        rest = data[at:]
        missing = SIZE.size + read(rest)[0] - len(rest) if len(rest) >= SIZE.size else UNKNOWN
        self._incomplete[key] = [rest], missing
        self.size += len(rest)
        if at:
            pieces.append(data[:at])
        return pieces

    def forget(self, connection: int) -> None:
        """Discard the incomplete frames of a connection that has ended. ``connection``: number of the connection."""
        for to_broker in (True, False):
            self._removed((connection, to_broker))

    def _removed(self, key: tuple[int, bool]) -> list[bytes]:
        """Remove the bytes of an incomplete frame from the buffer, and return them.

        ``key``: connection number, and True for the bytes from the client.
        """
        pieces, _ = self._incomplete.pop(key, ([], 0))
        self.size -= sum(map(len, pieces))
        return pieces
