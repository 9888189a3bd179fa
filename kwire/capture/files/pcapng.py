"""A reader of pcapng files: sections, interfaces and packets. Each block has its size at its start and at its end."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kwire.capture.files.blocks import CUT_BLOCK, US, Block, Damage, Interface, Lost, Passed, Split
from kwire.capture.files.salvage import AHEAD_BLOCKS, Blocks
from kwire.capture.limits import MAX_PACKET

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET, SECRETS = 0x0A0D0D0A, 1, 2, 3, 6, 10
TLS_KEY_LOG = 0x544C534B  # type of the secrets in a Decryption Secrets Block
TSRESOL, TSOFFSET = 9, 14  # option codes of an interface
ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}  # byte order by byte-order magic of a section
PCAPNG = b"\x0a\x0d\x0d\x0a"


class Pcapng:
    """A reader of the blocks of a pcapng file. After damage, the attribute ``lost`` is set; the caller then calls
    ``again`` instead of ``block`` until ``lost`` is None.

    Args:
        split: part of the file to read.
        add_secrets: function that is called with the content of each TLS key log in the file.

    Attributes:
        lost: position and reason of the current damage; None without damage.
        done: True once the end of the part is reached; always False for a part without ``stop``.
    """

    def __init__(self, split: Split, add_secrets: Callable[[bytes], object]) -> None:
        self.split = split
        self.add_secrets = add_secrets
        self.order = split.order
        self.interfaces = list(split.interfaces)
        self.stop = split.stop
        self.lost: Lost | None = None
        self.done = False
        self.damaged = split.damaged
        self.time = split.time_us
        self._from = self._hint = 0  # positions in the file: where the search continues, and where it begins

    def block(self, data: bytes, base: int, final: bool) -> tuple[Block | None, int]:
        """Return the complete packets in ``data``, and the offset of the first byte that was not processed.

        If an invalid block follows, the attribute ``lost`` is set.

        Args:
            data: bytes of the file.
            base: position of ``data`` in the file.
            final: True if ``data`` ends at the end of the file.
        """
        rows: list[tuple[int, int, int, int, int, int]] = []
        at = 0
        try:
            while at < len(data) and (self.stop is None or base + at < self.stop):
                used = self._process_block(data, at, base, rows) if at + 12 <= len(data) else 0
                if not used:
                    if final:
                        raise Damage(base + at, f"{CUT_BLOCK} ({len(data) - at} bytes of it are present)")
                    break
                at += used
        except Damage as damage:
            self.lost = Lost(damage.position, damage.reason)
            self._from = damage.position + 1
        self.done = self.stop is not None and base + at >= self.stop and self.lost is None
        if not rows:
            return None, at
        table = np.array(rows, np.int64)
        records, starts, sizes, originals, times, links = (np.ascontiguousarray(table[:, n]) for n in range(6))
        then = None if self.lost else self.then(base + at)
        return Block(self.split.path, base, data, records, starts, sizes, originals, times, links, self.split, then), at

    def then(self, start: int) -> Split:
        """Return a Split that contains the file from position ``start`` to its end."""
        state = {"order": self.order, "interfaces": tuple(self.interfaces), "damaged": self.damaged}
        return replace(self.split, start=start, time_us=self.time, **state)  # type: ignore[arg-type]

    def again(self, data: bytes, base: int, final: bool) -> tuple[None, int, Passed | None]:
        """Continue after damage: search for the next valid block.

        Args:
            data: bytes of the file.
            base: position of ``data`` in the file.
            final: True if ``data`` ends at the end of the file.

        Returns: None (in place of records); the number of processed bytes; and the skipped range, or None while the
        search has not ended.
        """
        assert self.lost is not None
        search = Blocks(self.order, self.interfaces, self.time or None)
        place: int | None = self._hint - base
        if self._hint:
            if not final and len(data) < self._hint - base + AHEAD_BLOCKS:
                return None, 0, None
            if not search.is_chain(data, self._hint - base, final):
                place = None
        upto = 0
        if not self._hint or place is None:
            self._hint = 0
            place, upto = search.next(data, self._from - base, final)
        if place is None and not final:
            self._from = base + upto
            return None, min(upto, len(data)), None
        lost, self.lost = self.lost, None
        end = len(data) if place is None else place
        return None, end, Passed(lost, base + end - lost.position, place is not None)

    def _process_block(self, data: bytes, at: int, base: int, rows: list[tuple[int, int, int, int, int, int]]) -> int:
        """Process one block of the file, and add its packet to ``rows``, if the block contains one.

        A Section Header Block or an Interface Description Block changes the byte order or the interfaces of the reader.

        Args:
            data: bytes of the file.
            at: offset of the block in ``data``.
            base: position of ``data`` in the file.
            rows: packets so far. Each is (offset of the block, offset of the packet, captured bytes, sent bytes, time
                in microseconds since 1970, link type). The offsets are relative to ``data``.

        Returns: the size of the block in bytes; 0 if the block is incomplete.

        Raises: Damage if the block is invalid.
        """
        self._hint = 0
        if data[at : at + 4] == PCAPNG:
            self.interfaces = []
            self.order = _order(data, at, base)
        kind, size = struct.unpack_from(f"{self.order}II", data, at)
        if size < 12 or size % 4 or size > MAX_PACKET + 65_536:
            raise Damage(
                base + at, f"invalid block size {size}: expected a multiple of 4 from 12 to {MAX_PACKET + 65_536} bytes"
            )
        if at + size > len(data):
            return 0
        (again,) = struct.unpack_from(f"{self.order}I", data, at + size - 4)
        if again != size:
            raise Damage(base + at, f"block length mismatch: {size} in the header, {again} in the trailer")
        self._hint = base + at + size  # both sizes agree: the damage is inside the block
        if kind == PACKET and size >= 32:
            number, high, low, captured, original = struct.unpack_from(f"{self.order}IIIII", data, at + 8)
            self._packet(rows, base, at, 28, size - 32, number, (high << 32) | low, captured, original)
        elif kind == INTERFACE and size >= 20:
            self.interfaces.append(_interface(data, at, size, self.order))
        elif kind == SECRETS and size >= 20:
            kind, length = struct.unpack_from(f"{self.order}II", data, at + 8)
            if kind == TLS_KEY_LOG:
                self.add_secrets(data[at + 16 : at + 16 + min(length, size - 20)])
        elif kind == SIMPLE_PACKET and size >= 16:
            (original,) = struct.unpack_from(f"{self.order}I", data, at + 8)
            snaplen = self.interfaces[0].snaplen if self.interfaces else 0
            captured = min(original, snaplen or original, size - 16)
            self._packet(rows, base, at, 12, size - 16, 0, None, captured, original)
        elif kind == OLD_PACKET and size >= 32:
            number, _, high, low, captured, original = struct.unpack_from(f"{self.order}HHIIII", data, at + 8)
            self._packet(rows, base, at, 28, size - 32, number, (high << 32) | low, captured, original)
        return int(size)

    def _packet(
        self,
        rows: list[tuple[int, int, int, int, int, int]],
        base: int,
        at: int,
        head: int,
        room: int,
        number: int,
        ticks: int | None,
        captured: int,
        original: int,
    ) -> None:
        if captured > room:
            raise Damage(base + at, f"the packet size {captured} is above the {room} bytes in its block")
        if number >= len(self.interfaces):
            raise Damage(base + at, f"packet refers to interface {number}, which has no Interface Description Block")
        interface = self.interfaces[number]
        if ticks is not None:  # a Simple Packet Block has no time: use that of the previous packet
            self.time = min(ticks * US // interface.ticks + interface.shift * US, 2**62)
        rows.append((at, at + head, captured, original, self.time, interface.link))


def _order(data: bytes, at: int, base: int) -> str:
    """Return the byte order of a section, ``<`` or ``>``. Raises: Damage if its byte-order magic is invalid.

    Args:
        data: bytes of the file.
        at: offset of the Section Header Block in ``data``.
        base: position of ``data`` in the file.
    """
    magic = data[at + 8 : at + 12]
    if magic not in ORDERS:
        raise Damage(base + at, f"invalid byte-order magic {magic.hex(' ')} in a section")
    return ORDERS[magic]


def _interface(data: bytes, at: int, size: int, order: str) -> Interface:
    """Return the interface that an Interface Description Block describes; invalid options are ignored.

    Args:
        data: bytes of the file.
        at: offset of the block in ``data``.
        size: size of the block in bytes.
        order: byte order of the section, ``<`` or ``>``.
    """
    link, _, snaplen = struct.unpack_from(f"{order}HHI", data, at + 8)
    ticks, shift = US, 0
    option, end = at + 16, at + size - 4
    while option + 4 <= end:
        code, length = struct.unpack_from(f"{order}HH", data, option)
        value = data[option + 4 : option + 4 + length]
        if code == 0 or option + 4 + length > end:
            break
        if code == TSRESOL and length == 1:
            power = value[0] & 0x7F
            ticks = 2 ** min(power, 63) if value[0] & 0x80 else 10 ** min(power, 18)
        elif code == TSOFFSET and length == 8:
            (shift,) = struct.unpack(f"{order}q", value)
        option += 4 + length + -length % 4
    return Interface(link, ticks, max(-(2**40), min(shift, 2**40)), snaplen)
