"""ResponseCache that stay the same until the cluster changes: made once, encoded once."""

from __future__ import annotations

from collections.abc import Hashable

MAX_BYTES = 40_000_000  # bytes that all of it may take, roughly

CachedResponse = tuple[object, dict[int, bytes]]  # a response, and its bytes by version (see calls.Reply)


class ResponseCache:
    """``epoch``: what the answers were made from; with another one all are forgotten."""

    def __init__(self) -> None:
        self._epoch = -1
        self._responses: dict[Hashable, CachedResponse] = {}
        self._weights: dict[Hashable, int] = {}
        self._weight = 0

    def get(self, epoch: int, key: Hashable) -> CachedResponse | None:
        """The cached to this key, if it was kept since the cluster became as it is."""
        return self._responses.get(key) if epoch == self._epoch else None

    def weight(self, key: Hashable) -> int:
        """The weight of an cached that is kept."""
        return self._weights[key]

    def keep(self, epoch: int, key: Hashable, response: object, weight: int) -> CachedResponse:
        """Keep a response, which must not be changed any more. ``weight``: bytes that it takes, roughly."""
        cached: CachedResponse = response, {}
        if weight > MAX_BYTES:
            return cached
        if epoch != self._epoch or self._weight + weight > MAX_BYTES:
            self._epoch, self._weight = epoch, 0
            self._responses.clear()
            self._weights.clear()
        self._responses[key] = cached
        self._weights[key] = weight
        self._weight += weight
        return cached

    def __len__(self) -> int:
        return len(self._responses)
