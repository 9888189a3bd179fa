"""A cache of responses that depend only on the cluster metadata. Each response is built and encoded only once."""

from __future__ import annotations

from collections.abc import Hashable

MAX_BYTES = 40_000_000  # maximum size of the whole cache in bytes, approximately

CachedResponse = tuple[object, dict[int, bytes]]  # a response, and its encoded form by version (``Reply.encoded``)


class ResponseCache:
    """The cached responses by request key.

    All responses are from one epoch of the cluster metadata; a new epoch clears the cache.
    """

    def __init__(self) -> None:
        self._epoch = -1
        self._responses: dict[Hashable, CachedResponse] = {}
        self._weights: dict[Hashable, int] = {}
        self._weight = 0

    def get(self, epoch: int, key: Hashable) -> CachedResponse | None:
        """Return the cached response to a request; None if the response is not cached.

        Args:
            epoch: epoch of the cluster metadata; a response of an older epoch is not returned.
            key: key of the request.
        """
        return self._responses.get(key) if epoch == self._epoch else None

    def weight(self, key: Hashable) -> int:
        """Return the approximate size in bytes of a cached response. ``key``: key of the request.

        Raises: KeyError if the response is not cached.
        """
        return self._weights[key]

    def keep(self, epoch: int, key: Hashable, response: object, weight: int) -> CachedResponse:
        """Cache a response, unless it is larger than MAX_BYTES.

        Return the response, and an empty dict for its encoded form by API version (``Reply.encoded``). A cached
        response must not be modified.

        Earlier responses are removed if they are of another epoch, or if the cache would exceed MAX_BYTES.

        Args:
            epoch: epoch of the cluster metadata.
            key: key of the request.
            response: the response message.
            weight: approximate size of the response in bytes.
        """
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
