"""A request of the consumer to a node, with its response or failure."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from kwire.messages import APIS
from mockbroker.client.errors import UnsupportedVersion

VersionRange = tuple[int, int | None]  # lowest and highest version; None: the newest


def newest(key: int) -> int:
    """Return the newest version of an API that this consumer supports."""
    last = APIS[key].versions.last
    assert last is not None
    return last


class Failure(Enum):
    """Why a request has no response."""

    DISCONNECTED = "the connection was closed"
    TIMED_OUT = "the request timed out"
    UNSUPPORTED = "no version in common"  # or the common versions lack a field that the request needs


class OutgoingCall:
    """One request.

    Args: ``key``: of the API; ``build``: makes the request of a version, the newest of ``versions`` that client and
    broker support; ``deadline``: when the request times out; ``on_done``: called with the response or the failure.

    version: -1 until the request is sent.
    sent_at: seconds on the engine's clock.
    response: the body of the response; None until it is received.
    failure, reason: why there is no response, and the same for people.
    """

    __slots__ = (
        "build",
        "deadline",
        "failure",
        "key",
        "on_done",
        "reason",
        "response",
        "sent_at",
        "version",
        "versions",
    )

    def __init__(
        self,
        key: int,
        build: Callable[[int], object],
        deadline: float,
        on_done: Callable[[OutgoingCall], None] | None = None,
        versions: VersionRange = (0, None),
    ) -> None:
        self.key, self.build, self.deadline, self.on_done = key, build, deadline, on_done
        lowest, highest = versions
        self.versions = max(lowest, APIS[key].versions.first), newest(key) if highest is None else highest
        self.version = -1
        self.sent_at = 0.0
        self.response: Any = None
        self.failure: Failure | None = None
        self.reason = ""

    @property
    def unsupported(self) -> UnsupportedVersion | None:
        """The error if client and broker have no common version that can carry the request, else None."""
        return UnsupportedVersion(self.reason) if self.failure is Failure.UNSUPPORTED else None

    @property
    def done(self) -> bool:
        return self.response is not None or self.failure is not None

    def complete(self, body: object) -> None:
        self.response = body
        if self.on_done:
            self.on_done(self)

    def fail(self, failure: Failure, reason: str = "") -> None:
        self.failure, self.reason = failure, reason or failure.value
        if self.on_done:
            self.on_done(self)
