"""The recorder of files: an observer that encodes the traffic into chunks of memory, which a thread writes."""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kwire.recording import FrameLog, PcapngFile, RecordingWriter
from mockbroker.proxy.observer import Connection, Moment
from mockbroker.recording.alignment import FrameAligner
from mockbroker.recording.recorder import Event, Frame, Opened, Recorder, us
from mockbroker.recording.rotation import Limits, Rotation

CHUNK = 4 * 1024 * 1024  # bytes
ALIGNMENT = mmap.PAGESIZE
BATCH = 16 * 1024  # bytes of frames that are encoded together, which takes less time than one at a time
MAX_INCOMPLETE = 128 * 1024 * 1024  # bytes of incomplete frames; the largest possible frame has 100 MiB


@dataclass(slots=True)
class Chunk:
    """Bytes to append to a file.

    The position of a byte in the memory and its position in the file differ by a multiple of ``ALIGNMENT``, as direct
    I/O requires.

    Attributes:
        memory: the memory with the bytes.
        begin: index of the first byte.
        path: path of the file.
        end: index after the last byte.
    """

    memory: mmap.mmap
    begin: int
    path: Path
    end: int = 0


def new_memory() -> mmap.mmap:
    """Return memory for a chunk, if possible in huge pages: they cost less CPU time to fill and to write."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):  # Linux alone has it
        return mmap.mmap(-1, CHUNK)
    memory = mmap.mmap(-1, CHUNK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class ChunkRecorder(Recorder):
    """An observer that encodes frames, usually several at a time, and appends them to a chunk.

    The recording of a connection also ends if it would need complete frames, and the incomplete frames of all
    connections would exceed the limit MAX_INCOMPLETE.

    A full chunk is passed on to be written. The memory of chunks is reused, because new memory from the operating
    system costs more CPU time than the encoding.

    Args:
        path: path of the first file.
        writer: writer of the recording's format.
        limits: conditions under which the next file begins. A frame is never divided between two files.
        arrived: function that is called when bytes are appended to an empty chunk.
        put: function that gets each chunk to write. When the chunk is written, ``release`` must be called.
    """

    gets_bytes = True

    def __init__(
        self,
        path: Path,
        writer: RecordingWriter,
        limits: Limits,
        arrived: Callable[[], object],
        put: Callable[[Chunk], object],
    ) -> None:
        super().__init__()
        self._writer = writer
        self._arrived = arrived
        self._put = put
        self._aligner = FrameAligner()
        self._rotation = Rotation(path, limits)
        self._is_limited = limits != Limits()
        self._aligns = self._is_limited or writer.needs_complete_frames
        self._packets = writer if isinstance(writer, PcapngFile) and not self._aligns else None
        self._lines = writer if isinstance(writer, FrameLog) and writer.has_native_lines else None
        self._lent_from: memoryview  # unused memory of the current chunk; ``lend`` and ``filled`` use it
        self._lent: Sequence[memoryview]  # parts of it
        self._pending: list[tuple[int, bool, Sequence[bytes], Moment]] = []  # frames that are not encoded yet
        self._pending_size = 0  # their bytes
        self._batch = 0 if self._is_limited else BATCH
        self._free: deque[mmap.mmap] = deque()
        self._passed_on = 0  # bytes of all chunks that were put
        self._written = 0  # of these, the bytes that were written; only ``release`` changes it, in another thread
        self._chunk: Chunk
        self._room: int  # bytes for which the current chunk has room
        self._is_empty: bool  # whether the current chunk has no bytes, and no frames are pending
        self._write: Callable[[bytes | memoryview], int]
        self._begin_chunk(0)
        self._write_all([writer.begin()])

    @property
    def waiting(self) -> int:
        return self._passed_on - self._written + CHUNK - self._chunk.begin - self._room + self._pending_size

    def add(self, event: Event) -> None:
        number, time_us = event.connection, event.time_us
        self._encode()
        match event:
            case Frame():
                data = self._writer.frame(number, event.to_broker, event.frame, time_us)
            case Opened():
                data = self._writer.opened(number, event.client, event.broker, time_us)
            case _:
                self._aligner.forget(number)
                data = self._writer.closed(number, time_us)
        self._append([data], time_us)

    def passed(self, connection: Connection, to_broker: bool, data: bytes, at: Moment, *, ends_frame: bool) -> None:
        number, size = connection.number, len(data)
        if self._pending and size < BATCH:  # there was room when the batch began
            if number not in self._recorded:
                return
        elif not self._accepts(connection, size, at):
            return
        frames = [data]
        if self._aligns:
            frames = self._aligner.complete(number, to_broker, data, ends_frame=ends_frame)
            if self._aligner.size > MAX_INCOMPLETE:
                self._drop(connection, at)
                return
        if frames:
            if not self._pending:
                self._begin_writing()
            self._pending.append((number, to_broker, frames, at))
            self._pending_size += size
            if self._pending_size >= self._batch:
                self._encode()

    def lend(self, connection: Connection, to_broker: bool, size: int) -> Sequence[memoryview]:  # noqa: ARG002
        if self._packets is None or connection.number not in self._recorded or not self._has_room(CHUNK):
            return ()
        self._encode()
        if not self._room:
            self._pass_on()
            self._begin_chunk(0)
        self._lent_from = memoryview(self._chunk.memory)[CHUNK - self._room :]
        self._lent = self._packets.spaces(connection.number, self._lent_from, size)
        return self._lent

    def filled(self, connection: Connection, to_broker: bool, size: int, at: Moment) -> None:
        assert self._packets is not None
        time_us = us(at)
        added = self._packets.complete(connection.number, to_broker, self._lent_from, self._lent, size, time_us)
        self._begin_writing()
        self._room -= added
        self._chunk.memory.seek(added, os.SEEK_CUR)

    def flush(self) -> None:
        """Pass the current chunk on to be written, if it has bytes."""
        self._encode()
        self._flush_chunk()

    def release(self, chunk: Chunk) -> None:
        """Use the memory of a chunk again. This method may be called in another thread.

        ``chunk``: a chunk that was written.
        """
        self._free.append(chunk.memory)
        self._written += chunk.end - chunk.begin

    def _encode(self) -> None:
        """Append the pending frames to the recording."""
        pending, self._pending, self._pending_size = self._pending, [], 0
        for number, to_broker, frames, at in pending:
            time_us = us(at)
            if self._lines is None:
                self._append(self._writer.frames(number, to_broker, frames, time_us), time_us)
            else:
                self._write_lines(self._lines, number, to_broker, frames, time_us)

    def _flush_chunk(self) -> None:
        if not self._is_empty:
            self._pass_on()
            self._begin_chunk(self._chunk.end % ALIGNMENT)

    def _write_lines(
        self, log: FrameLog, connection: int, to_broker: bool, frames: Sequence[bytes], time_us: int
    ) -> None:
        """Let the writer of a frame log write lines into the memory of a chunk, in the next file if the current one is
        full.

        Args:
            log: the writer.
            connection: number of the connection.
            to_broker: True for requests, False for responses.
            frames: buffers with complete frames.
            time_us: time of the frames, in microseconds since 1970.
        """
        self._begin_next_file_if_full(time_us)
        room = memoryview(self._chunk.memory)[CHUNK - self._room :]
        size = log.write_frames(connection, to_broker, frames, time_us, room)
        self._rotation.size += size
        if size > CHUNK - ALIGNMENT:  # more than a new chunk has
            lines = memoryview(bytearray(size))
            log.write_frames(connection, to_broker, frames, time_us, lines)
            self._write_all([lines])
            return
        if size > self._room:
            self._flush_chunk()
            room = memoryview(self._chunk.memory)[CHUNK - self._room :]
            log.write_frames(connection, to_broker, frames, time_us, room)
        self._begin_writing()
        self._room -= size
        self._chunk.memory.seek(size, os.SEEK_CUR)

    def _append(self, buffers: Sequence[bytes | memoryview], time_us: int) -> None:
        """Append an encoded event to the recording, in the next file if the current one is full.

        Args:
            buffers: the bytes.
            time_us: time of the event, in microseconds since 1970.
        """
        self._begin_next_file_if_full(time_us)
        if self._is_limited:
            self._rotation.size += sum(map(len, buffers))
        self._write_all(buffers)

    def _begin_next_file_if_full(self, time_us: int) -> None:
        """Begin the next file if the current one has reached a limit.

        ``time_us``: time of the next event, in microseconds since 1970.
        """
        if self._is_limited and self._rotation.is_full(time_us):
            self._rotation.begin_next(time_us)
            self._pass_on()
            self._begin_chunk(0)
            beginning = self._writer.begin()
            self._rotation.size += len(beginning)
            self._write_all([beginning])

    def _write_all(self, buffers: Sequence[bytes | memoryview]) -> None:
        self._begin_writing()
        for data in buffers:
            size = len(data)
            while size > self._room:
                view = memoryview(data)
                data, size = view[self._room :], size - self._room
                self._write(view[: self._room])
                self._room = 0
                self._pass_on()
                self._begin_chunk(0)
                self._is_empty = False
            self._room -= size
            self._write(data)

    def _begin_writing(self) -> None:
        if self._is_empty:
            self._is_empty = False
            self._arrived()

    def _pass_on(self) -> None:
        chunk = self._chunk
        chunk.end = CHUNK - self._room
        self._passed_on += chunk.end - chunk.begin
        self._put(chunk)

    def _begin_chunk(self, begin: int) -> None:
        memory = self._free.pop() if self._free else new_memory()
        memory.seek(begin)
        self._chunk = Chunk(memory, begin, self._rotation.path)
        self._room = CHUNK - begin
        self._is_empty = True
        self._write = memory.write
