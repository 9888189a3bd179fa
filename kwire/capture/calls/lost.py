"""Periods in which frames of a connection may be missing."""

from __future__ import annotations

from kwire.capture.calls.model import Connection
from kwire.capture.limits import LOST_TOGETHER_US, MAX_LOST


class LostFrames:
    """A recorder of ``Connection.lost``, the periods in which frames may be missing.

    The argument ``is_request`` of the methods is the direction.
    """

    __slots__ = ("_connection", "_since")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._since: dict[bool, int] = {}

    def begin(self, is_request: bool, at: int) -> None:
        """Begin a period: the frame boundaries of a direction are unknown from ``at`` on, in microseconds."""
        self._since.setdefault(is_request, at)

    def end(self, is_request: bool, at: int) -> None:
        """End the current period of a direction, because a frame was found. Do nothing if there is none."""
        if (begin := self._since.pop(is_request, None)) is not None:
            self.add(begin, at)

    def finish(self) -> None:
        """End the open periods."""
        for begin in self._since.values():
            self.add(begin, self._connection.last_us)

    def add(self, begin: int, end: int) -> None:
        """Add a period, in microseconds since 1970.

        It is merged with the previous period if less than a second lies between them, or if the connection has MAX_LOST
        periods already.
        """
        periods = self._connection.lost
        if periods and (begin - periods[-1][1] < LOST_TOGETHER_US or len(periods) >= MAX_LOST):
            periods[-1] = min(periods[-1][0], begin), max(periods[-1][1], end)
        else:
            periods.append((begin, end))
