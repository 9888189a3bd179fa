"""A request of the consumer to a node, with its response or failure."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from kwire.messages import APIS
from mockbroker.client.errors import UnsupportedVersion

VersionRange = tuple[int, int | None]  # lowest and highest version; None for the newest that the consumer supports


def newest(key: int) -> int:
    """Return the newest version of an API that the consumer supports. ``key``: the API key."""
    last = APIS[key].versions.last
    assert last is not None
    return last


class Failure(Enum):
    """The reasons why a request has no response."""

    DISCONNECTED = "the connection was closed"
    TIMED_OUT = "the request timed out"
    UNSUPPORTED = "no version in common"  # or the common versions lack a field that the request needs


class OutgoingCall:
    """A request to one node, with its response or failure.

    Args:
        key: API key.
        build: function that builds the request; its argument is the newest version in ``versions`` that the broker
            supports.
        deadline: time at which the request times out, in seconds on the engine's clock.
        on_done: callback that is called with this object once there is a response or a failure; None for no callback.
        versions: lowest and highest version that can carry the request; None as the highest for no upper limit.

    Attributes:
        version: version of the sent request; -1 until the request is sent.
        sent_at: time at which the request was sent, in seconds on the engine's clock.
        response: body of the response; None until the response is received.
        failure: reason why there is no response; None unless the request has failed.
        reason: text of the failure for error messages; "" unless the request has failed.
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
        """The error to raise if client and broker support no common version that can carry the request; None if they
        do.
        """
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
