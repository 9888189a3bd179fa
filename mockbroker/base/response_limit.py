"""The size limit of a response. It is needed because a small request can ask for a large item many times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from mockbroker.base.settings import NO_LIMIT

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")


class ResponseTooLargeError(Exception):
    """The error for a response that would exceed ``mockbroker.response.max.bytes``.

    The broker closes the connection instead of sending the response.
    """


class Room:
    """A counter for the size of a response while the broker builds the response, with a limit.

    Args:
        limit: Maximum size in bytes; NO_LIMIT for none.

    Attributes:
        taken: Approximate number of bytes of the response until now.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0
        self._known: dict[Any, tuple[Any, int]] = {}  # key -> description and its size

    def reserve(self, size: int) -> None:
        """Add ``size``, an approximate number of bytes, to the size of the response.

        Raises:
            ResponseTooLargeError: The size of the response exceeds the limit.
        """
        self.taken += size
        if self.taken > self._limit != NO_LIMIT:
            raise ResponseTooLargeError(
                f"the response would have at least {self.taken} bytes, above mockbroker.response.max.bytes "
                f"({self._limit}): request fewer items at once, or raise the setting"
            )

    def describe_each(self, keys: Iterable[K], describe: Callable[[K], A], size: Callable[[A], int]) -> list[A]:
        """Return the description of each key, such as a topic name. Add the size of each description to the size of the
        response.

        For a repeated key, also of an earlier call, ``describe`` is called only once, but the size is added each time.

        Args:
            keys: The keys, in the order of the response.
            describe: Function that returns the description of a key.
            size: Function that returns the approximate size of a description in bytes.

        Raises:
            ResponseTooLargeError: The size of the response exceeds the limit.
        """
        known = self._known
        descriptions: list[A] = []
        for key in keys:
            if key not in known:
                described = describe(key)
                known[key] = described, size(described)
            described, bytes_ = known[key]
            self.reserve(bytes_)
            descriptions.append(described)
        return descriptions
