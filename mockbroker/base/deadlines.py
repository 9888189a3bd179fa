"""A set of deadlines with their keys: plain data, without a clock or timers.

Every heartbeat postpones a deadline. Postponing changes only a dictionary entry; the heap entry is corrected when its
old time is reached. The cost therefore does not depend on the number of deadlines. Outdated heap entries are removed
when they outnumber the valid ones, so that the memory is proportional to the number of deadlines.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from math import inf
from typing import Generic, TypeVar

from mockbroker.base.buggify import WAKE_EARLY, buggify_point

K = TypeVar("K", bound=Hashable)
SLACK = 64  # stale heap entries that are tolerated, so that small heaps are never rebuilt


class Deadlines(Generic[K]):
    """A mapping of keys to deadlines, which are times in seconds of any monotonic clock.

    Attributes:
        earliest: A time in seconds at or before the first deadline; inf if nothing is stored. It can be before the
            first deadline after a deadline was postponed or removed, until ``pop_due`` reaches the old time.
    """

    def __init__(self) -> None:
        self.earliest = inf
        self._at: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._queued: dict[K, float] = {}  # by key, the earliest time of its heap entries
        self._order = 0

    @buggify_point(WAKE_EARLY)
    def set(self, key: K, at: float) -> None:
        """Set the deadline of a key, and replace its previous deadline. ``at``: the deadline in seconds."""
        self._at[key] = at
        if at < self._queued.get(key, inf):
            self._queued[key] = at
            self._order += 1
            heappush(self._heap, (at, self._order, key))
            self.earliest = self._heap[0][0]
            self._drop_stale()

    def forget(self, key: K) -> None:
        """Remove the deadline of a key, if it has one."""
        self._at.pop(key, None)
        self._drop_stale()

    def at(self, key: K) -> float | None:
        """Return the deadline of a key, in seconds of the clock; None if the key has no deadline."""
        return self._at.get(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._at)

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def __len__(self) -> int:
        return len(self._at)

    def pop_due(self, now: float) -> K | None:
        """Remove the earliest deadline if it is due, and return its key; None if no deadline is due.

        ``now``: the current time in seconds. A deadline is due at or before this time.
        """
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heappop(self._heap)
            self._update_earliest()
            if self._queued.get(key) != at:
                continue  # stale: an entry with an earlier time was added later, and has been popped
            del self._queued[key]
            if key not in self._at:
                continue
            if self._at[key] == at:
                del self._at[key]
                return key
            self.set(key, self._at[key])  # postponed: another key may be due first
        return None

    def _update_earliest(self) -> None:
        self.earliest = self._heap[0][0] if self._heap else inf

    def _drop_stale(self) -> None:
        if len(self._heap) <= 2 * len(self._at) + SLACK:
            return
        used = {
            key: (at, order, key) for at, order, key in self._heap if key in self._at and self._queued.get(key) == at
        }
        self._heap = list(used.values())
        self._queued = {key: at for key, (at, _, _) in used.items()}
        heapify(self._heap)
        self._update_earliest()
