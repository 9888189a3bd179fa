"""Captures for tests: frames as TCP segments, segments as packets, and packets as pcap or pcapng files."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address

from kwire.capture.tcp.segments import ACK, FIN, RST, SYN

__all__ = ["ACK", "FIN", "RST", "SYN"]
ETHERNET, NULL, RAW, LOOP, SLL, SLL2 = 1, 0, 101, 108, 113, 276
US = 1_000_000
START = 1_700_000_000 * US


@dataclass(frozen=True)
class Segment:
    """A TCP segment. ``cut``: number of captured bytes of its payload; None for all."""

    time_us: int
    source: tuple[str, int]
    target: tuple[str, int]
    seq: int
    ack: int
    flags: int
    payload: bytes = b""
    cut: int | None = None


@dataclass
class Talk:
    """A TCP connection of made-up segments, ``gap_us`` microseconds apart, with at most ``mss`` bytes of payload."""

    client: tuple[str, int] = ("10.0.0.1", 50_000)
    broker: tuple[str, int] = ("10.0.0.2", 9092)
    time_us: int = START
    mss: int = 1448
    gap_us: int = 100
    isn: tuple[int, int] = (1_000, 2_000)

    def __post_init__(self) -> None:
        self.next = {True: self.isn[0] & 0xFFFFFFFF, False: self.isn[1] & 0xFFFFFFFF}

    def segment(self, to_broker: bool, flags: int, payload: bytes = b"") -> Segment:
        """Return the next segment of one side."""
        ends = (self.client, self.broker) if to_broker else (self.broker, self.client)
        ack = self.next[not to_broker] if flags & ACK else 0
        made = Segment(self.time_us, *ends, self.next[to_broker], ack, flags, payload)
        self.time_us += self.gap_us
        self.next[to_broker] = (made.seq + len(payload) + bool(flags & SYN) + bool(flags & FIN)) & 0xFFFFFFFF
        return made

    def open(self) -> list[Segment]:
        """Return the three segments that open the connection."""
        return [self.segment(True, SYN), self.segment(False, SYN | ACK), self.segment(True, ACK)]

    def close(self) -> list[Segment]:
        """Return the segments that close the connection: a FIN of each side, and the last ACK."""
        return [self.segment(True, FIN | ACK), self.segment(False, FIN | ACK), self.segment(True, ACK)]

    def say(self, to_broker: bool, data: bytes) -> list[Segment]:
        """Return the segments that carry bytes of one side."""
        parts = [data[at : at + self.mss] for at in range(0, len(data), self.mss)]
        return [self.segment(to_broker, ACK, part) for part in parts]


def prefixed(frame: bytes) -> bytes:
    """Return a frame with its length prefix."""
    return struct.pack(">i", len(frame)) + frame


def ip_packet(segment: Segment, *, extension: bool = False) -> bytes:
    """Return an IP packet with one TCP segment. ``extension``: True to add IPv6 extension headers before TCP."""
    tcp = tcp_bytes(segment)
    source, target = ip_address(segment.source[0]), ip_address(segment.target[0])
    if source.version == 4:
        return ipv4(source.packed, target.packed, tcp)
    if extension:
        tcp = bytes([43, 0, *bytes(6)]) + bytes([60, 1, *bytes(14)]) + bytes([6, 0, *bytes(6)]) + tcp
    kind = 0 if extension else 6
    return struct.pack(">IHBB", 6 << 28, len(tcp), kind, 64) + source.packed + target.packed + tcp


def tcp_bytes(segment: Segment) -> bytes:
    """Return a TCP header with options, and the payload."""
    head = struct.pack(
        ">HHIIBBHHH",
        segment.source[1],
        segment.target[1],
        segment.seq,
        segment.ack,
        8 << 4,
        segment.flags,
        65_535,
        0,
        0,
    )
    return head + bytes.fromhex("01010101" * 3) + segment.payload


def ipv4(
    source: bytes, target: bytes, content: bytes, *, offset: int = 0, more: bool = False, number: int = 7
) -> bytes:
    """Return an IPv4 packet, or a fragment of one."""
    word = (offset // 8) | (0x2000 if more else 0)
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(content), number, word, 64, 6, 0) + source + target + content


def fragments(segment: Segment, size: int, number: int = 7) -> list[bytes]:
    """Return the IP packet of a segment in fragments of ``size`` bytes, a multiple of 8."""
    source, target = ip_address(segment.source[0]), ip_address(segment.target[0])
    content = tcp_bytes(segment)
    made = []
    for at in range(0, len(content), size):
        part, more = content[at : at + size], at + size < len(content)
        if source.version == 4:
            made.append(ipv4(source.packed, target.packed, part, offset=at, more=more, number=number))
        else:
            extension = struct.pack(">BBHI", 6, 0, at | more, number)
            head = struct.pack(">IHBB", 6 << 28, len(part) + 8, 44, 64)
            made.append(head + source.packed + target.packed + extension + part)
    return made


def framed(packet: bytes, link: int = ETHERNET, *, vlans: Sequence[int] = ()) -> bytes:
    """Return an IP packet with a link header before it. ``vlans``: EtherTypes of the VLAN tags."""
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    tags = b"".join(struct.pack(">HH", 5, following) for following in [*vlans[1:], kind]) if vlans else b""
    first = vlans[0] if vlans else kind
    match link:
        case 1:
            return bytes(12) + struct.pack(">H", first) + tags + packet
        case 0:
            return struct.pack("<I", 2 if kind == 0x0800 else 30) + packet
        case 108:
            return struct.pack(">I", 2 if kind == 0x0800 else 24) + packet
        case 113:
            return bytes(14) + struct.pack(">H", first) + tags + packet
        case 276:
            return struct.pack(">H", first) + bytes(18) + tags + packet
        case _:
            return packet


GRE, UDP = 47, 17


def outer(content: bytes, protocol: int, version: int = 4) -> bytes:
    """Return the outer IP packet of a tunnel."""
    if version == 6:
        return (
            struct.pack(">IHBB", 6 << 28, len(content), protocol, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + content
        )
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(content), 7, 0, 64, protocol, 0)
    return head + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + content


def datagram(content: bytes, port: int) -> bytes:
    """Return a UDP datagram."""
    return struct.pack(">HHHH", 50_001, port, 8 + len(content), 0) + content


def tunnelled(packet: bytes, tunnel: str) -> bytes:
    """Return an Ethernet frame with a packet in a tunnel."""
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    match tunnel:
        case "gre":
            return framed(outer(struct.pack(">HH", 0, kind) + packet, GRE))
        case "gre with checksum, key and number":
            return framed(outer(struct.pack(">HHIII", 0xB000, kind, 1, 2, 3) + packet, GRE))
        case "gre with ethernet, ipv6":
            return framed(outer(struct.pack(">HH", 0, 0x6558) + framed(packet), GRE, 6))
        case "vxlan":
            return framed(outer(datagram(struct.pack(">II", 8 << 24, 5 << 8) + framed(packet), 4789), UDP))
        case "vxlan of vlan, ipv6":
            return framed(
                outer(datagram(struct.pack(">II", 8 << 24, 5 << 8) + framed(packet, vlans=[0x8100]), 4789), UDP, 6)
            )
        case "geneve":
            return framed(outer(datagram(struct.pack(">BBHI", 0, 0, 0x6558, 5 << 8) + framed(packet), 6081), UDP))
        case "geneve with options":
            inside = struct.pack(">BBHI", 2, 0, kind, 5 << 8) + bytes(8) + packet
            return framed(outer(datagram(inside, 6081), UDP))
        case "mpls":
            labels = struct.pack(">II", 16 << 12 | 64, 17 << 12 | 0x100 | 64)
            return bytes(12) + struct.pack(">H", 0x8847) + labels + packet
        case "vxlan of gre":
            return tunnelled(outer(struct.pack(">HH", 0, kind) + packet, GRE), "vxlan")
    raise ValueError(tunnel)


TUNNELS = (
    "gre",
    "gre with checksum, key and number",
    "gre with ethernet, ipv6",
    "vxlan",
    "vxlan of vlan, ipv6",
    "geneve",
    "geneve with options",
    "mpls",
    "vxlan of gre",
)


Packets = Iterable[tuple[int, bytes, int]]  # time, captured bytes, original size


def packets(
    segments: Iterable[Segment], link: int = ETHERNET, *, vlans: Sequence[int] = (), extension: bool = False
) -> Iterator[tuple[int, bytes, int]]:
    """Yield segments as packets of one link type: time, captured bytes, original size."""
    for segment in segments:
        packet = framed(ip_packet(segment, extension=extension), link, vlans=vlans)
        lost = 0 if segment.cut is None else max(0, len(segment.payload) - segment.cut)
        yield segment.time_us, packet[: len(packet) - lost], len(packet)


def pcap(
    content: Packets, link: int = ETHERNET, *, order: str = "<", nano: bool = False, snaplen: int = 262_144
) -> bytes:
    """Return a pcap file."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snaplen, link)]
    for time_us, data, size in content:
        fraction = time_us % US * (1_000 if nano else 1)
        parts += [struct.pack(f"{order}IIII", time_us // US, fraction, len(data), size), data]
    return b"".join(parts)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return a block of a pcapng file."""
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return struct.pack(f"{order}II", kind, size) + body + struct.pack(f"{order}I", size)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link: int = ETHERNET, *, order: str = "<", tsresol: int | None = None, snaplen: int = 0, options: bytes = b""
) -> bytes:
    if tsresol is not None:
        options += struct.pack(f"{order}HHB3x", 9, 1, tsresol)
    return block(1, struct.pack(f"{order}HHI", link, 0, snaplen) + options, order)


def enhanced(ticks: int, data: bytes, size: int, *, number: int = 0, order: str = "<") -> bytes:
    return block(
        6,
        struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), size)
        + data
        + bytes(-len(data) % 4),
        order,
    )


def pcapng(content: Packets, link: int = ETHERNET, *, order: str = "<") -> bytes:
    """Return a pcapng file with one section and one interface."""
    return (
        section(order) + interface(link, order=order) + b"".join(enhanced(*packet, order=order) for packet in content)
    )


def shaken(
    segments: Sequence[Segment], seed: int, *, lost: float = 0.0, moved: float = 0.0, again: float = 0.0
) -> list[Segment]:
    """Return the segments with some lost, some out of order and some retransmitted."""
    source = random.Random(seed)
    kept: list[Segment] = []
    for segment in segments:
        if segment.payload and source.random() < lost:
            continue
        kept.append(segment)
        if segment.payload and source.random() < again:
            kept.append(replace(segment, time_us=segment.time_us + 1))
    order = [
        (n + (source.randint(1, 4) + 0.5 if kept[n].payload and source.random() < moved else 0), n)
        for n in range(len(kept))
    ]
    return [kept[n] for _, n in sorted(order)]
