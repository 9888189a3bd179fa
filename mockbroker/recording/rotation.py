"""The files of a recording: the bytes to write to each file, and the decision when the next file begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kwire.recording import RecordingWriter
from mockbroker.recording.alignment import FrameAligner
from mockbroker.recording.recorder import Bytes, Event, Frame, Opened

US = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one recording file. When a limit is reached, the recording continues in a new file.

    Attributes:
        size: size of a file in bytes. When a file has this size, the next frame is written to a new file. None for no
            limit.
        seconds: time span of a file in seconds; None for no limit.
    """

    size: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes to append to a file.

    Attributes:
        path: path of the file.
        begins: True if the file is new.
        data: the bytes, in one or more buffers.
    """

    path: Path
    begins: bool
    data: Sequence[bytes | memoryview]


class Rotation:
    """The division of a recording into files: ``out.jsonl``, ``out-00001.jsonl``, ``out-00002.jsonl`` ...

    A connection may continue in the next file. A frame is never divided.

    Args:
        path: path of the first file.
        writer: writer of the recording's format.
        limits: conditions under which the next file begins.
    """

    def __init__(self, path: Path, writer: RecordingWriter, limits: Limits) -> None:
        self._path = path
        self._writer = writer
        self._limits = limits
        self._aligner = FrameAligner()
        self._number = -1
        self._size = 0
        self._began_us: int | None = None

    def begin(self) -> Part:
        """Return the beginning of the first file."""
        return self._next()

    def parts(self, events: Iterable[Event]) -> Iterator[Part]:
        """Yield the bytes to write for events, at most one part for each file. ``events``: the events, in order."""
        collected: list[bytes | memoryview] = []
        begins = False
        for event in events:
            if self._is_full(event.time_us):
                yield Part(self._current(), begins, collected)
                part = self._next()
                collected, begins = [*part.data], True
            if self._began_us is None:
                self._began_us = event.time_us
            for data in self._encoded(event):
                self._size += len(data)
                collected.append(data)
        yield Part(self._current(), begins, collected)

    def _encoded(self, event: Event) -> Sequence[bytes | memoryview]:
        number, time_us = event.connection, event.time_us
        match event:
            case Bytes():
                frames = self._aligner.complete(number, event.to_broker, event.data, ends_frame=event.ends_frame)
                return self._writer.frames(number, event.to_broker, frames, time_us) if frames else ()
            case Frame():
                return [self._writer.frame(number, event.to_broker, event.frame, time_us)]
            case Opened():
                return [self._writer.opened(number, event.client, event.broker, time_us)]
            case _:
                self._aligner.forget(number)
                return [self._writer.closed(number, time_us)]

    def _is_full(self, time_us: int) -> bool:
        size, seconds = self._limits.size, self._limits.seconds
        if self._began_us is None:
            return False
        return (size is not None and self._size >= size) or (
            seconds is not None and time_us - self._began_us >= seconds * US
        )

    def _next(self) -> Part:
        self._number += 1
        self._began_us = None
        data = self._writer.begin()
        self._size = len(data)
        return Part(self._current(), True, [data])

    def _current(self) -> Path:
        return self._path.with_stem(f"{self._path.stem}-{self._number:05}") if self._number else self._path
