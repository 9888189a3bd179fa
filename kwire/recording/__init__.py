"""Writers of recordings, in formats that ``kwire capture`` reads: frame logs, and pcapng with TCP/IP packets.

A writer does no I/O. Its methods return the bytes that the caller appends to the file. The file is valid after each
append.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Protocol

from kwire.recording.frame_log import FrameLog
from kwire.recording.pcapng import PcapngFile


class RecordingWriter(Protocol):
    """The interface of the writers of recordings.

    The caller selects a different number for each open connection. Times are microseconds since 1970.

    Attributes:
        needs_complete_frames: whether ``frames`` needs complete frames. If not, the frames may be divided among calls.
    """

    needs_complete_frames: bool

    def begin(self) -> bytes:
        """Return the first bytes of a file. If the recording continues in a new file, call this method again."""
        ...

    def opened(self, connection: int, client: str, broker: str, time_us: int) -> bytes:
        """Return the bytes that record the opening of a connection.

        Args:
            connection: number of the connection.
            client: ``host:port`` of the client.
            broker: ``host:port`` of the broker.
            time_us: time of the opening, in microseconds since 1970.
        """
        ...

    def frame(self, connection: int, to_broker: bool, frame: bytes, time_us: int) -> bytes:
        """Return the bytes that record a frame on an open connection.

        Args:
            connection: number of the connection.
            to_broker: True for a request, False for a response.
            frame: header and body, without length prefix.
            time_us: time of the frame, in microseconds since 1970.
        """
        ...

    def frames(
        self, connection: int, to_broker: bool, data: Sequence[bytes], time_us: int
    ) -> Sequence[bytes | memoryview]:
        """Return the bytes that record several frames with the same direction and time, in one or more buffers.

        Args:
            connection: number of the connection.
            to_broker: True for requests, False for responses.
            data: complete frames with their length prefixes, divided into buffers. A frame may begin or end anywhere in
                a buffer.
            time_us: time of the frames, in microseconds since 1970.
        """
        ...

    def closed(self, connection: int, time_us: int, *, reset: bool = False) -> bytes:
        """Return the bytes that record the end of a connection.

        Args:
            connection: number of the connection.
            time_us: time of the end, in microseconds since 1970.
            reset: True if a TCP reset closed the connection.
        """
        ...


WRITERS: Mapping[str, Callable[[], RecordingWriter]] = {
    ".jsonl": FrameLog,
    ".ndjson": FrameLog,
    ".pcapng": PcapngFile,
}


def writer_of(path: PurePath) -> RecordingWriter | None:
    """Return a writer for the format that belongs to the suffix of a path; None for an unknown suffix."""
    writer = WRITERS.get(path.suffix)
    return None if writer is None else writer()


__all__ = ["WRITERS", "FrameLog", "PcapngFile", "RecordingWriter", "writer_of"]
