"""The interface of a SASL mechanism, and the three possible results of a token: challenge, authenticated, failed."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from kwire.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Challenge:
    """The result of a client's token after which the exchange continues.

    Attributes:
        token: the token that the broker sends to the client. The client must respond to it.
    """

    token: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The result of a token that completes the authentication.

    Attributes:
        user: The authenticated principal.
        token: The last token to the client.
        expires_at_ms: End of the session in milliseconds since 1970; None if the mechanism sets no end.
        by_token: Whether the client has authenticated with a delegation token.
    """

    user: str
    token: bytes = b""
    expires_at_ms: int | None = None
    by_token: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The result of a rejected token: the authentication has failed.

    Attributes:
        text: Kafka's error message; None for the message that all mechanisms share.
    """

    text: str | None = None


Verdict: TypeAlias = Challenge | Authenticated | Failed


class Mechanism(Protocol):
    """The interface of a SASL mechanism: one authentication exchange with a client."""

    def evaluate(self, token: bytes, wall_ms: int) -> Verdict:
        """Evaluate a token of the client, and return the result.

        Args:
            token: The token.
            wall_ms: The current time in milliseconds since 1970.
        """
        ...
