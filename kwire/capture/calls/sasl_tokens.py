"""SASL tokens without a Kafka header. Clients and brokers exchange them after a SaslHandshake v0."""

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
        """Expect tokens from now on, because a SaslHandshake v0 has succeeded."""
        self.expected, self._seen = True, 0

    def end(self) -> None:
        """Expect no more tokens, because a request was captured."""
        self.expected = False

    def count(self) -> bool:
        """Count a token of the client.

        Return False if the client has sent more tokens than any SASL mechanism needs.
        """
        self._seen += 1
        return self._seen <= MAX_TOKENS - 1

    def add(self, call: Call) -> None:
        """Add a token of the client. It waits until the broker's token is captured."""
        self._unanswered.append(call)

    def pop(self) -> Call | None:
        """Remove the oldest token that waits for the broker's token, and return it; None if no token is waiting."""
        return self._unanswered.popleft() if self._unanswered else None

    def pop_all(self) -> list[Call]:
        """Remove all tokens that wait for the broker's tokens, and return them."""
        calls = list(self._unanswered)
        self._unanswered.clear()
        return calls
