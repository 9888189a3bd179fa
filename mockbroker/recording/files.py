"""The task that writes a recording to files, in batches and in a separate thread."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from kwire.recording import RecordingWriter
from mockbroker.recording.recorder import Event, Recorder
from mockbroker.recording.rotation import Limits, Part, Rotation

log = logging.getLogger("mockbroker")

INTERVAL = 0.1  # seconds between two writes; events of the last interval are lost if the process is killed
PRIVATE = 0o600
BUFFERS = 512  # of one write; systems permit at least 1,024
BINARY = getattr(os, "O_BINARY", 0)  # Windows alone has it


class RecordingFiles:
    """A recording in files that only their owner can read.

    Each write appends complete frames, so the files can be read at any time, also after the process was killed. If a
    write fails, an error is logged, and the recording ends.

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
        self._has_many = trio.Event()
        self.recorder = Recorder(self._wake, gets_bytes=True)
        self._rotation = Rotation(path, writer, limits)
        self._file = -1
        self._has_failed = False
        self._write([self._rotation.begin()])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write events as they arrive while the block runs. At the end of the block, write the remaining events."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run)
                yield
                nursery.cancel_scope.cancel()
        finally:
            self._save(self.recorder.taken())
            self._close()
            if self.recorder.dropped:
                log.warning("%d connections were not recorded completely", self.recorder.dropped)

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            with trio.move_on_after(INTERVAL):
                await self._has_many.wait()
            self._arrived, self._has_many = trio.Event(), trio.Event()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._save, self.recorder.taken())

    def _save(self, events: list[Event]) -> None:
        if self._has_failed:
            return
        try:
            self._write(self._rotation.parts(events))
        except OSError as error:
            self._has_failed = True
            log.error("the recording has ended: cannot write %s: %s", error.filename, error.strerror)

    def _wake(self, has_many: bool) -> None:
        self._arrived.set()
        if has_many:
            self._has_many.set()

    def _write(self, parts: Iterable[Part]) -> None:
        for part in parts:
            try:
                if part.begins:
                    self._close()
                    self._file = os.open(
                        part.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | BINARY, PRIVATE
                    )
                    if hasattr(os, "fchmod"):  # not on Windows before Python 3.13
                        os.fchmod(self._file, PRIVATE)
                _write_all(self._file, part.data)
            except OSError as error:
                error.filename = str(part.path)
                raise

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _write_all(file: int, buffers: Sequence[bytes | memoryview]) -> None:
    """Write all bytes of some buffers to a file, with as few system calls as possible.

    Args:
        file: descriptor of the file.
        buffers: the buffers in order.
    """
    if not hasattr(os, "writev"):  # Windows
        buffers = [b"".join(buffers)]
    for begin in range(0, len(buffers), BUFFERS):
        some = buffers[begin : begin + BUFFERS]
        written = os.writev(file, some) if hasattr(os, "writev") else 0
        for each in some:  # a part of them after an interrupted write
            rest = memoryview(each)[written:]
            written = max(written - len(each), 0)
            while rest:
                rest = rest[os.write(file, rest) :]
