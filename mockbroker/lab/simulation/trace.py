"""What happened in a run: a line an event, their hash, and the last of them."""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

KEPT = 50


class Trace:
    def __init__(self) -> None:
        self.events = 0
        self.last: deque[str] = deque(maxlen=KEPT)
        self._hash = blake2b(digest_size=16)

    def add(self, now: float, line: str) -> None:
        """One event at ``now`` (seconds)."""
        self.events += 1
        text = f"{self.events:6d} {now:10.4f}  {line}"
        self.last.append(text)
        self._hash.update(text.encode("utf-8", "surrogatepass"))

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()
