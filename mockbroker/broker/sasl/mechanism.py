"""What a mechanism is: tokens of a client go in, one of three answers comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Challenge:
    """Nothing is settled yet; the client must answer to this token."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client is ``user``. ``token``: the last one to it; ``until_ms``: when that ends, in ms since 1970."""

    user: str
    token: bytes = b""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The client may not come in. ``text``: Kafka's words for it; None: those that it has for every mechanism."""

    text: str | None = None


Verdict: TypeAlias = Challenge | Authenticated | Failed


class Mechanism(Protocol):
    """One attempt of one client."""

    def evaluate(self, token: bytes, wall_ms: int) -> Verdict:
        """The next token of the client, who has come so far. ``wall_ms``: ms since 1970."""
        ...
