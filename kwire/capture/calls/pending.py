"""Pending requests of a connection, by correlation id."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.capture.calls.model import Call
from kwire.capture.limits import MAX_PENDING


class PendingCalls:
    """The requests of a connection that wait for a response, in the order in which they were captured.

    Several requests may have the same correlation id. Limits: MAX_PENDING requests.

    Attributes:
        by_id: requests by correlation id, each list in the order in which the requests were captured.
        count: number of requests.
    """

    __slots__ = ("by_id", "count")

    def __init__(self) -> None:
        self.by_id: dict[int, list[Call]] = {}
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self.by_id)

    def __iter__(self) -> Iterator[Call]:
        for calls in self.by_id.values():
            yield from calls

    def add(self, call: Call) -> Call | None:
        """Add a request. If there are now more than MAX_PENDING requests, remove the oldest and return it; else return
        None.
        """
        assert call.correlation_id is not None
        calls = self.by_id.get(call.correlation_id)
        if calls is None:
            self.by_id[call.correlation_id] = [call]
        else:
            calls.append(call)
        self.count += 1
        return self.pop(next(iter(self.by_id))) if self.count > MAX_PENDING else None

    def pop(self, correlation_id: int) -> Call:
        """Remove the oldest request with a correlation id, and return it.

        Raises: KeyError if no pending request has this correlation id.
        """
        calls = self.by_id[correlation_id]
        call = calls.pop(0)
        if not calls:
            del self.by_id[correlation_id]
        self.count -= 1
        return call

    def clear(self) -> None:
        """Remove all requests."""
        self.by_id.clear()
        self.count = 0
