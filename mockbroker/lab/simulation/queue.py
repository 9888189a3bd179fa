"""The event queue of a run, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any


class Queue:
    """The event queue of a run: function calls at times of a virtual clock.

    Calls with the same time run in the order in which they were added.

    Attributes:
        now: virtual time since the start of the run, seconds.
        heap: calls that have not run, as a heap of (virtual time in seconds, number of the call, function, arguments).
            The loops of a run read it directly, because they run for every call.
    """

    __slots__ = ("_order", "heap", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = 0

    def at(self, when: float, what: Callable[..., object], *with_: Any) -> None:
        self._order = order = self._order + 1
        now = self.now
        heappush(self.heap, (when if when > now else now, order, what, with_))  # noqa: FURB136 - a third of max()'s time

    def after(self, seconds: float, what: Callable[..., object], *with_: Any) -> None:
        self._order = order = self._order + 1
        heappush(self.heap, (self.now + seconds if seconds > 0.0 else self.now, order, what, with_))

    def run_to(self, until: float) -> None:
        """Run all calls up to the virtual time ``until``, in seconds, and set the time to it."""
        heap = self.heap
        while heap and heap[0][0] <= until:
            self.now, _, what, with_ = heappop(heap)
            what(*with_)
        self.now = until

    @property
    def next(self) -> float:
        return self.heap[0][0] if self.heap else inf

    def step(self) -> None:
        """Advance to the time of the next call and run it."""
        self.now, _, what, with_ = heappop(self.heap)
        what(*with_)
