"""The task and the thread that write a recording to files."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import trio

from kwire.recording import RecordingWriter
from mockbroker.recording.chunks import ALIGNMENT, Chunk, ChunkRecorder
from mockbroker.recording.rotation import Limits

log = logging.getLogger("mockbroker")

INTERVAL = 0.1  # seconds between two writes; events of the last interval are lost if the process is killed
PRIVATE = 0o600
BINARY = getattr(os, "O_BINARY", 0)  # Windows alone has it
DIRECT = getattr(os, "O_DIRECT", 0)  # Linux alone has it
NOT_PERMITTED = (errno.EINVAL, errno.EOPNOTSUPP)  # errors of file systems that do not permit direct writes
DIRECT_SIZE = 256 * 1024  # bytes from which a direct write is used


class RecordingFiles:
    """A recording in files that only their owner can read.

    Bytes are only appended, so the files can be read at any time, also after the process was killed; the last frame may
    be incomplete then. If a write fails, an error is logged, and the recording ends.

    Args:
        path: path of the first file; an existing file is replaced.
        writer: writer of the recording's format.
        limits: conditions under which the next file begins.

    Attributes:
        recorder: the observer to pass to the proxy.

    Raises: OSError if the file cannot be created.
    """

    def __init__(self, path: Path, writer: RecordingWriter, limits: Limits) -> None:
        self._arrived = trio.Event()
        self._chunks: SimpleQueue[Chunk | None] = SimpleQueue()
        self._file = AppendedFile(path)
        self._has_failed = False
        self.recorder = ChunkRecorder(path, writer, limits, lambda: self._arrived.set(), self._chunks.put)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write events as they arrive while the block runs. At the end, write the remaining events, and close the file.

        If connections were not recorded completely, their number is logged.
        """
        thread = Thread(target=self._write_chunks, name="recording")
        thread.start()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._flush_at_intervals)
                yield
                nursery.cancel_scope.cancel()
        finally:
            self.recorder.flush()
            self._chunks.put(None)
            thread.join()
            self._file.close()
            if self.recorder.dropped:
                log.warning("%d connections were not recorded completely", self.recorder.dropped)

    async def _flush_at_intervals(self) -> None:
        while True:
            await self._arrived.wait()
            await trio.sleep(INTERVAL)
            self._arrived = trio.Event()
            self.recorder.flush()

    def _write_chunks(self) -> None:
        """Write chunks until the queue has None; this is the work of the thread."""
        while (chunk := self._chunks.get()) is not None:
            if not self._has_failed:
                try:
                    self._write(chunk)
                except OSError as error:
                    self._has_failed = True
                    log.error("the recording has ended: cannot write %s: %s", chunk.path, error.strerror)
            self.recorder.release(chunk)

    def _write(self, chunk: Chunk) -> None:
        if chunk.path != self._file.path:
            following = AppendedFile(chunk.path)  # first: if it fails, ``running`` still closes the current file
            self._file.close()
            self._file = following
        with memoryview(chunk.memory) as memory:
            self._file.write(memory, chunk.begin, chunk.end)


class AppendedFile:
    """A new file for appending bytes. Only its owner can read it.

    Large writes are direct (without the page cache) if the system and the file system permit: this costs half
    the CPU time or less.

    Args:
        path: path of the file; an existing file is replaced.

    Attributes:
        path: path of the file.

    Raises: OSError if the file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | BINARY, PRIVATE)
        self._direct = _opened_for_direct_writes(path)  # None if the file system does not permit direct writes
        if hasattr(os, "fchmod"):  # not on Windows before Python 3.13
            os.fchmod(self._file, PRIVATE)

    def write(self, memory: memoryview, begin: int, end: int) -> None:
        """Append bytes to the file.

        Args:
            memory: memory with the bytes; its address is a multiple of ``ALIGNMENT``.
            begin: index of the first byte. It differs from the size of the file by a multiple of ``ALIGNMENT``.
            end: index after the last byte.

        Raises: OSError if the bytes cannot be written.
        """
        first, last = -(-begin // ALIGNMENT) * ALIGNMENT, end // ALIGNMENT * ALIGNMENT
        if self._direct is not None and last - first >= DIRECT_SIZE:
            self._write(memory[begin:first])
            begin = first + self._write_directly(memory[first:last])
        self._write(memory[begin:end])

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
        self._close_direct()

    def _write(self, data: memoryview) -> None:
        while data:
            data = data[os.write(self._file, data) :]

    def _write_directly(self, data: memoryview) -> int:
        """Write bytes without the page cache, and return the number of written bytes, which may be less than all.

        The result is 0 if the file system does not permit it. No further direct write is then attempted.

        ``data``: the bytes; their address and their number are multiples of ``ALIGNMENT``.
        """
        assert self._direct is not None
        try:
            return os.write(self._direct, data)
        except OSError as error:
            if error.errno not in NOT_PERMITTED:
                raise
            self._close_direct()
            return 0

    def _close_direct(self) -> None:
        if self._direct is not None:
            os.close(self._direct)
            self._direct = None


def _opened_for_direct_writes(path: Path) -> int | None:
    """Return a file descriptor for direct writes to the end of a file; None if the system does not permit them."""
    if not DIRECT:
        return None
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | DIRECT)
    except OSError as error:
        if error.errno not in NOT_PERMITTED:
            raise
        return None
