"""Packets to TCP segments, a block of records at a time, as columns; no object is made for a packet.

A segment names the place of its payload in the file, so that payload need not be carried along. Segments that neither
carry bytes nor open or close a connection are left out. Checksums are not verified: a capture on the sending host
sees them before the network card has filled them in.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kwire.capture.files.blocks import (
    BAD_HEADERS,
    CUT_HEADERS,
    NO_FIRST_FRAGMENT,
    NOT_IP,
    NOT_TCP,
    SNAPLEN,
    UNKNOWN_LINK,
    Block,
    Ints,
    Problem,
    Skipped,
    Split,
)
from kwire.capture.files.capture_file import CaptureFile
from kwire.capture.files.splits import NOT_PROVEN, UNKNOWN, is_proven
from kwire.capture.limits import BLOCK, MAX_EARLY_FRAGMENTS, MAX_EXTENSIONS, MAX_FRAGMENTED, MAX_VLANS

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
TCP = 6
NULL, ETHERNET, RAW, LOOP, SLL, IPV4_ONLY, IPV6_ONLY, SLL2 = 0, 1, 101, 108, 113, 228, 229, 276
RAW_LINKS = (RAW, 12, 14, IPV4_ONLY, IPV6_ONLY, NULL, LOOP)  # no type of what follows, or none that is needed
HEADERS = {NULL: 4, LOOP: 4, ETHERNET: 14, SLL: 16, SLL2: 20}
TYPES_AT = {ETHERNET: 12, SLL: 14, SLL2: 0}
LINKS = {*RAW_LINKS, *HEADERS}
VLANS = (0x8100, 0x88A8, 0x9100, 0x9200)
EXTENSIONS = (0, 43, 60, 135, 139, 140)  # IPv6 headers that say their length in units of 8 bytes
AUTHENTICATION, FRAGMENT = 51, 44
MAPPED = 0xFFFF_0000_0000  # an IPv4 address as the low half of an IPv6 address

Bools = NDArray[np.bool_]
Key = tuple[int, int, int, int, int, int]  # two endpoints, the lower first: halves of the address, port


@dataclass(slots=True)
class Segments:
    """Columns of TCP segments in the order of the file, one entry each.

    ``flow``: index into ``keys``. ``upward``: sent by the first endpoint of the key. ``position``: byte offset of the
    record. ``start``: of the payload in the file, of which ``captured`` bytes are there and ``size`` were sent.
    ``spare``: payload by ``start`` that does not lie in ``data`` (a fragment that came before its first).
    """

    path: str
    base: int
    data: bytes
    keys: list[Key]
    flow: Ints
    upward: Bools
    time_us: Ints
    position: Ints
    start: Ints
    captured: Ints
    size: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    skipped: dict[str, int] = field(default_factory=dict)  # packets that were not looked at, by reason
    spare: dict[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.flow)

    def payload(self, index: int) -> bytes:
        """The captured bytes of one segment."""
        start, size = int(self.start[index]), int(self.captured[index])
        if start in self.spare:
            return self.spare[start]
        return self.data[start - self.base : start - self.base + size]

    def columns(self) -> dict[str, Any]:
        """References to segments, without payload, for whoever carries them elsewhere: name -> column."""
        keys = [struct.pack(">QQHQQH", *key) for key in self.keys]
        return {
            "connection": np.array(keys, object)[self.flow] if keys else np.array([], object),
            "upward": self.upward,
            "time_us": self.time_us,
            "position": self.position,
            "start": self.start,
            "captured": self.captured.astype(np.int32),
            "size": self.size.astype(np.int32),
            "seq": self.seq.astype(np.uint32),
            "ack": self.ack.astype(np.uint32),
            "flags": self.flags.astype(np.uint8),
        }


def unpack_key(connection: bytes) -> Key:
    """The key that ``columns`` packed."""
    key: Key = struct.unpack(">QQHQQH", connection)
    return key


def endpoint(high: int, low: int, port: int) -> str:
    """``host:port``, or ``[host]:port`` for IPv6."""
    if not high and low & ~0xFFFF_FFFF == MAPPED:
        return f"{ipaddress.IPv4Address(low & 0xFFFF_FFFF)}:{port}"
    return f"[{ipaddress.IPv6Address(high << 64 | low)}]:{port}"


def endpoints(key: Key) -> tuple[str, str]:
    """Both ends of a connection as text, the lower first."""
    return endpoint(*key[:3]), endpoint(*key[3:])


class _Fragment(NamedTuple):
    """Part of a packet. ``start`` and ``end``: in the data of the block; ``offset``: of it in the packet."""

    row: int
    start: int
    end: int
    offset: int
    more: bool  # parts of the packet behind this one
    key: tuple[int, ...]  # addresses, and the number of the packet


class _Late(NamedTuple):
    """A fragment but the first: ``start`` in the file."""

    offset: int
    size: int
    captured: int
    start: int
    data: bytes


class _Head(NamedTuple):
    """What the first fragment says of all: ``header`` are the bytes of TCP's header."""

    sport: int
    dport: int
    seq: int
    ack: int
    header: int


@dataclass(slots=True)
class _Fragmented:
    """A packet in fragments: its first, those that came before it, how many bytes it has and how many were seen.

    ``path``: of the file that its fragments are in; ``dropped``: those that there was no room for.
    """

    path: str
    head: _Head | None = None
    early: list[_Late] = field(default_factory=list)
    last: int | None = None
    seen: int = 0
    dropped: int = 0

    @property
    def is_whole(self) -> bool:
        return self.head is not None and self.last is not None and self.seen >= self.last


@dataclass(slots=True)
class Reader:
    """Turns blocks into segments; keeps what is known of fragmented packets. ``ports``: of brokers; empty for all."""

    ports: Collection[int] = ()
    fragmented: dict[tuple[int, ...], _Fragmented] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)  # links that packets had of which nothing is known
    given_up: Counter[str] = field(default_factory=Counter)  # fragments without a first, by file

    def segments(self, block: Block) -> Segments:
        """The segments of one block."""
        parse = _Parse(block)
        found = parse.found
        spare: dict[int, bytes] = {}
        if parse.fragments:
            found = self._with_fragments(parse, found, spare)
        if self.ports:
            wanted = np.array(sorted(self.ports), np.int64)
            found = found.only(np.isin(found.sport, wanted) | np.isin(found.dport, wanted))
        self.unknown |= parse.unknown
        cut = (found.captured < found.size) & (block.sizes[found.row] < block.originals[found.row])
        parse.skip(SNAPLEN, int(np.count_nonzero(cut)))
        return _segments(block, found, parse.skipped, spare)

    def problems(self, path: str) -> list[Problem]:
        """What is wrong with the packets that were read since this was last asked."""
        kinds, self.unknown = sorted(self.unknown), set()
        return [Problem(path, 0, f"link type {kind} is not known, its packets are passed over") for kind in kinds]

    def finish(self) -> list[Skipped]:
        """No more packets will come: the fragments whose first was never seen."""
        while self.fragmented:
            self._give_up()
        found, self.given_up = self.given_up, Counter()
        return [Skipped(path, count, NO_FIRST_FRAGMENT) for path, count in sorted(found.items()) if count]

    def _give_up(self) -> None:
        """Let the packet go of which fragments were awaited longest."""
        packet = self.fragmented.pop(next(iter(self.fragmented)))
        self.given_up[packet.path] += len(packet.early) + packet.dropped

    def _with_fragments(self, parse: _Parse, found: _Rows, spare: dict[int, bytes]) -> _Rows:
        """Rows of first fragments are there; each of the others becomes a segment of its own."""
        block, more = parse.block, []
        rows = {int(row): n for n, row in enumerate(found.row)}
        for part in sorted(parse.fragments):
            packet = self._packet(part, block.path)
            size = part.end - part.start
            captured = max(0, min(part.end, int(block.starts[part.row] + block.sizes[part.row])) - part.start)
            packet.seen += size
            if not part.more:
                packet.last = part.offset + size
            late = [_Late(part.offset, size, captured, part.start + block.base, b"")]
            if part.offset == 0:
                late = []
                if (n := rows.get(part.row)) is not None:
                    header = int(found.start[n]) - part.start
                    columns = (found.sport, found.dport, found.seq, found.ack)
                    packet.head = _Head._make([*(int(column[n]) for column in columns), header])
                    found.flags[n] &= ~FIN if part.more else 0xFF
                    late, packet.early = packet.early, []
            elif packet.head is None:
                data = block.data[part.start : part.start + captured]
                if len(packet.early) < MAX_EARLY_FRAGMENTS:
                    packet.early.append(late[0]._replace(data=data))
                else:
                    packet.dropped += 1
                continue
            for piece in late:
                if piece.start < block.base:
                    spare[piece.start] = piece.data
                more.append(_late_row(part, packet.head, piece, block.base))
            if packet.is_whole:
                self.given_up[packet.path] += self.fragmented.pop(part.key).dropped
        return found.plus(more)

    def _packet(self, part: _Fragment, path: str) -> _Fragmented:
        """What is known of the packet of a fragment; a second first fragment begins another packet."""
        packet = self.fragmented.get(part.key)
        if packet is None or (part.offset == 0 and packet.head is not None):
            if len(self.fragmented) >= MAX_FRAGMENTED:
                self._give_up()
            packet = self.fragmented[part.key] = _Fragmented(path)
        return packet


def _late_row(part: _Fragment, head: _Head | None, piece: _Late, base: int) -> tuple[int, ...]:
    """The row of a fragment that is not the first: a segment of the bytes that it carries."""
    assert head is not None
    seq = (head.seq + piece.offset - head.header) & 0xFFFF_FFFF
    place = piece.start - base, piece.captured, piece.size
    return (part.row, *part.key[:4], head.sport, head.dport, seq, head.ack, ACK, *place)


@dataclass(slots=True)
class _Rows:
    """Columns of segments before their endpoints are put in order; ``row``: of the record, ``start``: in the data."""

    row: Ints
    shigh: Any
    slow: Any
    dhigh: Any
    dlow: Any
    sport: Ints
    dport: Ints
    seq: Ints
    ack: Ints
    flags: Ints
    start: Ints
    captured: Ints
    size: Ints

    def columns(self) -> list[Any]:
        return [getattr(self, name) for name in self.__slots__]

    def only(self, mask: Any) -> _Rows:
        return self if mask.all() else _Rows(*(column[mask] for column in self.columns()))

    def plus(self, more: list[tuple[int, ...]]) -> _Rows:
        """With further rows, in the order of the records."""
        if not more:
            return self
        added = [
            np.array(column, mine.dtype) for column, mine in zip(zip(*more, strict=True), self.columns(), strict=True)
        ]
        joined = [np.concatenate(pair) for pair in zip(self.columns(), added, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return _Rows(*(column[order] for column in joined))


class _Parse:
    """One block, parsed: ``found`` are rows with a TCP header, ``fragments`` are parts of fragmented packets."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.data = block.data
        self.bytes = np.frombuffer(block.data, np.uint8)
        self.skipped: dict[str, int] = {}
        self.unknown: set[int] = set()
        self.fragments: list[_Fragment] = []
        rows = np.arange(len(block.records))
        parts = [part for part in map(self._network, self._linked(rows)) if part is not None]
        self.found = parts[0] if len(parts) == 1 else _joined(parts)

    def _linked(self, rows: Ints) -> Iterator[tuple[Ints, Ints, int]]:
        """Rows with where their IP header begins, and its version: those of each link type."""
        links = self.block.links
        kinds = (
            [int(links[0])] if len(links) and (links == links[0]).all() else [int(kind) for kind in np.unique(links)]
        )
        for kind in kinds:
            mine = rows if len(kinds) == 1 else rows[links == kind]
            if kind not in LINKS:
                self.skip(UNKNOWN_LINK, len(mine))
                self.unknown.add(kind)
                continue
            head = HEADERS.get(kind, 0)
            mine = self._long(mine, self.block.starts[mine] + head + 20)
            at = self.block.starts[mine] + head
            if kind in TYPES_AT:
                mine, at = self._typed(mine, at, self._u16(self.block.starts[mine] + TYPES_AT[kind]))
            version = self.bytes[np.minimum(at, len(self.data) - 1)] >> 4
            for number in (4, 6):
                chosen = version == number
                if chosen.all():
                    yield mine, at, number
                    break
                if chosen.any():
                    yield mine[chosen], at[chosen], number
            other = int(np.count_nonzero((version != 4) & (version != 6)))
            self.skip(NOT_IP, other)

    def _typed(self, rows: Ints, at: Ints, kind: Ints) -> tuple[Ints, Ints]:
        """Behind VLAN tags, rows whose type is IP."""
        for _ in range(MAX_VLANS):
            tagged = np.isin(kind, VLANS)
            if not tagged.any():
                break
            kind = np.where(tagged, self._u16(at + 2), kind)
            at = np.where(tagged, at + 4, at)
        is_ip = (kind == 0x0800) | (kind == 0x86DD)
        if is_ip.all():
            return rows, at
        self.skip(NOT_IP, int(np.count_nonzero(~is_ip)))
        return rows[is_ip], at[is_ip]

    def _network(self, given: tuple[Ints, Ints, int]) -> _Rows | None:
        return self._ipv4(*given[:2]) if given[2] == 4 else self._ipv6(*given[:2])

    def _ipv4(self, rows: Ints, at: Ints) -> _Rows | None:
        is_tcp = self._u8(at + 9) == TCP
        if not is_tcp.all():
            self.skip(NOT_TCP, int(np.count_nonzero(~is_tcp)))
            rows, at = rows[is_tcp], at[is_tcp]
        total = self._u16(at + 2)
        header = (self._u8(at) & 15) * 4
        transport = at + header
        whole = self.block.starts[rows] + self.block.originals[rows]
        end = np.where(total == 0, whole, at + total)  # 0: the network card cuts it into packets
        part = self._u16(at + 6)
        source, target = self._u32(at + 12) + MAPPED, self._u32(at + 16) + MAPPED
        none = np.zeros(len(rows), np.uint64)
        fragmented = (part & 0x3FFF) != 0
        if fragmented.any():
            for n in np.flatnonzero(fragmented):
                key = (0, int(source[n]), 0, int(target[n]), int(self._u16(at[n : n + 1] + 4)[0]))
                offset, further = int(part[n] & 0x1FFF) * 8, bool(part[n] & 0x2000)
                place = int(rows[n]), int(transport[n]), int(end[n])
                self.fragments.append(_Fragment(*place, offset, further, key))
        possible = header >= 20
        keep = (part & 0x1FFF) == 0
        if not possible.all():
            self.skip(BAD_HEADERS, int(np.count_nonzero(keep & ~possible)))
            keep &= possible
        return self._tcp(rows, transport, end, (none, source.astype(np.uint64), none, target.astype(np.uint64)), keep)

    def _ipv6(self, rows: Ints, at: Ints) -> _Rows | None:
        enough = at + 40 <= self.block.starts[rows] + self.block.sizes[rows]
        self._cut(rows[~enough])
        rows, at = rows[enough], at[enough]
        size = self._u16(at + 4)
        whole = self.block.starts[rows] + self.block.originals[rows]
        end = np.where(size == 0, whole, at + 40 + size)
        kind, transport = self._u8(at + 6), at + 40
        offset = np.zeros(len(rows), np.int64)
        further = np.zeros(len(rows), bool)
        number = np.zeros(len(rows), np.int64)
        for _ in range(MAX_EXTENSIONS):
            going = offset == 0  # behind the header of a later fragment there are no headers
            plain = going & np.isin(kind, EXTENSIONS)
            sealed = going & (kind == AUTHENTICATION)
            parted = going & (kind == FRAGMENT)
            if not (plain | sealed | parted).any():
                break
            length = self._u8(transport + 1)
            word = self._u16(transport + 2)
            offset = np.where(parted, word & 0xFFF8, offset)
            further |= parted & ((word & 1) == 1)
            number = np.where(parted, self._u32(transport + 4), number)
            kind = np.where(plain | sealed | parted, self._u8(transport), kind)
            step = np.select([plain, sealed, parted], [(length + 1) * 8, (length + 2) * 4, 8], 0)
            transport = transport + step
        addresses = tuple(self._u64(at + n) for n in (8, 16, 24, 32))
        is_tcp = kind == TCP
        self.skip(NOT_TCP, int(np.count_nonzero(~is_tcp)))
        fragmented = is_tcp & ((offset > 0) | further)
        if fragmented.any():
            for n in np.flatnonzero(fragmented):
                key = (*(int(part[n]) for part in addresses), int(number[n]))
                place = int(rows[n]), int(transport[n]), int(end[n])
                self.fragments.append(_Fragment(*place, int(offset[n]), bool(further[n]), key))
        return self._tcp(rows, transport, end, addresses, is_tcp & (offset == 0))

    def _tcp(self, rows: Ints, at: Ints, end: Ints, addresses: tuple[Any, ...], keep: Bools) -> _Rows | None:
        there = self.block.starts[rows] + self.block.sizes[rows]
        whole = at + 20 <= there
        if not whole.all():
            self._cut(rows[keep & ~whole])
            keep = keep & whole
        header = (self._u8(at + 12) >> 4) * 4
        flags = self._u8(at + 13)
        start = at + header
        size = end - start
        possible = (header >= 20) & (size >= 0)
        if not possible.all():
            self.skip(BAD_HEADERS, int(np.count_nonzero(keep & ~possible)))
        keep = keep & possible & ((size > 0) | (flags & (SYN | FIN | RST) != 0))
        if not keep.all():
            rows, at, start, size = rows[keep], at[keep], start[keep], size[keep]
            there, flags = there[keep], flags[keep]
            addresses = tuple(part[keep] for part in addresses)
        if not len(rows):
            return None
        captured = np.clip(there - start, 0, size)
        ends = [*addresses, self._u16(at), self._u16(at + 2)]
        return _Rows(*[rows, *ends, self._u32(at + 4), self._u32(at + 8), flags, start, captured, size])

    def _long(self, rows: Ints, needed: Ints) -> Ints:
        """Rows of which at least so much was captured."""
        enough = needed <= self.block.starts[rows] + self.block.sizes[rows]
        if enough.all():
            return rows
        self._cut(rows[~enough])
        return rows[enough]

    def _cut(self, rows: Ints) -> None:
        """Rows whose headers are not all there: they were not captured, or not sent."""
        captured = int(np.count_nonzero(self.block.sizes[rows] >= self.block.originals[rows]))
        self.skip(CUT_HEADERS, captured)
        self.skip(SNAPLEN, len(rows) - captured)

    def skip(self, why: str, count: int) -> None:
        """Count packets that were not looked at, or not all of them."""
        if count:
            self.skipped[why] = self.skipped.get(why, 0) + count

    def _u8(self, at: Ints) -> Ints:
        return self.bytes[np.minimum(at, len(self.bytes) - 1)].astype(np.int64)

    def _u16(self, at: Ints) -> Ints:
        found: Ints = self._word(at, ">u2").astype(np.int64)
        return found

    def _u32(self, at: Ints) -> Ints:
        found: Ints = self._word(at, ">u4").astype(np.int64)
        return found

    def _u64(self, at: Ints) -> Any:
        return self._word(at, ">u8").astype(np.uint64)

    def _word(self, at: Ints, kind: str) -> Any:
        """Integers that begin at these bytes; of those beyond the data, whatever."""
        places = len(self.data) - int(kind[2]) + 1
        if places < 1:
            return np.zeros(len(at), kind)
        return np.ndarray((places,), kind, self.data, strides=(1,))[np.minimum(at, places - 1)]


def _joined(parts: list[_Rows]) -> _Rows:
    if not parts:
        none = np.zeros(0, np.int64)
        high = np.zeros(0, np.uint64)
        return _Rows(none, high, high, high, high, *(none for _ in range(8)))
    joined = [np.concatenate(columns) for columns in zip(*(part.columns() for part in parts), strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return _Rows(*(column[order] for column in joined))


def _segments(block: Block, found: _Rows, skipped: dict[str, int], spare: dict[int, bytes]) -> Segments:
    """Rows with each pair of endpoints in order, and numbered."""
    sport, dport = found.sport.astype(np.uint64), found.dport.astype(np.uint64)
    upward = (found.shigh < found.dhigh) | (
        (found.shigh == found.dhigh) & ((found.slow < found.dlow) | ((found.slow == found.dlow) & (sport <= dport)))
    )
    one = [np.where(upward, a, b) for a, b in ((found.shigh, found.dhigh), (found.slow, found.dlow), (sport, dport))]
    two = [np.where(upward, b, a) for a, b in ((found.shigh, found.dhigh), (found.slow, found.dlow), (sport, dport))]
    keys, flow = _numbered([*one, *two])
    return Segments(
        path=block.path,
        base=block.base,
        data=block.data,
        keys=keys,
        flow=flow,
        upward=upward,
        time_us=block.times[found.row],
        position=block.records[found.row] + block.base,
        start=found.start + block.base,
        captured=found.captured,
        size=found.size,
        seq=found.seq,
        ack=found.ack,
        flags=found.flags,
        skipped=skipped,
        spare=spare,
    )


def _numbered(columns: list[Any]) -> tuple[list[Key], Ints]:
    """Distinct rows of these columns, and for each row the number of its own."""
    if not len(columns[0]):
        return [], np.zeros(0, np.int64)
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:  # a hash finds the rows that are alike; what collides is sorted out below
        mixed = (mixed ^ column) * np.uint64(0x9E37_79B9_7F4A_7C15)
        mixed ^= mixed >> np.uint64(29)
    _, first, flow = np.unique(mixed, return_index=True, return_inverse=True)
    if not all((column[first][flow] == column).all() for column in columns):
        table = np.stack(columns, axis=1)
        distinct, flow = np.unique(table, axis=0, return_inverse=True)
        return [tuple(map(int, row)) for row in distinct], flow.reshape(-1)  # type: ignore[misc]
    keys = list(zip(*(column[first].tolist() for column in columns), strict=True))
    return keys, flow.reshape(-1)


def read_segments(
    split: Split, ports: Collection[int] = (), *, guess: bool = False, then: Split | None = None
) -> Iterator[Segments | Skipped | Problem]:
    """The segments of the records that begin in a part of a file, a block at a time; at its end what was skipped.

    ``guess``: the part is one of ``guessed``, and ``then`` the next of them. That a guess may be wrong is told as the
    problem NOT_PROVEN; so is damage, but for a file that is cut.
    """
    file = CaptureFile(split.path)
    reader = Reader(ports)
    records, timed, skipped = 0, True, Counter[str]()
    for block in file.blocks(split):
        records += len(block.records)
        timed &= split.time_us != UNKNOWN or int(block.times[0]) != UNKNOWN
        segments = reader.segments(block)
        skipped.update(segments.skipped)
        yield segments
    fragmented = bool(reader.fragmented)
    yield from (Skipped(split.path, count, why) for why, count in sorted(skipped.items()))
    yield from reader.finish()
    yield from reader.problems(split.path)
    if guess and not (timed and is_proven(file, then, records) and not (then and fragmented)):
        yield Problem(split.path, split.start, NOT_PROVEN)
    else:
        yield from file.problems


def splits(path: str, size: int = 64 * BLOCK) -> list[Split]:
    """A capture file in parts of about ``size`` bytes, found by going through all its records.

    No part ends between the fragments of a packet, nor beside damage: each tells of what is damaged in it. A gzip'd
    file is one part. Raises: OSError.
    """
    file = CaptureFile(path, block=max(4_096, min(size, BLOCK)))
    reader = Reader()
    parts: list[Split] = []
    begin: Split | None = None
    for block in file.blocks():
        if begin is None:
            begin = block.whole
            if begin.packed:
                return [begin]
        parse = _Parse(block)
        if parse.fragments:
            reader.segments(block)
        then = block.then
        if then is not None and then.start - begin.start >= size and not reader.fragmented:
            parts.append(replace(begin, stop=then.start))
            begin = then
    return [*parts, begin] if begin is not None else []
