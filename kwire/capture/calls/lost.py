"""The periods in which frames of a connection may be missing."""

from __future__ import annotations

from kwire.capture.calls.model import Connection
from kwire.capture.limits import LOST_TOGETHER_US, MAX_LOST


class LostFrames:
    """The periods in which frames of a connection may be missing (``Connection.lost``).

    The argument ``is_request`` of the methods is the direction: True for bytes of the client.

    Args:
        connection: the connection; the periods are stored in its attribute ``lost``.
    """

    __slots__ = ("_connection", "_since")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._since: dict[bool, int] = {}

    def begin(self, is_request: bool, at: int) -> None:
        """Begin a period, because the frame boundaries of a direction are no longer known.

        ``at``: time, in microseconds since 1970.
        """
        self._since.setdefault(is_request, at)

    def end(self, is_request: bool, at: int) -> None:
        """End the current period, because a frame of this direction was found; do nothing if no period has begun.

        ``at``: time, in microseconds since 1970.
        """
        if (begin := self._since.pop(is_request, None)) is not None:
            self.add(begin, at)

    def finish(self) -> None:
        """End all periods that have begun, at the end of the connection."""
        for begin in self._since.values():
            self.add(begin, self._connection.last_us)

    def add(self, begin: int, end: int) -> None:
        """Add a period; merge it with the previous period if the pause between them is shorter than a second.

        The period is also merged if MAX_LOST periods exist already.

        Args:
            begin: start of the period, in microseconds since 1970.
            end: end of the period, in microseconds since 1970.
        """
        periods = self._connection.lost
        if periods and (begin - periods[-1][1] < LOST_TOGETHER_US or len(periods) >= MAX_LOST):
            periods[-1] = min(periods[-1][0], begin), max(periods[-1][1], end)
        else:
            periods.append((begin, end))
