"""One direction of a TCP connection: segments in any order to bytes in order.

What is in order never comes here but for ``next``; what is not waits, behind a hole that is filled or given up. Of
bytes that were sent twice the first copy counts, as for most receivers.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from kwire.capture.limits import ACKED_SEGMENTS, ACKED_US, HOLE_SECONDS, MAX_HELD, MAX_HELD_SEGMENTS

MASK = 0xFFFF_FFFF
HALF = 0x8000_0000
WINDOW = 1 << 30  # TCP's largest; what is acknowledged beyond it is nonsense
KEPT = 2_048  # bytes of the last segment, to notice that another copy differs


class Piece(NamedTuple):
    """Bytes of a stream: ``size`` of them were sent, of which ``payload`` was captured."""

    seq: int  # counted on beyond 32 bits
    time_us: int
    payload: bytes
    size: int
    file: str
    position: int

    @property
    def end(self) -> int:
        return self.seq + self.size

    def part(self, begin: int, end: int) -> Piece:
        """What of it lies between two sequence numbers."""
        begin, end = max(begin, self.seq), min(end, self.end)
        payload = self.payload[begin - self.seq : end - self.seq]
        return self._replace(seq=begin, payload=payload, size=end - begin)


class Stream:
    """``next``: the sequence number that is due, counted on beyond 32 bits; None before the first segment."""

    __slots__ = ("acked", "conflicts", "fin", "held", "held_bytes", "last", "next", "retransmitted", "since", "waited")

    def __init__(self) -> None:
        self.next: int | None = None
        self.held: list[Piece] = []  # by sequence number, none overlapping another
        self.held_bytes = 0
        self.since = 0  # time of the segment that showed the hole
        self.waited = 0  # segments of the connection after it
        self.acked: int | None = None  # what the peer has acknowledged, 32 bits
        self.fin: int | None = None
        self.last: tuple[int, bytes] = (0, b"")  # what was delivered last
        self.retransmitted = self.conflicts = 0

    def place(self, seq: int) -> int:
        """A 32-bit sequence number, counted on: the one nearest to ``next``."""
        assert self.next is not None
        delta = (seq - self.next) & MASK
        return self.next + (delta - (1 << 32) if delta >= HALF else delta)

    def hold(self, piece: Piece) -> None:
        """Keep what of a piece is new."""
        assert self.next is not None
        if piece.seq < self.next:
            self.retransmitted += 1
            self._compare(piece, *self.last)
            if piece.end <= self.next:
                return
            piece = piece.part(self.next, piece.end)
        if not self.hole:
            self.since, self.waited = piece.time_us, 0
        for part in self._uncovered(piece):
            self.held.insert(bisect_left(self.held, part.seq, key=lambda held: held.seq), part)
            self.held_bytes += len(part.payload)

    def _uncovered(self, piece: Piece) -> list[Piece]:
        """The parts of a piece that are not held yet."""
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
        """Count a conflict if a piece says otherwise than bytes that are known."""
        begin, end = max(seq, piece.seq), min(seq + len(known), piece.seq + len(piece.payload))
        if begin < end and known[begin - seq : end - seq] != piece.payload[begin - piece.seq : end - piece.seq]:
            self.conflicts += 1

    def due(self) -> Piece | None:
        """The next piece in order, if it is there."""
        if not self.held or self.held[0].seq != self.next:
            return None
        piece = self.held.pop(0)
        self.held_bytes -= len(piece.payload)
        self.next = piece.end
        self.last = (piece.seq, piece.payload[:KEPT])
        return piece

    @property
    def hole(self) -> int:
        """Bytes that are missing: before what is held, or that the peer says it has."""
        if self.next is None:
            return 0
        if self.held:
            return self.held[0].seq - self.next
        if self.acked is None or self.is_done:
            return 0
        ahead = (self.acked - self.next) & MASK
        if ahead >= WINDOW:
            return 0
        return ahead if self.fin is None else min(ahead, self.fin - self.next)  # the end itself takes a number as well

    def notice(self, ack: int, time_us: int) -> bool:
        """Take in what the peer acknowledges; True if it has what was not seen here."""
        before = self.hole
        self.acked = ack
        if self.hole and not before:
            self.since, self.waited = time_us, 0
        return self.hole > 0

    def is_lost(self, now_us: int) -> bool:
        """True if the hole will not be filled: too much waits, too long, or the peer has what we have not seen."""
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
        """True if all up to the end was delivered."""
        return self.fin is not None and self.next is not None and self.next >= self.fin

    def give_up(self) -> int:
        """Go on behind the hole; the bytes that were lost."""
        lost = self.hole
        assert self.next is not None
        self.next += lost
        if self.held:
            self.since, self.waited = self.held[0].time_us, 0
        return lost
