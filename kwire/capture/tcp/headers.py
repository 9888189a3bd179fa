"""Parsing of link, VLAN, MPLS, tunnel, IP and TCP headers. All packets of a block are parsed at once, as columns.

Tunnels are GRE (RFC 2784, 2890), VXLAN (RFC 7348) and Geneve (RFC 8926). Only the innermost packet counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kwire.capture.files.blocks import BAD_HEADERS, CUT_HEADERS, NOT_IP, NOT_TCP, SNAPLEN, UNKNOWN_LINK, Block, Ints
from kwire.capture.limits import MAX_EXTENSIONS, MAX_LABELS, MAX_TUNNELS, MAX_VLANS
from kwire.capture.tcp.segments import FIN, MAPPED, RST, SYN, Bools
from kwire.lazy_dataclass import dataclass

TCP, UDP, GRE = 6, 17, 47
NULL, ETHERNET, RAW, LOOP, SLL, IPV4_ONLY, IPV6_ONLY, SLL2 = 0, 1, 101, 108, 113, 228, 229, 276
RAW_LINKS = (RAW, 12, 14, IPV4_ONLY, IPV6_ONLY, NULL, LOOP)  # without an EtherType, or not needing one
HEADERS = {NULL: 4, LOOP: 4, ETHERNET: 14, SLL: 16, SLL2: 20}
TYPES_AT = {ETHERNET: 12, SLL: 14, SLL2: 0}
LINKS = {*RAW_LINKS, *HEADERS}
VLANS = (0x8100, 0x88A8, 0x9100, 0x9200)
MPLS = (0x8847, 0x8848)
IP_TYPES = (0x0800, 0x86DD)
BRIDGED = 0x6558  # EtherType of an Ethernet frame inside a tunnel
VXLAN, GENEVE = (4789, 8472), 6081  # UDP ports; 8472 is an older default of Linux
EXTENSIONS = (0, 43, 60, 135, 139, 140)  # IPv6 extension headers with a length in units of 8 bytes
AUTHENTICATION, FRAGMENT = 51, 44


class Fragment(NamedTuple):
    """A fragment of an IP packet.

    Attributes:
        row: index of the record in the block.
        start: offset of the fragment in the data of the block.
        end: offset after the fragment in the data of the block.
        offset: offset of the fragment in the packet, in bytes.
        more: True if more fragments follow.
        key: addresses and identification of the packet.
    """

    row: int
    start: int
    end: int
    offset: int
    more: bool
    key: tuple[int, ...]


@dataclass(slots=True)
class Rows:
    """TCP segments as columns with one element for each segment. ``s`` means source, ``d`` destination.

    Attributes:
        row: index of the record in the block.
        shigh: upper 64 bits of the source address.
        slow: lower 64 bits of the source address.
        dhigh: upper 64 bits of the destination address.
        dlow: lower 64 bits of the destination address.
        sport: source port.
        dport: destination port.
        seq: sequence number.
        ack: acknowledgement number.
        flags: TCP flags.
        start: offset of the payload in the data of the block.
        captured: number of captured bytes of the payload.
        size: number of sent bytes of the payload.
    """

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

    def only(self, mask: Any) -> Rows:
        return self if mask.all() else Rows(*(column[mask] for column in self.columns()))

    def plus(self, more: list[tuple[int, ...]]) -> Rows:
        """Return these rows together with additional rows, sorted by record.

        ``more``: one tuple for each additional row, with a value for each column.
        """
        if not more:
            return self
        added = [
            np.array(column, mine.dtype) for column, mine in zip(zip(*more, strict=True), self.columns(), strict=True)
        ]
        joined = [np.concatenate(pair) for pair in zip(self.columns(), added, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        return Rows(*(column[order] for column in joined))


def join_rows(parts: list[Rows]) -> Rows:
    if not parts:
        none = np.zeros(0, np.int64)
        high = np.zeros(0, np.uint64)
        return Rows(none, high, high, high, high, *(none for _ in range(8)))
    joined = [np.concatenate(columns) for columns in zip(*(part.columns() for part in parts), strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return Rows(*(column[order] for column in joined))


class PacketHeaders:
    """The parsed packet headers of one block of records.

    Args:
        block: the block; its packets are parsed.

    Attributes:
        rows: packets with a TCP header.
        fragments: fragments of packets.
        skipped: number of skipped packets, by reason.
        unknown: unknown link types.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.data = block.data
        self.bytes = np.frombuffer(block.data, np.uint8)
        self.skipped: dict[str, int] = {}
        self.unknown: set[int] = set()
        self.fragments: list[Fragment] = []
        rows = np.arange(len(block.records))
        self._inner: list[tuple[Ints, Ints, int]] = []  # packets inside tunnels
        waiting = self._linked(rows)
        parts: list[Rows] = []
        for _ in range(1 + MAX_TUNNELS):
            parts += [part for part in map(self._network, waiting) if part is not None]
            waiting, self._inner = iter(self._inner), []
        self.rows = parts[0] if len(parts) == 1 else join_rows(parts)

    def _linked(self, rows: Ints) -> Iterator[tuple[Ints, Ints, int]]:
        """Yield, for each link type and IP version: the rows, the offsets of their IP headers, and the version.

        Packets with an unknown link type, and packets that are not IP, are counted as skipped.
        """
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
            mine = self._captured_rows(mine, self.block.starts[mine] + head + 20)
            at = self.block.starts[mine] + head
            if kind in TYPES_AT:
                mine, at = self._typed(mine, at, self._u16(self.block.starts[mine] + TYPES_AT[kind]))
            yield from self._versions(mine, at)

    def _versions(self, rows: Ints, at: Ints) -> Iterator[tuple[Ints, Ints, int]]:
        """Yield the rows with their offsets, separately for each IP version; count the packets that are not IP.

        Args:
            rows: indices of the records.
            at: offset of the IP header of each row.
        """
        version = self.bytes[np.minimum(at, len(self.data) - 1)] >> 4
        for number in (4, 6):
            chosen = version == number
            if chosen.all():
                yield rows, at, number
                break
            if chosen.any():
                yield rows[chosen], at[chosen], number
        self.skip(NOT_IP, int(np.count_nonzero((version != 4) & (version != 6))))

    def _typed(self, rows: Ints, at: Ints, kind: Ints) -> tuple[Ints, Ints]:
        """Return the rows that have an IP header, and the offsets of these headers; count all other rows as skipped.

        VLAN tags and MPLS labels before an IP header are skipped.

        Args:
            rows: indices of the records.
            at: offset of the EtherType of each row.
            kind: EtherType of each row.
        """
        for _ in range(MAX_VLANS):
            tagged = np.isin(kind, VLANS)
            if not tagged.any():
                break
            kind = np.where(tagged, self._u16(at + 2), kind)
            at = np.where(tagged, at + 4, at)
        labelled = np.isin(kind, MPLS)
        for _ in range(MAX_LABELS):
            if not labelled.any():
                break
            is_last = labelled & (self._u8(at + 2) & 1 == 1)
            at = np.where(labelled, at + 4, at)
            kind = np.where(is_last, IP_TYPES[0], kind)  # the version is in the IP header
            labelled = labelled & ~is_last
        is_ip = np.isin(kind, IP_TYPES)
        if is_ip.all():
            return rows, at
        self.skip(NOT_IP, int(np.count_nonzero(~is_ip)))
        return rows[is_ip], at[is_ip]

    def _tunnels(self, rows: Ints, at: Ints, kind: Ints) -> Bools:
        """Record the packets inside tunnels; they are parsed later. Return, for each row, whether its packet is a
        tunnel.

        Args:
            rows: indices of the records, without fragments.
            at: offset after the IP header of each row.
            kind: protocol of each IP header.
        """
        is_gre = (kind == GRE) & (self._u8(at + 1) & 7 == 0)
        port = self._u16(at + 2)
        is_vxlan = (kind == UDP) & np.isin(port, VXLAN) & (self._u8(at + 8) & 8 == 8)
        is_geneve = (kind == UDP) & (port == GENEVE)
        found: Bools = is_gre | is_vxlan | is_geneve
        if found.any():
            flags = self._u8(at)
            optional = (flags & 0xC0 != 0).astype(np.int64) + (flags & 0x20 != 0) + (flags & 0x10 != 0)
            options = (self._u8(at + 8) & 0x3F) * 4
            size = np.select([is_gre, is_vxlan], [4 + 4 * optional, 16], 16 + options)
            inside = np.select([is_gre, is_vxlan], [port, BRIDGED], self._u16(at + 10))
            self._unpack(rows[found], (at + size)[found], inside[found])
        return found

    def _unpack(self, rows: Ints, at: Ints, kind: Ints) -> None:
        """Record packets inside tunnels; they are parsed later.

        Args:
            rows: indices of the records.
            at: offset of the inner packet of each row.
            kind: EtherType of each inner packet; BRIDGED for an Ethernet frame.
        """
        bridged = kind == BRIDGED
        kind = np.where(bridged, self._u16(at + 12), kind)
        at = np.where(bridged, at + HEADERS[ETHERNET], at)
        whole = at + 20 <= self.block.starts[rows] + self.block.sizes[rows]
        self._count_incomplete(rows[~whole])
        self._inner += self._versions(*self._typed(rows[whole], at[whole], kind[whole]))

    def _network(self, given: tuple[Ints, Ints, int]) -> Rows | None:
        return self._ipv4(*given[:2]) if given[2] == 4 else self._ipv6(*given[:2])

    def _ipv4(self, rows: Ints, at: Ints) -> Rows | None:
        kind = self._u8(at + 9)
        is_tcp = kind == TCP
        if not is_tcp.all():
            tunnel = self._tunnels(rows, at + (self._u8(at) & 15) * 4, np.where(self._u16(at + 6) & 0x3FFF, 0, kind))
            rows, at, is_tcp = rows[~tunnel], at[~tunnel], is_tcp[~tunnel]
            self.skip(NOT_TCP, int(np.count_nonzero(~is_tcp)))
            rows, at = rows[is_tcp], at[is_tcp]
        total = self._u16(at + 2)
        header = (self._u8(at) & 15) * 4
        transport = at + header
        whole = self.block.starts[rows] + self.block.originals[rows]
        end = np.where(total == 0, whole, at + total)  # 0: segmentation offload, the network card splits it
        part = self._u16(at + 6)
        source, target = self._u32(at + 12) + MAPPED, self._u32(at + 16) + MAPPED
        none = np.zeros(len(rows), np.uint64)
        fragmented = (part & 0x3FFF) != 0
        possible = header >= 20
        if fragmented.any():
            for n in np.flatnonzero(fragmented):
                key = (0, int(source[n]), 0, int(target[n]), int(self._u16(at[n : n + 1] + 4)[0]))
                offset, further = int(part[n] & 0x1FFF) * 8, bool(part[n] & 0x2000)
                place = int(rows[n]), int(transport[n]), int(end[n])
                self._add_fragment(Fragment(*place, offset, further, key), has_header=bool(possible[n]))
        keep = (part & 0x1FFF) == 0
        if not possible.all():
            self.skip(BAD_HEADERS, int(np.count_nonzero(keep & ~possible)))
            keep &= possible
        return self._tcp(rows, transport, end, (none, source.astype(np.uint64), none, target.astype(np.uint64)), keep)

    def _ipv6(self, rows: Ints, at: Ints) -> Rows | None:
        enough = at + 40 <= self.block.starts[rows] + self.block.sizes[rows]
        self._count_incomplete(rows[~enough])
        rows, at = rows[enough], at[enough]
        size = self._u16(at + 4)
        whole = self.block.starts[rows] + self.block.originals[rows]
        end = np.where(size == 0, whole, at + 40 + size)
        kind, transport = self._u8(at + 6), at + 40
        offset = np.zeros(len(rows), np.int64)
        further = np.zeros(len(rows), bool)
        number = np.zeros(len(rows), np.int64)
        for _ in range(MAX_EXTENSIONS):
            going = offset == 0  # later fragments have no TCP header
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
        tunnel = self._tunnels(rows, transport, np.where((offset > 0) | further, 0, kind))
        self.skip(NOT_TCP, int(np.count_nonzero(~is_tcp & ~tunnel)))
        fragmented = is_tcp & ((offset > 0) | further)
        if fragmented.any():
            for n in np.flatnonzero(fragmented):
                key = (*(int(part[n]) for part in addresses), int(number[n]))
                place = int(rows[n]), int(transport[n]), int(end[n])
                self._add_fragment(Fragment(*place, int(offset[n]), bool(further[n]), key))
        return self._tcp(rows, transport, end, addresses, is_tcp & (offset == 0))

    def _add_fragment(self, fragment: Fragment, *, has_header: bool = True) -> None:
        """Record a fragment of a packet, unless its headers are invalid: it would end before its first byte.

        Invalid later fragments are counted as skipped. An invalid first fragment is counted with the TCP headers.

        Args:
            fragment: the fragment.
            has_header: False if the length of the IP header is below the minimum.
        """
        if has_header and fragment.start <= fragment.end:
            self.fragments.append(fragment)
        elif fragment.offset:
            self.skip(BAD_HEADERS, 1)

    def _tcp(self, rows: Ints, at: Ints, end: Ints, addresses: tuple[Any, ...], keep: Bools) -> Rows | None:
        there = self.block.starts[rows] + self.block.sizes[rows]
        whole = at + 20 <= there
        if not whole.all():
            self._count_incomplete(rows[keep & ~whole])
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
        return Rows(*[rows, *ends, self._u32(at + 4), self._u32(at + 8), flags, start, captured, size])

    def _captured_rows(self, rows: Ints, needed: Ints) -> Ints:
        """Return the rows with at least ``needed`` captured bytes; count all remaining rows as incomplete."""
        enough = needed <= self.block.starts[rows] + self.block.sizes[rows]
        if enough.all():
            return rows
        self._count_incomplete(rows[~enough])
        return rows[enough]

    def _count_incomplete(self, rows: Ints) -> None:
        """Count rows whose headers are incomplete, because bytes were not captured or not sent."""
        captured = int(np.count_nonzero(self.block.sizes[rows] >= self.block.originals[rows]))
        self.skip(CUT_HEADERS, captured)
        self.skip(SNAPLEN, len(rows) - captured)

    def skip(self, why: str, count: int) -> None:
        """Count packets that are skipped or truncated.

        Args:
            why: a key of SKIP_REASONS for skipped packets, or SNAPLEN for truncated packets.
            count: number of packets.
        """
        if count:
            self.skipped[why] = self.skipped.get(why, 0) + count

    def _u8(self, at: Ints) -> Ints:
        return self.bytes[np.minimum(at, len(self.bytes) - 1)].astype(np.int64)

    def _u16(self, at: Ints) -> Ints:
        words: Ints = self._word(at, ">u2").astype(np.int64)
        return words

    def _u32(self, at: Ints) -> Ints:
        words: Ints = self._word(at, ">u4").astype(np.int64)
        return words

    def _u64(self, at: Ints) -> Any:
        return self._word(at, ">u8").astype(np.uint64)

    def _word(self, at: Ints, kind: str) -> Any:
        """Return an array of the integers at these offsets.

        An offset after the end of the data returns an arbitrary value.

        Args:
            at: byte offsets.
            kind: numpy type of the integers, such as ``>u2``.
        """
        places = len(self.data) - int(kind[2]) + 1
        if places < 1:
            return np.zeros(len(at), kind)
        return np.ndarray((places,), kind, self.data, strides=(1,))[np.minimum(at, places - 1)]
