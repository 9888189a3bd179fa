"""Deadlines kept as data: set, forget, ask which is next. No clock, no timers to start or cancel.

Moving a deadline back, as every heartbeat does, costs one dictionary entry; the heap is put right when the earlier
time comes. So the cost does not grow with the number of deadlines. What the heap holds in vain is thrown out once it is
most of it: memory grows with the deadlines that there are, not with how far ahead they lie.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
SLACK = 64  # entries of the heap that are not worth a look


class Deadlines(Generic[K]):
    """One deadline a key, in seconds on any monotonic scale."""

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._queued: dict[K, float] = {}  # the earliest time at which the heap holds the key
        self._order = 0

    def set(self, key: K, at: float) -> None:
        """The deadline of ``key`` is ``at`` from now on."""
        self._at[key] = at
        if at < self._queued.get(key, inf):
            self._queued[key] = at
            self._order += 1
            heappush(self._heap, (at, self._order, key))
            self._tidy()

    def forget(self, key: K) -> None:
        """``key`` has no deadline."""
        self._at.pop(key, None)
        self._tidy()

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def __len__(self) -> int:
        return len(self._at)

    def next(self) -> float:
        """No deadline lies before this time; inf when there is none. It may be early, never late."""
        return self._heap[0][0] if self._heap else inf

    def pop_due(self, now: float) -> K | None:
        """A key whose deadline has come, earliest first; its deadline is forgotten. None when none is due."""
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heappop(self._heap)
            if self._queued.get(key) != at:
                continue  # an earlier time was queued later, and has been popped
            del self._queued[key]
            if key not in self._at:
                continue
            if self._at[key] == at:
                del self._at[key]
                return key
            self.set(key, self._at[key])  # it was moved back, and another may come before it
        return None

    def _tidy(self) -> None:
        if len(self._heap) <= 2 * len(self._at) + SLACK:
            return
        used = {
            key: (at, order, key) for at, order, key in self._heap if key in self._at and self._queued.get(key) == at
        }
        self._heap = list(used.values())
        self._queued = {key: at for key, (at, _, _) in used.items()}
        heapify(self._heap)
