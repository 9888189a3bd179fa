"""The conversion of segments in any order to bytes in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.capture.limits import ACKED_US, HOLE_SECONDS, MAX_HELD_SEGMENTS
from kwire.capture.tcp.stream import Piece, Stream


def stream(at: int = 100) -> Stream:
    made = Stream()
    made.next = at
    return made


def piece(seq: int, payload: bytes, time_us: int = 0) -> Piece:
    return Piece(seq, time_us, payload, len(payload), "f", 0)


def drained(s: Stream) -> bytes:
    return b"".join(iter(lambda: (p := s.due()) and p.payload, None))


@given(st.binary(min_size=1, max_size=60), st.data())
def test_any_order_any_overlap(data: bytes, draw: st.DataObject) -> None:
    s = stream(0)
    cuts = st.tuples(st.integers(0, len(data)), st.integers(0, len(data))).map(sorted)
    parts = [*draw.draw(st.lists(cuts, max_size=12)), [0, len(data)]]
    for begin, end in parts:
        if begin < end:
            s.hold(piece(begin, data[begin:end]))
    assert drained(s) == data
    assert (s.conflicts, s.held_bytes) == (0, 0)


def test_the_first_copy_counts() -> None:
    s = stream()
    s.hold(piece(104, b"BBBB"))
    s.hold(piece(100, b"aaaaaaaaaa"))
    assert drained(s) == b"aaaaBBBBaa"
    assert s.conflicts == 1
    s.hold(piece(107, b"?a??"))
    assert drained(s) == b"?"
    assert s.conflicts == 2  # only the last delivered piece is known
    s.hold(piece(109, b"x"))
    assert (drained(s), s.retransmitted) == (b"", 3)


def test_sequence_numbers_extend_beyond_32_bits() -> None:
    s = stream(2**32 - 10)
    assert s.place(5) == 2**32 + 5
    assert s.place(2**32 - 20) == 2**32 - 20
    s.next = 2**40 + 7
    assert s.place((2**40 + 9) % 2**32) == 2**40 + 9


def test_when_a_hole_is_lost() -> None:
    s = stream()
    s.hold(piece(110, b"x", 1_000))
    assert s.gap == 10
    assert not s.is_lost(1_000 + ACKED_US + 1)  # the peer has not acknowledged the missing bytes
    assert s.is_lost(1_000 + HOLE_SECONDS * 1_000_000 + 1)
    s.acked = 109
    assert not s.is_lost(1_000 + ACKED_US + 1)
    s.acked = 110
    assert s.is_lost(1_000 + ACKED_US + 1)
    assert not s.is_lost(2_000)
    assert s.give_up() == 10
    assert drained(s) == b"x"


def test_buffered_segments_are_bounded() -> None:
    s = stream()
    for n in range(MAX_HELD_SEGMENTS + 1):
        s.hold(piece(200 + 2 * n, b"x"))
    assert s.is_lost(0)
