"""Decompression of gzip files. From a damaged file, the content before the damage can be read."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any, BinaryIO

from kwire.capture.files.blocks import Damage
from kwire.capture.limits import FREE_GZIP, MAX_GZIP_RATIO

GZIP = b"\x1f\x8b"


def opened(raw: BinaryIO) -> Any:
    """Return a stream of the file's content: the file itself, or its decompressed content if it is a gzip file."""
    packed = raw.read(2) == GZIP
    raw.seek(0)
    return Unzip(raw) if packed else raw


class Unzip:
    """A readable stream of the decompressed content of a gzip file.

    Limits: content of more than FREE_GZIP bytes counts as damaged if it is larger than MAX_GZIP_RATIO times the
    compressed bytes.

    Args:
        raw: the gzip file, at its beginning.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.unpacker = zlib.decompressobj(wbits=31)
        self.consumed = self.produced = 0
        self.rest = b""
        self.failed: str | None = None

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes; b"" at the end.

        Raises: Damage if the file is damaged; previous reads have returned the content before the damage.
        """
        parts: list[bytes] = []
        need = size
        while need and not self.failed:
            if self.unpacker.eof:
                self.rest = self.unpacker.unused_data or self.rest
                if not self.rest.startswith(GZIP[:1]) and not (self.rest or self._more()):
                    break
                if not self.rest.startswith(GZIP):
                    break  # padding after the last member
                self.unpacker = zlib.decompressobj(wbits=31)
            if not self.rest and not self._more():
                self.failed = "the gzip data is truncated"
                break
            before = self.unpacker.copy()
            try:
                out = self.unpacker.decompress(self.rest, need)
            except zlib.error as error:
                parts.append(self._up_to_the_damage(before, need))
                self.produced += len(parts[-1])
                self.failed = f"the gzip data is damaged: {error}"
                break
            self.rest = self.unpacker.unconsumed_tail
            need -= len(out)
            self.produced += len(out)
            parts.append(out)
            if self.produced > FREE_GZIP and self.produced > MAX_GZIP_RATIO * self.consumed:
                self.failed = f"decompresses to more than {MAX_GZIP_RATIO} times its size"
        if self.failed and not any(parts):
            raise Damage(self.produced, self.failed)
        return b"".join(parts)

    def _up_to_the_damage(self, unpacker: Any, most: int) -> bytes:
        """Return the remaining content before a damaged position, at most ``most`` bytes.

        The content is decompressed byte by byte, because the decompressor returns nothing from a call that fails.
        """
        out = bytearray()
        with suppress(zlib.error):
            for at in range(len(self.rest)):
                out += unpacker.decompress(self.rest[at : at + 1])
                if len(out) >= most:
                    break
        return bytes(out)

    def _more(self) -> bool:
        self.rest = self.raw.read(262_144)
        self.consumed += len(self.rest)
        return bool(self.rest)
