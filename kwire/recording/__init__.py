"""Writers of recordings, in formats that ``kwire capture`` reads: frame logs, and pcapng with TCP/IP packets.

A writer does no I/O. Its methods return bytes to append to the file; the file is valid after each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Protocol

from kwire.recording.frame_log import FrameLog
from kwire.recording.pcapng import PcapngFile


class RecordingWriter(Protocol):
    """The interface of the writers. Connections are identified by number; times are microseconds since 1970.

    A client or broker is text of the form ``host:port``.
    """

    def begin(self) -> bytes:
        """Return the beginning of a file. It is also called when the recording continues in another file."""
        ...

    def opened(self, connection: int, client: str, broker: str, time_us: int) -> bytes:
        """Return the bytes that record the opening of a connection.

        Args:
            connection: number of the connection.
            client: address of the client.
            broker: address of the broker.
            time_us: time, in microseconds since 1970.
        """
        ...

    def frame(self, connection: int, to_broker: bool, frame: bytes, time_us: int) -> bytes:
        """Return the bytes that record a frame on an open connection.

        Args:
            connection: number of the connection.
            to_broker: True for a request, False for a response.
            frame: the frame, without its length prefix.
            time_us: time, in microseconds since 1970.
        """
        ...

    def closed(self, connection: int, time_us: int, *, reset: bool = False) -> bytes:
        """Return the bytes that record the end of a connection.

        Args:
            connection: number of the connection.
            time_us: time, in microseconds since 1970.
            reset: True if the connection was closed by a TCP reset.
        """
        ...


WRITERS: Mapping[str, Callable[[], RecordingWriter]] = {
    ".jsonl": FrameLog,
    ".ndjson": FrameLog,
    ".pcapng": PcapngFile,
}


def writer_of(path: PurePath) -> RecordingWriter | None:
    """Return a writer for the format that the suffix of a path selects; None for an unknown suffix."""
    writer = WRITERS.get(path.suffix)
    return None if writer is None else writer()


__all__ = ["WRITERS", "FrameLog", "PcapngFile", "RecordingWriter", "writer_of"]
