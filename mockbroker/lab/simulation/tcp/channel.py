"""One direction of a simulated TCP connection: bytes arrive in order, cut into segments."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise

from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.network import Wire
from mockbroker.lab.simulation.queue import Queue

WHOLE, GLUED, ONE_BY_ONE = 0.6, 0.2, 0.02  # probabilities: not cut; joined with the bytes before; a segment per byte
SHORT = 100  # maximum bytes that are sent in a segment per byte
MOST_CUTS = 3
END = b""  # the segment after the last byte


def cut(dice: Dice, data: bytes) -> list[bytes]:
    """Return ``data`` in one or several segments, cut at random places.

    ``dice``: random number generator.
    """
    if dice.chance(WHOLE):
        return [data]
    if len(data) <= SHORT and dice.chance(ONE_BY_ONE):
        return [data[at : at + 1] for at in range(len(data))]
    places = [0, *sorted(dice.below(len(data)) for _ in range(dice.whole(1, MOST_CUTS))), len(data)]
    return [data[start:end] for start, end in pairwise(places) if start < end]


class Channel:
    """One direction of a simulated TCP connection.

    Args:
        queue: event queue of the run.
        wire: the connection.
        dice: random number generator for the cuts.
        deliver: function that is called with each segment that arrives, and with END after the last segment.
        loses: value of ``Link.lose`` with which a message in this direction is lost: "request" or "answer".
        break_off: function that is called with the connection, to break it when a message is lost.

    Attributes:
        lost: True if no more bytes arrive, because the machine of the sender or the receiver has vanished.
    """

    def __init__(
        self,
        queue: Queue,
        wire: Wire,
        dice: Dice,
        deliver: Callable[[bytes], None],
        loses: str,
        break_off: Callable[[Wire], None],
    ) -> None:
        self.lost = False
        self._queue = queue
        self._wire = wire
        self._dice = dice
        self._deliver = deliver
        self._loses = loses
        self._break_off = break_off
        self._segments: deque[bytes] = deque()  # on the way
        self._at = 0.0  # arrival time of the last segment

    def send(self, data: bytes) -> None:
        """Send bytes, as one or several segments.

        At random, the bytes are appended to the last segment instead, if that segment has not arrived yet.

        ``data``: the bytes.
        """
        if self._segments and self._segments[-1] and self._dice.chance(GLUED):
            self._segments[-1] += data
            return
        for segment in cut(self._dice, data):
            self._add(segment)

    def end(self) -> None:
        """Send the end of the stream: no bytes follow."""
        self._add(END)

    def _add(self, segment: bytes) -> None:
        self._segments.append(segment)
        self._at = max(self._at, self._queue.now + self._wire.peer.delay())
        self._queue.at(self._at, self._arrive)

    def _arrive(self) -> None:
        """Deliver the oldest segment: segments arrive in the order in which they were sent.

        There are three exceptions. If the connection is cut or the channel lost, nothing happens. While the link is
        clogged, the delivery is held. If the message is to be lost, only the beginning of the segment is delivered, and
        the connection is broken.
        """
        wire = self._wire
        if wire.cut or self.lost:
            return
        if wire.link.clogged:
            wire.link.held.append((self._arrive, ()))
            return
        segment = self._segments.popleft()
        if segment and wire.link.lose == self._loses:
            wire.link.lose = ""
            if begin := segment[: self._dice.below(len(segment))]:
                self._deliver(begin)
            self._break_off(wire)
            return
        self._deliver(segment)
