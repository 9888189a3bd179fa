"""The fields of an input of a fuzz target."""

from __future__ import annotations


class Pieces:
    """The bytes of an input, taken one after another; zeros follow them.

    Attributes:
        rest: bytes that are not taken yet.
    """

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        piece, self.rest = self.rest[:size], self.rest[size:]
        return piece.ljust(size, b"\0")

    def number(self, size: int) -> int | None:
        """Return the next signed integer, or None for the smallest one. ``size``: size in bytes."""
        number = int.from_bytes(self.take(size), "big", signed=True)
        return None if number == -(1 << 8 * size - 1) else number

    def text(self) -> str | None:
        """Return the next text, after its length of one byte; None if the length is 255."""
        (size,) = self.take(1)
        return None if size == 255 else self.take(size % 32).decode("utf-8", "surrogateescape")
