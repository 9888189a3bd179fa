"""The fuzz target ``frame_records``: kwire-native makes the records of a recording in a topic that Python makes."""

from __future__ import annotations

from typing import Any

from native_frame_log import frames_of
from native_pieces import Pieces

from kwire.engines.chosen import native_package
from kwire.frames import pack
from kwire.recording.frame_records import HEAD, FrameRecords

TO_BROKER, WITH_LENGTHS, ONLY_API = 1, 2, 4  # bits of the flags of a step
MOST = 8  # requests that may wait
NUMBERS = (0, 1, 62, 63, 64, 8_190, 8_191, 8_192, 1_048_575, 1_048_576, 134_217_727, 134_217_728, 2**31 - 1)
NATIVE: Any = getattr(native_package(), "FrameRecords", None)


def frame_records(data: bytes) -> None:
    """Check that the native records of a connection's frames, and the API of each frame, are those of Python.

    ``data``: number of requests that may wait; attributes and timestamp, key, and headers, each after its size in one
    byte; then steps. A step has flags, the size of the buffers in bytes (0 for one for each piece), the number of the
    first record in NUMBERS, and the number of pieces, each after its size in two bytes. With WITH_LENGTHS, each piece
    is a frame (its length prefix is added). With ONLY_API, only the API of a frame is requested: the first piece is the
    frame, and it is in no record.
    """
    pieces = Pieces(data)
    most = 1 + pieces.take(1)[0] % MOST
    start, key, headers = (pieces.take(pieces.take(1)[0] % 32) for _ in range(3))
    both = NATIVE(most), FrameRecords(most)
    while pieces.rest:
        flags, size, number, count = pieces.take(4)
        to_broker = bool(flags & TO_BROKER)
        buffers = []
        for _ in range(count % 8):
            piece = pieces.rest[2 : 2 + int.from_bytes(pieces.take(2), "big")]
            pieces.take(len(piece))
            buffers.append(pack(piece) if flags & WITH_LENGTHS else piece)
        whole = b"".join(buffers)
        if flags & ONLY_API:
            apis = [each.api(to_broker, whole[: HEAD.size]) for each in both]
            assert apis[0] == apis[1], apis
            continue
        if size:
            buffers = [whole[at : at + size] for at in range(0, len(whole), size)]
        first = NUMBERS[number % len(NUMBERS)]
        frames = frames_of(whole)
        if frames is None:
            assert _rejected(both[0], to_broker, buffers, start, key, headers, first) == "the last frame is incomplete"
            return
        if buffers:
            made = [each.records(to_broker, buffers, start, key, headers, first) for each in both]
            assert made[0] == made[1], made
            assert made[0][1] == len(frames), made


def _rejected(records: Any, *given: Any) -> str | None:
    """Return the text of the error for an incomplete frame; None if there is no error."""
    try:
        records.records(*given)
    except ValueError as error:
        return str(error)
    return None
