"""SASL tokens without a header, which follow a SaslHandshake v0."""

from __future__ import annotations

from collections import deque

from kwire.capture.calls.model import Call
from kwire.capture.limits import MAX_TOKENS


class SaslTokens:
    """The SASL tokens of one connection.

    Attributes:
        expected: True if the next frames may be tokens.
    """

    __slots__ = ("_seen", "_unanswered", "expected")

    def __init__(self) -> None:
        self.expected = False
        self._seen = 0
        self._unanswered: deque[Call] = deque()

    def expect(self) -> None:
        """Record an accepted SaslHandshake v0."""
        self.expected, self._seen = True, 0

    def end(self) -> None:
        """Record a request: no more tokens follow."""
        self.expected = False

    def count(self) -> bool:
        """Count a token of the client; return False if there are more than any mechanism sends."""
        self._seen += 1
        return self._seen <= MAX_TOKENS - 1

    def add(self, call: Call) -> None:
        """Add a token of the client that waits for a response."""
        self._unanswered.append(call)

    def pop(self) -> Call | None:
        """Remove and return the oldest pending token, or None."""
        return self._unanswered.popleft() if self._unanswered else None

    def pop_all(self) -> list[Call]:
        """Remove and return all pending tokens."""
        calls = list(self._unanswered)
        self._unanswered.clear()
        return calls
