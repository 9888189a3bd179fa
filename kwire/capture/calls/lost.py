"""Times at which frames of a connection may have been missed."""

from __future__ import annotations

from kwire.capture.calls.model import Connection
from kwire.capture.limits import LOST_TOGETHER_US, MAX_LOST


class LostFrames:
    """The ``lost`` times of one connection. Directions are named by whether they carry requests."""

    __slots__ = ("_connection", "_since")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._since: dict[bool, int] = {}

    def begin(self, is_request: bool, at: int) -> None:
        """A direction lost track of its frames; times are microseconds."""
        self._since.setdefault(is_request, at)

    def end(self, is_request: bool, at: int) -> None:
        """A frame was found again in a direction, if it had lost track."""
        if (begin := self._since.pop(is_request, None)) is not None:
            self.add(begin, at)

    def finish(self) -> None:
        """No more frames will come."""
        for begin in self._since.values():
            self.add(begin, self._connection.last_us)

    def add(self, begin: int, end: int) -> None:
        """Add a time; it becomes one with the time before if that was less than a second ago."""
        known = self._connection.lost
        if known and (begin - known[-1][1] < LOST_TOGETHER_US or len(known) >= MAX_LOST):
            known[-1] = min(known[-1][0], begin), max(known[-1][1], end)
        else:
            known.append((begin, end))
