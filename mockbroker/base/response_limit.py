"""How large one response may be: a request of a few bytes can name what is large again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from mockbroker.base.settings import NO_LIMIT

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")


class ResponseTooLargeError(Exception):
    """A response that would be larger than a broker sends; the connection of its request is closed instead."""


class Room:
    """The bytes that remain of the largest response. ``limit``, ``taken``: in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    def reserve(self, size: int) -> None:
        """Count so many bytes, roughly. Raises: ResponseTooLargeError."""
        self.taken += size
        if self.taken > self._limit != NO_LIMIT:
            raise ResponseTooLargeError(
                f"the response has {self.taken} bytes or more, and mockbroker.response.max.bytes is {self._limit}: "
                "ask for less at once"
            )

    def describe_each(self, keys: Iterable[K], describe: Callable[[K], A], size: Callable[[A], int]) -> list[A]:
        """The description of each key. One that is repeated is described once, and takes its size each time.

        ``size``: bytes of a description, roughly. Raises: ResponseTooLargeError.
        """
        known: dict[K, tuple[A, int]] = {}
        found: list[A] = []
        for key in keys:
            if key not in known:
                described = describe(key)
                known[key] = described, size(described)
            described, bytes_ = known[key]
            self.reserve(bytes_)
            found.append(described)
        return found
