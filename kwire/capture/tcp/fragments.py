"""Reassembly of IP fragments.

Only the first fragment of a packet has a TCP header. Once the first fragment is captured, each later fragment of the
packet becomes a separate TCP segment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import NamedTuple

from kwire.capture.files.blocks import NO_FIRST_FRAGMENT, Skipped
from kwire.capture.limits import (
    MAX_EARLY_FRAGMENT_BYTES,
    MAX_EARLY_FRAGMENTS,
    MAX_FRAGMENT_SECONDS,
    MAX_FRAGMENTED,
    MAX_REPEAT_SECONDS,
)
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
        time_us: time of the fragment that was captured first, in microseconds since 1970.
        head: the first fragment.
        early: fragments that were captured before the first one.
        dropped: number of early fragments that were dropped, because there were too many.
        last: size of the packet without IP headers, in bytes; None before its last fragment was captured.
        seen: number of bytes of the fragments so far, without duplicates.
        offsets: offsets of the fragments so far: bit n is set for offset 8 * n.
    """

    path: str
    time_us: int
    head: _FirstFragment | None = None
    early: list[_LaterFragment] = field(default_factory=list)
    last: int | None = None
    seen: int = 0
    offsets: int = 0
    dropped: int = 0

    @property
    def is_whole(self) -> bool:
        return self.head is not None and self.last is not None and self.seen >= self.last

    def is_within(self, seconds: int, time_us: int) -> bool:
        """Return whether a time is within a number of seconds from the fragment that was captured first.

        ``time_us``: the time, in microseconds since 1970.
        """
        return abs(time_us - self.time_us) <= seconds * 1_000_000

    def has(self, part: Fragment, seq: int | None) -> bool:
        """Return whether a fragment repeats a fragment of this packet.

        Args:
            part: the fragment.
            seq: sequence number of its segment if it is a first fragment with a TCP header.
        """
        is_other = part.offset == 0 and (self.head is None or self.head.seq != seq)
        return bool(self.offsets >> part.offset // 8 & 1) and not is_other


class Fragments:
    """The fragmented IP packets that are still incomplete, oldest first.

    Limits: MAX_FRAGMENTED packets, MAX_FRAGMENT_SECONDS seconds for a packet, and MAX_EARLY_FRAGMENT_BYTES bytes of
    fragments that wait for the first fragment of their packet. As many complete packets are kept, to recognise
    fragments that are captured twice.

    Attributes:
        given_up: number of dropped fragments by file: fragments without a captured first fragment, and fragments above
            MAX_EARLY_FRAGMENTS before it.
    """

    def __init__(self) -> None:
        self._packets: dict[tuple[int, ...], _FragmentedPacket] = {}
        self._complete: dict[tuple[int, ...], _FragmentedPacket] = {}
        self._early_bytes = 0
        self.given_up: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._packets)

    def finish(self) -> list[Skipped]:
        """At the end of the capture, drop all incomplete packets; return the fragments without a first fragment.

        Returns: for each file with dropped fragments, their number, with the reason NO_FIRST_FRAGMENT.
        """
        self._complete.clear()
        while self._packets:
            self._give_up()
        given_up, self.given_up = self.given_up, Counter()
        return [Skipped(path, count, NO_FIRST_FRAGMENT) for path, count in sorted(given_up.items()) if count]

    def _give_up(self, key: tuple[int, ...] | None = None) -> None:
        """Drop an incomplete packet. Add its fragments that wait for the first fragment to ``given_up``.

        ``key``: key of the packet; None for the oldest one.
        """
        packet = self._packets.pop(next(iter(self._packets)) if key is None else key)
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
            n = index_of.get(part.row) if part.offset == 0 else None
            if n is not None and part.more:
                rows.flags[n] &= ~FIN
            time_us = int(block.times[part.row])
            if self._is_repeated(part, time_us, None if n is None else int(rows.seq[n])):
                continue
            packet = self._packet(part, block.path, time_us)
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
                if n is not None:
                    header = int(rows.start[n]) - part.start
                    columns = (rows.sport, rows.dport, rows.seq, rows.ack)
                    packet.head = _FirstFragment._make([*(int(column[n]) for column in columns), header])
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
                self._end(part.key)
        return rows.plus(more)

    def _end(self, key: tuple[int, ...]) -> None:
        """Move a packet to the complete ones. ``key``: key of the packet."""
        packet = self._packets.pop(key)
        self.given_up[packet.path] += packet.dropped
        if len(self._complete) >= MAX_FRAGMENTED:
            del self._complete[next(iter(self._complete))]
        self._complete[key] = packet

    def _is_repeated(self, part: Fragment, time_us: int, seq: int | None) -> bool:
        """Return whether a fragment repeats a fragment of a complete packet. If it begins another packet, forget the
        complete packet.

        Args:
            part: the fragment.
            time_us: its time, in microseconds since 1970.
            seq: sequence number of its segment if it is a first fragment with a TCP header.
        """
        packet = self._complete.get(part.key)
        if packet is None:
            return False
        if packet.is_within(MAX_REPEAT_SECONDS, time_us) and packet.has(part, seq):
            return True
        del self._complete[part.key]
        return False

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

    def _packet(self, part: Fragment, path: str, time_us: int) -> _FragmentedPacket:
        """Return the packet to which a fragment belongs.

        A second fragment with offset 0 begins a new packet, and so does a fragment more than MAX_FRAGMENT_SECONDS after
        the first one.

        A new packet is added. If there are already MAX_FRAGMENTED packets, the oldest one is dropped.

        Args:
            part: the fragment.
            path: path of the file.
            time_us: time of the fragment, in microseconds since 1970.
        """
        packet = self._packets.get(part.key)
        is_begin = packet is not None and packet.head is not None and part.offset == 0
        if packet is not None and (is_begin or not packet.is_within(MAX_FRAGMENT_SECONDS, time_us)):
            self._give_up(part.key)
            packet = None
        if packet is None:
            if len(self._packets) >= MAX_FRAGMENTED:
                self._give_up()
            packet = self._packets[part.key] = _FragmentedPacket(path, time_us)
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
