from __future__ import annotations

import sys
import tracemalloc
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire import buffers, frames
from kwire.errors import FrameError
from kwire.frames import AHEAD, MAX_FRAME, RESERVING, FrameBuffer, pack

FRAMES = st.lists(st.binary(max_size=20), max_size=8)


def drain(buffer: FrameBuffer) -> list[bytes]:
    results = []
    while (frame := buffer.next_frame()) is not None:
        results.append(frame)
    return results


@given(frames=FRAMES, data=st.data())
def test_splits_make_no_difference(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(pack, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    for chunks in ([stream], pieces, [stream[at : at + 1] for at in range(len(stream))]):
        buffer, found = FrameBuffer(), []
        for chunk in chunks:
            buffer.feed(chunk)
            found += drain(buffer)
        assert found == frames
        assert len(buffer) == 0


@given(frames=FRAMES, tail=st.binary(min_size=1, max_size=3))
def test_incomplete_frame_stays_in_the_buffer(frames: list[bytes], tail: bytes) -> None:
    buffer = FrameBuffer()
    buffer.feed(b"".join(map(pack, frames)) + tail)
    assert drain(buffer) == frames
    assert len(buffer) == len(tail)


COMPLAINTS = [
    (b"\xff\xff\xff\xff", "frame length -1 is negative (first bytes ff ff ff ff)"),
    (b"\x80\x00\x00\x00", "frame length -2147483648 is negative (first bytes 80 00 00 00)"),
    (b"\x7f\xff\xff\xff", "frame length 2147483647 is above the limit of 104857600 bytes (first bytes 7f ff ff ff)"),
    (b"\x06\x40\x00\x01", "frame length 104857601 is above the limit of 104857600 bytes (first bytes 06 40 00 01)"),
    (b"GET / HTTP/1.1\r\n", "; this looks like an HTTP request (first bytes 47 45 54 20"),
    (b"POST /", "; this looks like an HTTP request"),
    (b"HTTP/1.1 400", "; this looks like an HTTP response"),
    (b"PRI * HTTP/2.0", "; this looks like an HTTP/2 connection"),
    (b"SSH-2.0-x", "; this looks like an SSH client"),
    (b"\x16\x03\x01\x02\x00\x01", "; this looks like a TLS handshake"),
    (b"PROXY TCP4", "; this looks like a PROXY protocol header"),
]


@pytest.mark.parametrize(("data", "text"), COMPLAINTS)
def test_no_frame(data: bytes, text: str) -> None:
    buffer = FrameBuffer()
    buffer.feed(data)
    with pytest.raises(FrameError) as caught:
        buffer.next_frame()
    assert text in str(caught.value)


def test_the_limit_is_still_a_frame() -> None:
    buffer = FrameBuffer(limit=4)
    buffer.feed(pack(b"1234") + pack(b"12345"))
    assert buffer.next_frame() == b"1234"
    with pytest.raises(FrameError, match="frame length 5 is above the limit of 4"):
        buffer.next_frame()


def test_an_empty_frame() -> None:
    buffer = FrameBuffer()
    buffer.feed(bytes(8))
    assert drain(buffer) == [b"", b""]


def test_a_promise_costs_no_memory() -> None:
    tracemalloc.start()
    buffer = FrameBuffer()
    buffer.feed(MAX_FRAME.to_bytes(4, "big") + b"begun")
    assert buffer.next_frame() is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000


def test_taken_frames_are_let_go() -> None:
    buffer = FrameBuffer()
    for _ in range(1000):
        buffer.feed(pack(bytes(1000)))
        assert buffer.next_frame() == bytes(1000)
    assert len(buffer) == 0
    assert len(buffer._data) < 3000


@pytest.mark.parametrize("begun", [2, 5], ids=["part of the prefix", "prefix and a byte"])
def test_the_begin_of_a_frame_keeps_no_buffer_of_those_before(begun: int) -> None:
    buffer, following = FrameBuffer(), pack(b"next")
    buffer.feed(pack(bytes(60_000)) + following[:begun])
    assert buffer.next_frame() == bytes(60_000)
    assert buffer.next_frame() is None
    assert sys.getsizeof(buffer._data) < 100
    buffer.feed(following[begun:])
    assert buffer.next_frame() == b"next"


def test_bytes_after_a_complete_large_frame() -> None:
    buffer, frames = FrameBuffer(), [bytes(5_000), b"next", bytes(9_000)]
    for frame in frames:  # none is taken before all were received
        buffer.feed(pack(frame))
    assert drain(buffer) == frames


@pytest.mark.parametrize("size", [10, 5_000])
def test_prefix_after_a_frame_is_received_in_parts(size: int) -> None:
    buffer = FrameBuffer()
    buffer.feed(pack(bytes(size)) + b"\0\0")
    assert buffer.next_frame() == bytes(size)
    buffer.feed(b"\0\3ab")
    assert buffer.next_frame() is None
    buffer.feed(b"c")
    assert drain(buffer) == [b"abc"]


def test_complete_counts_from_the_next_frame() -> None:
    buffer = FrameBuffer()
    buffer.feed(pack(b"abc") + b"\0\0")
    assert buffer.next_frame() == b"abc"
    assert not buffer.complete
    buffer.feed(b"\0\2a")
    assert not buffer.complete
    buffer.feed(b"b")
    assert buffer.complete


@pytest.mark.parametrize("piece", [1_000, 4_097, 50_000])
def test_large_frame_in_many_chunks(piece: int) -> None:
    frames = [bytes([number]) * size for number, size in enumerate([100_000, 0, 5_000, 70_000, 3, 200_000])]
    stream = b"".join(map(pack, frames))
    buffer, found, fed = FrameBuffer(), list[bytes](), 0
    for at in range(0, len(stream), piece):
        buffer.feed(stream[at : at + piece])
        fed += len(stream[at : at + piece])
        assert len(buffer) == fed - sum(len(frame) + 4 for frame in found)
        if at % 3:  # others stay until more has come
            found += drain(buffer)
            assert not buffer.complete
    assert found + drain(buffer) == frames
    assert len(buffer) == 0


def test_large_frame_is_not_copied_when_it_is_complete() -> None:
    buffer = FrameBuffer()
    data = pack(bytes(8_000_000))
    tracemalloc.start()
    for at in range(0, len(data), 65_536):
        buffer.feed(data[at : at + 65_536])
    frame = buffer.next_frame()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert frame == data[4:]
    assert peak < 1.5 * len(data)


@pytest.mark.parametrize("more", [b"", pack(b"next")], ids=["alone", "with the next frame"])
def test_large_frame_is_collected_with_short_copies(monkeypatch: pytest.MonkeyPatch, more: bytes) -> None:
    written: list[int] = []

    class Counted(BytesIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            written.append(super().write(data))
            return written[-1]

    for module in (frames, buffers):
        monkeypatch.setattr(module, "BytesIO", Counted)
    content = bytes(range(256)) * (5 * RESERVING // 256)
    buffer, data = FrameBuffer(), pack(content) + more
    for at in range(0, len(data), 65_536):
        buffer.feed(data[at : at + 65_536])
    assert drain(buffer) == ([content, b"next"] if more else [content])
    assert max(written) <= len(content) // AHEAD
    assert sum(written) < 1.2 * len(content)


@pytest.mark.parametrize(
    ("data", "complete"),
    [
        (b"", False),
        (b"\0\0\0", False),
        (b"\0\0\0\3ab", False),
        (b"\0\0\0\3abc", True),
        (b"\0\0\0\0", True),
        (b"\0\0\0\3abc\0", True),
        (b"\xff\xff\xff\xff", True),
        (b"\0\0\0\x64", False),
        (b"\0\0\0\x65", True),
    ],
    ids=["none", "prefix", "part", "whole", "empty", "more", "negative", "at the limit", "above the limit"],
)
def test_complete_is_true_for_a_whole_frame(data: bytes, complete: bool) -> None:
    frames = FrameBuffer(limit=100)
    assert frames.feed(data) == complete
    assert frames.complete == complete
    try:
        result = frames.next_frame() is not None
    except FrameError:
        result = True
    assert result == complete


@pytest.mark.parametrize(("held", "collected"), [(4_096, False), (4_097, True)])
def test_only_frames_above_4096_bytes_are_collected(
    monkeypatch: pytest.MonkeyPatch, held: int, collected: bool
) -> None:
    streams: list[BytesIO] = []
    monkeypatch.setattr(frames, "BytesIO", lambda: streams.append(BytesIO()) or streams[-1])
    buffer, data = FrameBuffer(), pack(bytes(10_000))
    buffer.feed(data[:held])
    buffer.feed(data[held:])
    assert bool(streams) is collected
    assert drain(buffer) == [bytes(10_000)]


@pytest.mark.parametrize(("size", "reserved"), [(4 << 20, False), ((4 << 20) + 1, True)])
def test_only_frames_above_4_mib_are_reserved_ahead(monkeypatch: pytest.MonkeyPatch, size: int, reserved: bool) -> None:
    streams: list[BytesIO] = []
    monkeypatch.setattr(frames, "reserve", lambda size: streams.append(buffers.reserve(size)) or streams[-1])
    content = b"x" * size
    buffer, data = FrameBuffer(), pack(content)
    for at in range(0, len(data), 1 << 20):
        buffer.feed(data[at : at + (1 << 20)])
    assert bool(streams) is reserved
    assert drain(buffer) == [content]
    assert not reserved or streams[-1].getvalue() == content


def test_rest_of_a_chunk_does_not_keep_the_frames_before_it() -> None:
    buffer = FrameBuffer()
    buffer.feed(pack(bytes(1_000)) + pack(b"next")[:6])
    assert buffer.next_frame() == bytes(1_000)
    assert buffer.next_frame() is None
    assert len(buffer._data) == len(buffer) == 6


def test_returned_frames_are_removed_before_more_bytes_follow() -> None:
    buffer, large = FrameBuffer(), b"y" * 5_000
    buffer.feed(pack(b"first") + pack(large))
    assert buffer.next_frame() == b"first"
    buffer.feed(pack(b"last"))
    assert drain(buffer) == [large, b"last"]


@pytest.mark.parametrize(("more", "reserved"), [(0, 1 << 20), (1, 8 << 20)])
def test_least_sufficient_part_of_a_frame_is_reserved(
    monkeypatch: pytest.MonkeyPatch, more: int, reserved: int
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(frames, "reserve", lambda size: sizes.append(size) or buffers.reserve(size))
    buffer, data = FrameBuffer(), pack(bytes(8 << 20))
    end = 4 + (1 << 20) + more
    buffer.feed(data[:end])
    buffer.feed(b"")
    assert sizes == [reserved]
    buffer.feed(data[end:])
    assert drain(buffer) == [data[4:]]


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_memory_of_received_bytes_may_be_used_again(kind: type) -> None:
    buffer, memory = FrameBuffer(), bytearray(6)
    for chunk in (b"\0\0\0\4AB", b"CD\0\0\0\1", b"E"):
        memory[: len(chunk)] = chunk
        received = memory if kind is bytearray and len(chunk) == len(memory) else kind(memory)[: len(chunk)]
        buffer.feed(received)
        if kind is bytearray:
            assert memory[: len(chunk)] == chunk
    assert drain(buffer) == [b"ABCD", b"E"]


def test_text_is_not_received() -> None:
    buffer = FrameBuffer()
    with pytest.raises(TypeError, match="data must be bytes, bytearray or memoryview, got str"):
        buffer.feed("\0\0\0\1a")  # type: ignore[arg-type]
    assert len(buffer) == 0
