"""The byte stream of one direction of a TCP connection, reassembled from segments that arrive in any order.

A segment that arrives in order only advances ``next``. Other segments are buffered until the gap before them is filled
or counts as lost. If bytes are sent twice, the first copy is used, as most receivers do.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from kwire.capture.limits import ACKED_SEGMENTS, ACKED_US, HOLE_SECONDS, MAX_HELD, MAX_HELD_SEGMENTS

MASK = 0xFFFF_FFFF
HALF = 0x8000_0000
WINDOW = 1 << 30  # TCP's largest window; acknowledgements beyond it are invalid
KEPT = 2_048  # bytes of the last segment, to compare retransmissions with


class Piece(NamedTuple):
    """The consecutive bytes of one TCP segment, or a part of them.

    Attributes:
        seq: sequence number of the first byte, extended beyond 32 bits: it does not wrap around.
        time_us: time of the packet, in microseconds since 1970.
        payload: captured bytes.
        size: number of sent bytes; larger than ``len(payload)`` if the capture truncated the packet.
        file: path of the file.
        position: byte offset of the packet in the file.
    """

    seq: int
    time_us: int
    payload: bytes
    size: int
    file: str
    position: int

    @property
    def end(self) -> int:
        return self.seq + self.size

    def part(self, begin: int, end: int) -> Piece:
        """Return the bytes from sequence number ``begin`` up to, but not including, ``end``."""
        begin, end = max(begin, self.seq), min(end, self.end)
        payload = self.payload[begin - self.seq : end - self.seq]
        return self._replace(seq=begin, payload=payload, size=end - begin)


class Stream:
    """The byte stream of one direction of a TCP connection.

    Sequence numbers are extended beyond 32 bits, unless stated otherwise.

    Attributes:
        next: next expected sequence number; None before the first segment.
        held: buffered segments after a gap, by sequence number and without overlaps.
        held_bytes: number of buffered bytes.
        since: time of the segment that revealed the gap, in microseconds since 1970.
        waited: number of segments of the connection since the gap was revealed.
        acked: sequence number that the peer has acknowledged, with 32 bits; None if unknown.
        fin: sequence number of the FIN; None if no FIN was captured.
        last: sequence number and first bytes of the segment that was delivered last.
        retransmitted: number of segments with bytes that had been captured before.
        conflicts: number of overlapping segments whose bytes differ.
    """

    __slots__ = ("acked", "conflicts", "fin", "held", "held_bytes", "last", "next", "retransmitted", "since", "waited")

    def __init__(self) -> None:
        self.next: int | None = None
        self.held: list[Piece] = []  # by sequence number, without overlaps
        self.held_bytes = 0
        self.since = 0  # time of the segment that revealed the gap
        self.waited = 0  # segments of the connection since then
        self.acked: int | None = None  # acknowledged by the peer, 32 bits
        self.fin: int | None = None
        self.last: tuple[int, bytes] = (0, b"")  # last delivered segment
        self.retransmitted = self.conflicts = 0

    def place(self, seq: int) -> int:
        """Return a 32-bit sequence number as an extended one: of all possible values, the nearest to ``next``."""
        assert self.next is not None
        delta = (seq - self.next) & MASK
        return self.next + (delta - (1 << 32) if delta >= HALF else delta)

    def hold(self, piece: Piece) -> None:
        """Buffer the bytes of a segment, except bytes that are delivered or buffered already.

        Count the segment as retransmitted if it contains such bytes.
        """
        assert self.next is not None
        if piece.seq < self.next:
            self.retransmitted += 1
            self._compare(piece, *self.last)
            if piece.end <= self.next:
                return
            piece = piece.part(self.next, piece.end)
        if not self.gap:
            self.since, self.waited = piece.time_us, 0
        for part in self._uncovered(piece):
            self.held.insert(bisect_left(self.held, part.seq, key=lambda held: held.seq), part)
            self.held_bytes += len(part.payload)

    def _uncovered(self, piece: Piece) -> list[Piece]:
        """Return the parts of a segment's bytes that are not buffered yet.

        Count a retransmission for each buffered segment that overlaps with the bytes, and a conflict if the bytes
        differ.
        """
        parts, begin = [], piece.seq
        n = max(0, bisect_left(self.held, piece.seq, key=lambda held: held.seq) - 1)
        while n < len(self.held) and self.held[n].seq < piece.end:
            held = self.held[n]
            n += 1
            if held.end <= begin:
                continue
            self.retransmitted += 1
            self._compare(piece, held.seq, held.payload)
            if held.seq > begin:
                parts.append(piece.part(begin, held.seq))
            begin = held.end
        if begin < piece.end:
            parts.append(piece.part(begin, piece.end))
        return parts

    def _compare(self, piece: Piece, seq: int, known: bytes) -> None:
        """Count a conflict if bytes differ from bytes that were captured earlier with the same sequence numbers.

        Args:
            piece: the new bytes.
            seq: sequence number at which ``known`` begins.
            known: bytes that were captured earlier.
        """
        begin, end = max(seq, piece.seq), min(seq + len(known), piece.seq + len(piece.payload))
        if begin < end and known[begin - seq : end - seq] != piece.payload[begin - piece.seq : end - piece.seq]:
            self.conflicts += 1

    def due(self) -> Piece | None:
        """Remove and return the next bytes in order; None if they have not arrived."""
        if not self.held or self.held[0].seq != self.next:
            return None
        piece = self.held.pop(0)
        self.held_bytes -= len(piece.payload)
        self.next = piece.end
        self.last = (piece.seq, piece.payload[:KEPT])
        return piece

    @property
    def gap(self) -> int:
        """The number of bytes that are missing after the delivered bytes; 0 if none are missing.

        The gap ends at the first buffered byte. If no bytes are buffered, it ends at the byte up to which the peer has
        acknowledged.
        """
        if self.next is None:
            return 0
        if self.held:
            return self.held[0].seq - self.next
        if self.acked is None or self.is_done:
            return 0
        ahead = (self.acked - self.next) & MASK
        if ahead >= WINDOW:
            return 0
        return ahead if self.fin is None else min(ahead, self.fin - self.next)  # FIN takes a sequence number too

    def notice(self, ack: int, time_us: int) -> bool:
        """Process an acknowledgement of the peer. Return whether bytes are missing: acknowledged or buffered, but not
        captured.

        Args:
            ack: acknowledged sequence number, 32 bits.
            time_us: time of the segment, in microseconds since 1970.
        """
        before = self.gap
        self.acked = ack
        if self.gap and not before:
            self.since, self.waited = time_us, 0
        return self.gap > 0

    def is_lost(self, now_us: int) -> bool:
        """Return whether the missing bytes of the gap will never arrive.

        They count as lost if the peer has acknowledged them, and ACKED_SEGMENTS segments or ACKED_US microseconds have
        passed since the gap was noticed. They also count as lost if too many bytes or segments are buffered, or if the
        gap is older than HOLE_SECONDS. ``now_us``: current time, in microseconds since 1970.
        """
        if len(self.held) > MAX_HELD_SEGMENTS or self.held_bytes > MAX_HELD:
            return True
        waited = now_us - self.since
        if waited > HOLE_SECONDS * 1_000_000:
            return True
        if self.acked is None or (self.held and (self.acked - self.held[0].seq) & MASK >= HALF):
            return False
        return self.waited >= ACKED_SEGMENTS or waited > ACKED_US

    @property
    def is_done(self) -> bool:
        """Whether all bytes up to the FIN were delivered."""
        return self.fin is not None and self.next is not None and self.next >= self.fin

    def give_up(self) -> int:
        """Skip the gap before the buffered bytes; return the number of lost bytes."""
        lost = self.gap
        assert self.next is not None
        self.next += lost
        if self.held:
            self.since, self.waited = self.held[0].time_us, 0
        return lost
