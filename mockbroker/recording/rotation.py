"""The paths of the files of a recording, and the decision when the next file begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


class Rotation:
    """The files of a recording: ``out.jsonl``, ``out-00001.jsonl``, ``out-00002.jsonl`` ...

    Args:
        path: path of the first file.
        limits: conditions under which the next file begins.

    Attributes:
        size: number of bytes of the current file. The caller adds to it.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self.size = 0
        self._path = path
        self._limits = limits
        self._number = 0
        self._began_us: int | None = None

    @property
    def path(self) -> Path:
        """The path of the current file."""
        return self._path.with_stem(f"{self._path.stem}-{self._number:05}") if self._number else self._path

    def is_full(self, time_us: int) -> bool:
        """Return whether the next event must be written to a new file. The time span of a file begins with its first
        event.

        ``time_us``: time of the event, in microseconds since 1970.
        """
        if self._began_us is None:
            self._began_us = time_us
            return False
        size, seconds = self._limits.size, self._limits.seconds
        return (size is not None and self.size >= size) or (
            seconds is not None and time_us - self._began_us >= seconds * US
        )

    def begin_next(self, time_us: int) -> None:
        """Begin the next file. ``time_us``: time of its first event, in microseconds since 1970."""
        self._number += 1
        self._began_us = time_us
        self.size = 0
