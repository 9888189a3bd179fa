"""A request of the consumer to a node, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from kwire.messages import APIS
from mockbroker.client.errors import UnsupportedVersion

Span = tuple[int, int | None]  # versions from, and up to, which is the newest if None


def newest(key: int) -> int:
    """The newest version of an API that is known here."""
    last = APIS[key].versions.last
    assert last is not None
    return last


class Failure(Enum):
    """Why a request has no answer."""

    DISCONNECTED = "the connection is gone"
    TIMED_OUT = "no answer in time"
    UNSUPPORTED = "no version in common"  # or it cannot carry what is to be said


class OutgoingCall:
    """``build``: makes the request once its version is known, which is the newest of ``versions`` that both ends have.

    ``then``: called when it is done, whichever way. ``answer`` is the response's body, None while there is none.
    """

    __slots__ = ("answer", "build", "deadline", "failure", "key", "reason", "sent_at", "then", "version", "versions")

    def __init__(
        self,
        key: int,
        build: Callable[[int], object],
        deadline: float,
        then: Callable[[OutgoingCall], None] | None = None,
        versions: Span = (0, None),
    ) -> None:
        self.key, self.build, self.deadline, self.then = key, build, deadline, then
        lowest, highest = versions
        self.versions = max(lowest, APIS[key].versions.first), newest(key) if highest is None else highest
        self.version = -1
        self.sent_at = 0.0
        self.answer: Any = None
        self.failure: Failure | None = None
        self.reason = ""

    @property
    def unsupported(self) -> UnsupportedVersion | None:
        """The error, if there is no version that both ends have and that can carry the request."""
        return UnsupportedVersion(self.reason) if self.failure is Failure.UNSUPPORTED else None

    @property
    def done(self) -> bool:
        return self.answer is not None or self.failure is not None

    def answered(self, body: object) -> None:
        self.answer = body
        if self.then:
            self.then(self)

    def failed(self, failure: Failure, reason: str = "") -> None:
        self.failure, self.reason = failure, reason or failure.value
        if self.then:
            self.then(self)
