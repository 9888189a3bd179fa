"""The fuzz target ``frame_log``: kwire-native writes the lines of a frame log that Python writes."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from native_pieces import Pieces

from kwire.frames import pack
from kwire.recording import FrameLog

NUMBER = 7  # of the connection
MARK = 0xA5  # each byte of the unused memory
AFTER = 8  # bytes of memory after the lines, in some inputs
PREFIX = 4  # bytes of a length prefix


class Memory(IntEnum):
    """The kinds of memory.

    Attributes:
        EXACT: as large as the lines.
        MORE: larger.
        SHORT: one byte smaller.
        NONE: of no bytes.
        FIXED: memory that cannot be written.
        STRIDED: every second byte.
    """

    EXACT = 0
    MORE = 1
    SHORT = 2
    NONE = 3
    FIXED = 4
    STRIDED = 5


def frame_log(data: bytes) -> None:
    """Check that the native writer writes the lines of Python, returns their size, and rejects incomplete frames.

    ``data``: flags, kind of the memory (see Memory), size of the buffers in bytes, client, broker, the time as eight
    bytes, and pieces of the content, each after its size in two bytes. Flags: 1 for requests, 2 if each piece is a
    frame (its length prefix is added). The buffers contain the pieces joined together; with size 0, each piece is a
    buffer.
    """
    pieces = Pieces(data)
    flags, number, size = pieces.take(3)
    client, broker, time_us = pieces.text() or "", pieces.text() or "", pieces.number(8) or 0
    buffers = []
    while pieces.rest:
        piece = pieces.rest[2 : 2 + int.from_bytes(pieces.take(2), "big")]
        pieces.take(len(piece))
        buffers.append(pack(piece) if flags & 2 else piece)
    whole = b"".join(buffers)
    if size:
        buffers = [whole[at : at + size] for at in range(0, len(whole), size)]
    log, to_broker = FrameLog(), bool(flags & 1)
    log.opened(NUMBER, client, broker, time_us)
    frames = frames_of(whole)
    if frames is None:
        memory = memoryview(bytearray([MARK]) * (3 * len(whole)))
        assert _written(log, to_broker, buffers, time_us, memory) == (ValueError, "the last frame is incomplete")
        assert set(memory) <= {MARK}, bytes(memory)
        return
    lines = b"".join(log.frame(NUMBER, to_broker, frame, time_us) for frame in frames)
    if buffers:
        several = b"".join(log.frames(NUMBER, to_broker, buffers, time_us))
        assert several == (lines if frames else several), (several, lines)
    kind = Memory(number % len(Memory))
    memory, content = memory_of(kind, len(lines))
    found = _written(log, to_broker, buffers, time_us, memory)
    if kind in (Memory.FIXED, Memory.STRIDED):
        assert found == (TypeError, "the memory is not writable"), found
    else:
        assert found == len(lines), (found, len(lines))
    unused = bytes([MARK]) * len(content)
    expected = lines + unused[len(lines) :] if found == len(lines) <= len(memory) else unused
    assert content == expected, (bytes(content), expected)


def frames_of(data: bytes) -> list[bytes] | None:
    """Return the frames in received bytes, without their length prefixes; None if the last frame is incomplete."""
    frames, at = [], 0
    while at < len(data):
        begin = at + PREFIX
        at = begin + int.from_bytes(data[at:begin], "big")
        if max(begin, at) > len(data):
            return None
        frames.append(data[begin:at])
    return frames


def memory_of(kind: Memory, size: int) -> tuple[memoryview, bytearray]:
    """Return memory for lines, and the bytes that it is a part of, all of which are MARK.

    Args:
        kind: kind of the memory.
        size: size of the lines, in bytes.
    """
    content = bytearray([MARK]) * (2 * (size + AFTER))
    view = memoryview(content)
    match kind:
        case Memory.MORE:
            return view[: size + AFTER], content
        case Memory.SHORT:
            return view[: max(0, size - 1)], content
        case Memory.NONE:
            return view[:0], content
        case Memory.FIXED:
            return view[:size].toreadonly(), content
        case Memory.STRIDED:
            return view[::2], content
        case _:
            return view[:size], content


def _written(log: FrameLog, to_broker: bool, buffers: list[bytes], time_us: int, memory: memoryview) -> Any:
    """Return the result of the native writer; else the type and the text of its exception."""
    try:
        return log.write_frames(NUMBER, to_broker, buffers, time_us, memory)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
