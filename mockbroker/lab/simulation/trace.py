"""The trace of a run: one line per event, a hash of all lines, and the last lines."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

KEPT = 50  # lines
HASHED_AT_ONCE = 100  # lines


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
        self._not_hashed: list[str] = []

    def add(self, now: float, line: str) -> None:
        """Add a line to the trace.

        Args:
            now: virtual or broker time of the event, seconds.
            line: description of the event.
        """
        self.events += 1
        text = f"{self.events:6d} {now:10.4f}  {line}"
        self.last.append(text)
        self._not_hashed.append(text)
        if len(self._not_hashed) >= HASHED_AT_ONCE:
            self._hash_lines()

    def _hash_lines(self) -> None:
        self._hash.update("".join(self._not_hashed).encode("utf-8", "surrogatepass"))
        self._not_hashed.clear()

    @property
    def hash(self) -> str:
        self._hash_lines()
        return self._hash.hexdigest()
