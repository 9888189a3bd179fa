"""The trace of a run: one line per event, a hash of all lines, and the last lines."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

KEPT = 50  # lines


class Trace:
    """The trace of a run: a line of text for each event.

    Attributes:
        events: number of events so far.
        last: the last 50 lines.
        hash: hash of all lines, in hex.
    """

    def __init__(self) -> None:
        self.events = 0
        self.last: deque[str] = deque(maxlen=KEPT)
        self._hash = blake2b(digest_size=16)

    def add(self, now: float, line: str) -> None:
        """Add a line to the trace.

        Args:
            now: virtual or broker time of the event, seconds.
            line: description of the event.
        """
        self.events += 1
        text = f"{self.events:6d} {now:10.4f}  {line}"
        self.last.append(text)
        self._hash.update(text.encode("utf-8", "surrogatepass"))

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()
