"""The conversion of ordered bytes with holes to frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tools.pcap import prefixed

from kwire.capture.calls.framing import SEARCH, SYNC, Framer
from kwire.capture.limits import HEAD


class Listener:
    """An owner that records its calls; a frame is valid if its length is in it twice."""

    def __init__(self, passed: bool = False) -> None:
        self.passed = passed
        self.frames: list[bytes] = []
        self.partials: list[tuple[int, int, str | None]] = []
        self.lost = 0
        self.searched_bytes = 0

    def request(self, frame: bytes, framer: Framer) -> bool:
        self.frames.append(frame)
        return True

    response = request

    def partial(self, is_request: bool, head: bytes, size: int, why: str | None, framer: Framer) -> None:
        self.partials.append((len(head), size, why))

    @property
    def checks(self) -> Listener:
        return self

    def is_size(self, is_request: bool, size: int) -> bool:
        return 0 <= size <= 2**21

    def skip_reason(self, is_request: bool, head: bytes, size: int) -> tuple[bool, str | None]:
        return self.passed, None

    def places(self, is_request: bool, data: bytes) -> list[int]:
        self.searched_bytes += len(data)
        at = data.find(b"good", 4)
        return [at - 4] if at >= 4 else []

    def is_frame(self, is_request: bool, frame: bytes) -> bool:
        return frame[4:].startswith(b"good")

    def may_follow(self, is_request: bool, head: bytes) -> bool:
        return True

    def is_chain(self, data: bytes) -> bool:
        return False

    def strayed(self, is_request: bool) -> None: ...

    def lost_track(self, is_request: bool) -> None:
        self.lost += 1

    def found_again(self, is_request: bool) -> None: ...
    def searched(self, is_request: bool, size: int) -> None: ...


def fed(parts: list[bytes], listener: Listener, mode: int = SYNC) -> Framer:
    framer = Framer(True, mode)
    for part in parts:
        framer.data(listener, part, "f", 0)
    return framer


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(1, 50))
def test_however_bytes_come(frames: list[bytes], step: int) -> None:
    data = b"".join(map(prefixed, frames))
    listener = Listener()
    fed([data[at : at + step] for at in range(0, len(data), step)], listener)
    assert listener.frames == list(map(prefixed, frames))


def test_unrequested_frames_are_skipped() -> None:
    listener = Listener(passed=True)
    data = prefixed(b"x" * 100_000) + prefixed(b"good")
    framer = fed([data[at : at + 1_000] for at in range(0, len(data), 1_000)], listener)
    assert listener.partials == [(HEAD, 100_000, None)]
    assert listener.frames == [prefixed(b"good")]
    assert framer.held == 0


def test_holes() -> None:
    listener = Listener()
    framer = fed([prefixed(b"x" * 100)[:50]], listener)
    framer.lost(listener, 54)
    framer.data(listener, prefixed(b"one"), "f", 0)
    framer.data(listener, prefixed(b"two")[:5], "f", 0)
    assert listener.lost == 0  # all of the hole was in a frame
    framer.lost(listener, 20)
    assert (framer.mode, listener.lost) == (SEARCH, 1)
    framer.data(listener, b"rest of it" + prefixed(b"good morning"), "f", 0)
    assert listener.frames == [prefixed(b"one"), prefixed(b"good morning")]
    assert listener.partials == [(50, 100, "incomplete"), (5, 3, "incomplete")]


def test_a_search_keeps_little() -> None:
    listener = Listener()
    framer = fed([b"x" * 100_000] * 30, listener, SEARCH)
    assert framer.held < 100
    framer.data(listener, prefixed(b"good morning"), "f", 0)
    assert listener.frames == [prefixed(b"good morning")]


def test_each_byte_is_searched_once() -> None:
    """A large frame may begin in the buffer, and its remaining bytes arrive in many segments."""
    listener = Listener()
    data = b"junk" + prefixed(b"good" + b"x" * 20_000)
    fed([data[:10_000], *(data[at : at + 10] for at in range(10_000, len(data), 10))], listener, SEARCH)
    assert listener.frames == [data[4:]]
    assert listener.searched_bytes < 3 * len(data)  # and up to TAIL bytes before each segment again
