"""Gzip'd files, as what is in them; all before the damage where they are damaged."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any, BinaryIO

from kwire.capture.files.blocks import Damage
from kwire.capture.limits import FREE_GZIP, MAX_GZIP_RATIO

GZIP = b"\x1f\x8b"


def opened(raw: BinaryIO) -> Any:
    """The file, or what is in it if it is gzip'd."""
    packed = raw.read(2) == GZIP
    raw.seek(0)
    return Unzip(raw) if packed else raw


class Unzip:
    """A gzip'd file, read as what is in it. Bounded: by what is asked for, and by MAX_GZIP_RATIO in all."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.unpacker = zlib.decompressobj(wbits=31)
        self.taken = self.given = 0
        self.rest = b""
        self.failed: str | None = None

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; nothing at the end. Raises: Damage, when what came before is given out."""
        parts: list[bytes] = []
        need = size
        while need and not self.failed:
            if self.unpacker.eof:
                self.rest = self.unpacker.unused_data or self.rest
                if not self.rest.startswith(GZIP[:1]) and not (self.rest or self._more()):
                    break
                if not self.rest.startswith(GZIP):
                    break  # padding behind the last member
                self.unpacker = zlib.decompressobj(wbits=31)
            if not self.rest and not self._more():
                self.failed = "the gzip'd data is cut"
                break
            before = self.unpacker.copy()
            try:
                out = self.unpacker.decompress(self.rest, need)
            except zlib.error as error:
                parts.append(self._up_to_the_damage(before, need))
                self.given += len(parts[-1])
                self.failed = f"the gzip'd data is damaged: {error}"
                break
            self.rest = self.unpacker.unconsumed_tail
            need -= len(out)
            self.given += len(out)
            parts.append(out)
            if self.given > FREE_GZIP and self.given > MAX_GZIP_RATIO * self.taken:
                self.failed = f"unpacks to more than {MAX_GZIP_RATIO} times its size"
        if self.failed and not any(parts):
            raise Damage(self.given, self.failed)
        return b"".join(parts)

    def _up_to_the_damage(self, unpacker: Any, most: int) -> bytes:
        """What can be unpacked before the byte that is wrong: a call that fails gives nothing of what it had."""
        out = bytearray()
        with suppress(zlib.error):
            for at in range(len(self.rest)):
                out += unpacker.decompress(self.rest[at : at + 1])
                if len(out) >= most:
                    break
        return bytes(out)

    def _more(self) -> bool:
        self.rest = self.raw.read(262_144)
        self.taken += len(self.rest)
        return bool(self.rest)
