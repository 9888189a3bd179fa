"""The lines of a frame log. The native engine writes the same lines as Python."""

from __future__ import annotations

import json
from binascii import unhexlify
from random import Random

import pytest

from kwire.engines.native import package
from kwire.frames import pack
from kwire.recording import FrameLog
from kwire.recording import frame_log as module

AT = 1_700_000_000_123_456
NATIVE = getattr(package(), "frame_lines", None)
needs_native = pytest.mark.skipif(NATIVE is None, reason="kwire-native is not installed")


def opened() -> FrameLog:
    log = FrameLog()
    log.opened(7, "10.0.0.1:5", '"name":9092', AT)
    return log


def pieces_of(random: Random, data: bytes) -> list[bytes]:
    pieces, at = [], 0
    while at < len(data):
        pieces.append(data[at : at + random.choice([1, 3, 200, 5_000])])
        at += len(pieces[-1])
    return pieces


def test_a_line_has_the_connection_and_the_frame() -> None:
    [line] = b"".join(opened().frames(7, False, [pack(b"\x00\x9f\xff")], AT)).splitlines()
    assert json.loads(line) == {
        "time_us": AT,
        "connection": "7",
        "client": "10.0.0.1:5",
        "broker": '"name":9092',
        "direction": "response",
        "hex": "009fff",
    }


@needs_native
@pytest.mark.parametrize("seed", range(20))
def test_native_lines_are_those_of_python(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "native_lines", lambda: NATIVE)
    random, log = Random(seed), opened()
    frames = [random.randbytes(random.choice([random.randrange(70), 256, 1_000])) for _ in range(random.randint(1, 9))]
    expected = b"".join(log.frame(7, True, frame, AT) for frame in frames)
    memory = memoryview(bytearray(len(expected) + 1))
    pieces = pieces_of(random, b"".join(map(pack, frames)))
    assert log.write_frames(7, True, pieces, AT, memory[:-2]) == len(expected)
    assert not any(memory)
    assert log.write_frames(7, True, pieces, AT, memory) == len(expected)
    assert bytes(memory) == expected + b"\0"


@needs_native
@pytest.mark.parametrize("data", [[b"\0\0"], [b"\0\0\0\4", b"abc"]], ids=["length prefix", "frame"])
def test_the_native_writer_rejects_an_incomplete_frame(data: list[bytes]) -> None:
    assert NATIVE is not None
    with pytest.raises(ValueError, match="incomplete"):
        NATIVE(b"", data, memoryview(bytearray(100)))


def test_every_byte_has_two_digits() -> None:
    frame = bytes(range(256))
    [line] = b"".join(opened().frames(7, True, [pack(frame)], AT)).splitlines()
    assert unhexlify(json.loads(line)["hex"]) == frame


@needs_native
@pytest.mark.parametrize("engine", ["compiled", "native"])
def test_lines_are_native_if_the_engine_is(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.engines.chosen.DEFAULT", engine)
    assert FrameLog().has_native_lines == (engine == "native")
