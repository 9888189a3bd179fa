"""Reassembly of IP fragments.

Only the first fragment of a packet has a TCP header. Once the first fragment is captured, each later fragment of the
packet becomes a separate TCP segment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import NamedTuple

from kwire.capture.files.blocks import NO_FIRST_FRAGMENT, Skipped
from kwire.capture.limits import MAX_EARLY_FRAGMENT_BYTES, MAX_EARLY_FRAGMENTS, MAX_FRAGMENTED
from kwire.capture.tcp.headers import Fragment, PacketHeaders, Rows
from kwire.capture.tcp.segments import ACK, FIN
from kwire.lazy_dataclass import dataclass


class _LaterFragment(NamedTuple):
    """A fragment of an IP packet that is not its first fragment.

    Attributes:
        offset: offset in the packet without its IP header, in bytes.
        size: number of sent bytes.
        captured: number of captured bytes.
        start: position of the captured bytes in the file.
        path: path of the file.
        data: the captured bytes if the fragment waits for the first fragment of its packet; empty otherwise.
    """

    offset: int
    size: int
    captured: int
    start: int
    path: str
    data: bytes


class _FirstFragment(NamedTuple):
    """The first fragment of an IP packet. The later fragments are assigned the same TCP fields.

    Attributes:
        sport: source port.
        dport: destination port.
        seq: sequence number.
        ack: acknowledgement number.
        header: size of the TCP header, in bytes.
    """

    sport: int
    dport: int
    seq: int
    ack: int
    header: int


@dataclass(slots=True)
class _FragmentedPacket:
    """An IP packet that was sent in fragments.

    Attributes:
        path: file of the fragment that was captured first.
        head: the first fragment.
        early: fragments that were captured before the first one.
        dropped: number of early fragments that were dropped, because there were too many.
        last: size of the packet without IP headers, in bytes; None before its last fragment was captured.
        seen: number of bytes of the fragments so far, without duplicates.
        offsets: offsets of the fragments so far: bit n is set for offset 8 * n.
    """

    path: str
    head: _FirstFragment | None = None
    early: list[_LaterFragment] = field(default_factory=list)
    last: int | None = None
    seen: int = 0
    offsets: int = 0
    dropped: int = 0

    @property
    def is_whole(self) -> bool:
        return self.head is not None and self.last is not None and self.seen >= self.last


class Fragments:
    """The fragmented IP packets that are still incomplete, oldest first.

    Limits: MAX_FRAGMENTED packets, and MAX_EARLY_FRAGMENT_BYTES bytes of fragments that wait for the first fragment of
    their packet.

    Attributes:
        given_up: number of dropped fragments by file: fragments without a captured first fragment, and fragments above
            MAX_EARLY_FRAGMENTS before it.
    """

    def __init__(self) -> None:
        self._packets: dict[tuple[int, ...], _FragmentedPacket] = {}
        self._early_bytes = 0
        self.given_up: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._packets)

    def finish(self) -> list[Skipped]:
        """At the end of the capture, drop all incomplete packets; return the fragments without a first fragment.

        Returns: for each file with dropped fragments, their number, with the reason NO_FIRST_FRAGMENT.
        """
        while self._packets:
            self._give_up()
        given_up, self.given_up = self.given_up, Counter()
        return [Skipped(path, count, NO_FIRST_FRAGMENT) for path, count in sorted(given_up.items()) if count]

    def _give_up(self) -> None:
        """Drop the oldest incomplete packet. Add its fragments that wait for the first fragment to ``given_up``."""
        packet = self._packets.pop(next(iter(self._packets)))
        self._early_bytes -= sum(len(piece.data) for piece in packet.early)
        self.given_up[packet.path] += len(packet.early) + packet.dropped

    def join(self, parse: PacketHeaders, rows: Rows, spare: dict[int, bytes]) -> Rows:
        """Return the rows of a block, with an additional row for each later fragment of a packet.

        Args:
            parse: parsed headers of the block.
            rows: packets with a TCP header; FIN is removed from the flags of a first fragment.
            spare: dictionary to which the payloads of fragments of earlier blocks are added; for the keys, see
                ``Segments.spare``.
        """
        block, more = parse.block, []
        index_of = {int(row): n for n, row in enumerate(rows.row)}
        for part in sorted(parse.fragments):
            packet = self._packet(part, block.path)
            size = part.end - part.start
            captured = max(0, min(part.end, int(block.starts[part.row] + block.sizes[part.row])) - part.start)
            if not packet.offsets >> part.offset // 8 & 1:
                packet.offsets |= 1 << part.offset // 8
                packet.seen += size
            if not part.more:
                packet.last = part.offset + size
            late = [_LaterFragment(part.offset, size, captured, part.start + block.base, block.path, b"")]
            if part.offset == 0:
                late = []
                if (n := index_of.get(part.row)) is not None:
                    header = int(rows.start[n]) - part.start
                    columns = (rows.sport, rows.dport, rows.seq, rows.ack)
                    packet.head = _FirstFragment._make([*(int(column[n]) for column in columns), header])
                    rows.flags[n] &= ~FIN if part.more else 0xFF
                    late, packet.early = packet.early, []
                    self._early_bytes -= sum(len(piece.data) for piece in late)
            elif packet.head is None:
                self._hold(packet, late[0]._replace(data=block.data[part.start : part.start + captured]))
                continue
            for piece in late:
                at = piece.start
                if piece.path != block.path:
                    at = -1 - len(spare)
                if at < block.base:
                    spare[at] = piece.data
                more.append(_late_row(part, packet.head, piece._replace(start=at), block.base))
            if packet.is_whole:
                self.given_up[packet.path] += self._packets.pop(part.key).dropped
        return rows.plus(more)

    def _hold(self, packet: _FragmentedPacket, piece: _LaterFragment) -> None:
        """Buffer a fragment until the first fragment of its packet; drop it if the packet has too many.

        If too many bytes are buffered, the oldest other packets are dropped.

        Args:
            packet: the incomplete packet, one of ``_packets``.
            piece: the fragment.
        """
        size = len(piece.data)
        while self._early_bytes + size > MAX_EARLY_FRAGMENT_BYTES and next(iter(self._packets.values())) is not packet:
            self._give_up()
        if len(packet.early) >= MAX_EARLY_FRAGMENTS or self._early_bytes + size > MAX_EARLY_FRAGMENT_BYTES:
            packet.dropped += 1
            return
        packet.early.append(piece)
        self._early_bytes += size

    def _packet(self, part: Fragment, path: str) -> _FragmentedPacket:
        """Return the packet to which a fragment belongs. A second fragment with offset 0 begins a new packet.

        A new packet is added. If there are already MAX_FRAGMENTED packets, the oldest one is dropped.

        Args:
            part: the fragment.
            path: path of the file.
        """
        packet = self._packets.get(part.key)
        if packet is not None and packet.head is not None and part.offset == 0:
            self.given_up[packet.path] += self._packets.pop(part.key).dropped
            packet = None
        if packet is None:
            if len(self._packets) >= MAX_FRAGMENTED:
                self._give_up()
            packet = self._packets[part.key] = _FragmentedPacket(path)
        return packet


def _late_row(part: Fragment, head: _FirstFragment | None, piece: _LaterFragment, base: int) -> tuple[int, ...]:
    """Return the row for a later fragment: a TCP segment with the bytes of this fragment, as one value for each column
    of ``Rows``.

    Args:
        part: the fragment.
        head: first fragment of the packet; None is not allowed.
        piece: offset, size and captured bytes of the fragment.
        base: position of the current block in the file.
    """
    assert head is not None
    seq = (head.seq + piece.offset - head.header) & 0xFFFF_FFFF
    place = piece.start - base, piece.captured, piece.size
    return (part.row, *part.key[:4], head.sport, head.dport, seq, head.ack, ACK, *place)
