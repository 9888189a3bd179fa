"""Capture files in blocks of records: pcap, pcapng, gzip of them, and frame logs.

The only file here that reads files. Memory is bounded by the size of a block, whatever a file says. What is damaged
gives all records before the damage, and a Problem. Offsets count from the start of the file, of what is unpacked if
it is gzip'd.

A frame log is one JSON object a line, for whoever writes frames down without packets:
``{"time_us", "connection", "client", "broker", "direction": "request"|"response", "hex"}``, where ``connection`` is any
text that tells connections apart and ``hex`` is the frame without its length prefix.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kwire.capture.limits import BLOCK, FREE_GZIP, MAX_GZIP_RATIO, MAX_LINE, MAX_PACKET, SNAPLEN

GZIP = b"\x1f\x8b"
SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
TSRESOL, TSOFFSET = 9, 14  # options of an interface
MAGICS = {  # first bytes of a pcap -> byte order, ticks per second
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
}
ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}  # of a section of a pcapng
PCAPNG = b"\x0a\x0d\x0d\x0a"
SUFFIXES = (".pcap", ".pcapng", ".cap", ".dmp", ".jsonl", ".ndjson")  # of files taken out of a folder; also with .gz
US = 1_000_000

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a file, and where. ``time_us``: of the last record before, if there was one."""

    file: str
    position: int
    reason: str
    time_us: int | None = None

    def __str__(self) -> str:
        return f"{self.file} at byte {self.position}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Interface:
    """Of a capture: link type, ticks per second, seconds to add, bytes kept of a packet (0: all)."""

    link: int
    ticks: int = US
    shift: int = 0
    snaplen: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file: the records that begin from ``start`` up to ``stop``; ``order`` and ``interfaces`` as they are
    there, ``stop`` None for the end of the file."""

    path: str
    start: int
    stop: int | None
    order: str
    interfaces: tuple[Interface, ...]
    pcapng: bool
    packed: bool = False


@dataclass(slots=True)
class Block:
    """Records in one piece of memory. ``base``: where ``data`` begins in the file; the rest is one entry a record.

    ``records`` is where each begins in ``data``, ``starts`` where its packet does; ``sizes`` is what was captured,
    ``originals`` what was on the wire; ``times`` are microseconds.
    """

    path: str
    base: int
    data: bytes
    records: Ints
    starts: Ints
    sizes: Ints
    originals: Ints
    times: Ints
    links: Ints
    whole: Split  # of the file, or the part that was asked for
    then: Split  # from behind these records on


@dataclass(frozen=True, slots=True)
class LoggedFrame:
    """One line of a frame log."""

    time_us: int
    connection: str
    client: str
    broker: str
    to_broker: bool
    frame: bytes
    position: int


class Damage(Exception):
    """Ends a file: what is wrong, and at which byte."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position, self.reason = position, reason


def find(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files meant by files and folders, in the order of the first time in them. Raises: OSError."""
    found: list[str] = []
    for given in map(Path, paths):
        if given.is_dir():
            inside = [path for path in sorted(given.rglob("*")) if path.is_file() and _is_capture(path.name)]
            found += [str(path) for path in inside]
        else:
            given.stat()
            found.append(str(given))
    return sorted(found, key=first_time) if len(found) > 1 else found


def _is_capture(name: str) -> bool:
    plain = name.lower().removesuffix(".gz")
    return plain.endswith(SUFFIXES) or any(f"{suffix}" in plain for suffix in (".pcap", ".pcapng"))


def first_time(path: str) -> int:
    """The time of the first packet or frame in a file, in microseconds; 0 if there is none."""
    file = CaptureFile(path, block=65_536)
    if file.is_log:
        return next((frame.time_us for frame in file.frames()), 0)
    for block in file.blocks():
        if len(block.times):
            return int(block.times[0])
    return 0


class _Unzip:
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


@dataclass(slots=True)
class CaptureFile:
    """One file. ``problem`` says, once it was read, what ended it too early."""

    path: str
    block: int = BLOCK
    problem: Problem | None = None
    last_us: int | None = None

    @property
    def size(self) -> int:
        return os.path.getsize(self.path)

    @property
    def is_packed(self) -> bool:
        with open(self.path, "rb") as raw:
            return raw.read(2) == GZIP

    @property
    def is_log(self) -> bool:
        """True for a frame log: its first byte that is no space opens an object."""
        with open(self.path, "rb") as raw:
            try:
                return bool(_opened(raw).read(512).lstrip().startswith(b"{"))
            except Damage:
                return False

    def frames(self) -> Iterator[LoggedFrame]:
        """The frames of a frame log."""
        with open(self.path, "rb") as raw:
            at = 0
            try:
                for line in _lines(_opened(raw), self.block):
                    if line.strip():
                        found = _logged(line, at)
                        self.last_us = found.time_us
                        yield found
                    at += len(line)
            except Damage as damage:
                self.problem = Problem(self.path, damage.position, damage.reason, self.last_us)

    def blocks(self, split: Split | None = None) -> Iterator[Block]:
        """The records, a block at a time; with a split those that begin in it."""
        try:
            with open(self.path, "rb") as raw:
                source = _opened(raw)
                if split is None:
                    split = _whole(self.path, source.read(24))
                raw.seek(0)
                if split.packed:
                    source = _opened(raw)
                    skip = split.start
                    while skip:
                        skip -= len(source.read(skip)) or skip
                else:
                    raw.seek(split.start)
                    source = raw
                yield from self._records(source, split)
        except Damage as damage:
            self.problem = Problem(self.path, damage.position, damage.reason, self.last_us)
        except OSError as error:
            self.problem = Problem(self.path, 0, f"cannot be read: {error.strerror}")

    def _records(self, source: Any, split: Split) -> Iterator[Block]:
        walk = _Pcapng(self, split) if split.pcapng else _Pcap(self, split)
        data, base, size = b"", split.start, self.block
        if split.stop is not None:
            size = min(size, split.stop - split.start + 65_536)
        while split.stop is None or base < split.stop:
            try:
                more = source.read(size)
            except Damage as damage:
                walk.end = damage
                more = b""
            data = data + more if data else more
            if not data and not walk.end:
                return
            block, used = walk.block(data, base)
            if block is not None:
                self.last_us = int(block.times[-1])
                yield block
            if walk.end:
                raise walk.end
            if walk.done:
                return
            if not more:
                left = len(data) - used
                if left:
                    raise Damage(base + used, f"the file ends inside a record, {left} bytes of it are there")
                return
            base += used
            data = data[used:]
            size = max(self.block, 2 * len(data)) if not used else self.block


class _Pcap:
    """Walks the records of a pcap."""

    def __init__(self, file: CaptureFile, split: Split) -> None:
        self.file = file
        self.split = split
        self.order = split.order
        self.interface = split.interfaces[0]
        self.stop = split.stop
        self.limit = min(MAX_PACKET, 4 * max(self.interface.snaplen, SNAPLEN))
        self.size_at = struct.Struct(f"{split.order}I").unpack_from
        self.end: Damage | None = None
        self.done = False

    def block(self, data: bytes, base: int) -> tuple[Block | None, int]:
        """The whole records in ``data``, and where the first one that is not whole begins."""
        found: list[int] = []
        append, size_at, limit = found.append, self.size_at, self.limit
        at, last = 0, len(data) - 16
        stop = last if self.stop is None else min(last, self.stop - base - 1)
        while at <= stop:
            (size,) = size_at(data, at + 8)
            if size > limit:
                self.end = Damage(base + at, f"a record of {size} bytes, where {limit} are the most")
                break
            if at + size > last:
                break
            append(at)
            at += 16 + size
        self.done = self.stop is not None and base + at >= self.stop
        if not found:
            return None, at
        records = np.array(found, np.int64)
        words = [_at(data, f"{self.order}u4", records + 4 * n).astype(np.int64) for n in range(4)]
        ticks, shift = self.interface.ticks, self.interface.shift
        times = (words[0] + shift) * US + (words[1] if ticks == US else words[1] // (ticks // US))
        links = np.full(len(found), self.interface.link, np.int64)
        then = replace(self.split, start=base + at)
        return Block(
            self.file.path, base, data, records, records + 16, words[2], words[3], times, links, self.split, then
        ), at


class _Pcapng:
    """Walks the blocks of a pcapng."""

    def __init__(self, file: CaptureFile, split: Split) -> None:
        self.file = file
        self.split = split
        self.order = split.order
        self.interfaces = list(split.interfaces)
        self.stop = split.stop
        self.end: Damage | None = None
        self.done = False
        self.time = 0

    def block(self, data: bytes, base: int) -> tuple[Block | None, int]:
        """As of _Pcap. Blocks that are not packets are taken in, or skipped."""
        rows: list[tuple[int, int, int, int, int, int]] = []
        at = 0
        try:
            while at + 12 <= len(data) and (self.stop is None or base + at < self.stop):
                used = self._one(data, at, base, rows)
                if not used:
                    break
                at += used
        except Damage as damage:
            self.end = damage
        self.done = self.stop is not None and base + at >= self.stop
        if not rows:
            return None, at
        table = np.array(rows, np.int64)
        records, starts, sizes, originals, times, links = (np.ascontiguousarray(table[:, n]) for n in range(6))
        then = replace(self.split, start=base + at, order=self.order, interfaces=tuple(self.interfaces))
        return Block(self.file.path, base, data, records, starts, sizes, originals, times, links, self.split, then), at

    def _one(self, data: bytes, at: int, base: int, rows: list[tuple[int, int, int, int, int, int]]) -> int:
        """Take in one block; its size, or 0 if it is not all there. Raises: Damage."""
        if data[at : at + 4] == PCAPNG:
            self.order = _order(data, at, base)
            self.interfaces = []
        kind, size = struct.unpack_from(f"{self.order}II", data, at)
        if size < 12 or size % 4 or size > MAX_PACKET + 65_536:
            raise Damage(base + at, f"a block of {size} bytes")
        if at + size > len(data):
            return 0
        (again,) = struct.unpack_from(f"{self.order}I", data, at + size - 4)
        if again != size:
            raise Damage(base + at, f"a block of {size} bytes that ends as one of {again}")
        if kind == PACKET and size >= 32:
            number, high, low, captured, original = struct.unpack_from(f"{self.order}IIIII", data, at + 8)
            self._packet(rows, base, at, 28, size - 32, number, (high << 32) | low, captured, original)
        elif kind == INTERFACE and size >= 20:
            self.interfaces.append(_interface(data, at, size, self.order))
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
            raise Damage(base + at, f"a packet of {captured} bytes in a block with room for {room}")
        if number >= len(self.interfaces):
            raise Damage(base + at, f"a packet of interface {number}, of which nothing was said")
        interface = self.interfaces[number]
        if ticks is not None:  # a simple packet has no time: that of the one before it
            self.time = min(ticks * US // interface.ticks + interface.shift * US, 2**62)
        rows.append((at, at + head, captured, original, self.time, interface.link))


def _at(data: bytes, kind: str, offsets: Ints) -> NDArray[Any]:
    """Integers that begin at any bytes."""
    width = int(kind[-1])
    return np.ndarray((len(data) - width + 1,), kind, data, strides=(1,))[offsets]


def _opened(raw: BinaryIO) -> Any:
    """The file, or what is in it if it is gzip'd."""
    packed = raw.read(2) == GZIP
    raw.seek(0)
    return _Unzip(raw) if packed else raw


def _whole(path: str, head: bytes) -> Split:
    """All of a file with these first bytes. Raises: Damage."""
    with open(path, "rb") as raw:
        packed = raw.read(2) == GZIP
    if head[:4] == PCAPNG:
        return Split(path, 0, None, "<", (), True, packed)
    if head[:4] not in MAGICS:
        raise Damage(0, f"not a capture: it begins with {head[:8].hex(' ')}" if head else "an empty file")
    if len(head) < 24:
        raise Damage(len(head), "the file ends inside its header")
    order, ticks = MAGICS[head[:4]]
    _, _, shift, _, snaplen, link = struct.unpack(f"{order}HHiIII", head[4:])
    return Split(path, 24, None, order, (Interface(link & 0xFFFF, ticks, -shift, snaplen),), False, packed)


def _order(data: bytes, at: int, base: int) -> str:
    """The byte order that a section says."""
    said = data[at + 8 : at + 12]
    if said not in ORDERS:
        raise Damage(base + at, f"a section with the byte order {said.hex(' ')}")
    return ORDERS[said]


def _interface(data: bytes, at: int, size: int, order: str) -> Interface:
    """What an interface block says; options that cannot be read are left out."""
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


def _lines(source: Any, size: int) -> Iterator[bytes]:
    """Lines of a stream, each with its end. Raises: Damage."""
    rest, at = b"", 0
    while more := source.read(size):
        rest += more
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line + b"\n"
            at += len(line) + 1
        if len(rest) > MAX_LINE:
            raise Damage(at, f"a line of more than {MAX_LINE} bytes")
    if rest:
        yield rest


def _logged(line: bytes, at: int) -> LoggedFrame:
    """The frame of one line. Raises: Damage."""
    try:
        found = json.loads(line)
        direction = found["direction"]
        if direction not in ("request", "response"):
            raise ValueError(f"direction is {direction!r}")
        texts = [found[name] for name in ("client", "broker")]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("client and broker are texts")
        time = found["time_us"]
        if isinstance(time, bool) or not isinstance(time, int) or not -(2**62) < time < 2**62:
            raise ValueError("time_us is microseconds since 1970")
        return LoggedFrame(
            time,
            str(found.get("connection", "")),
            texts[0],
            texts[1],
            direction == "request",
            bytes.fromhex(found["hex"]),
            at,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise Damage(at, f"not a line of a frame log: {reason}") from error
