"""Virtual time: what is to be done, and when."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any


class Queue:
    """``now``: seconds since the beginning. What is due at the same time comes in the order in which it was put in."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0

    def at(self, when: float, what: Callable[..., None], *with_: Any) -> None:
        self._order += 1
        heappush(self._heap, (max(when, self.now), self._order, what, with_))

    def after(self, seconds: float, what: Callable[..., None], *with_: Any) -> None:
        self.at(self.now + seconds, what, *with_)

    @property
    def next(self) -> float:
        return self._heap[0][0] if self._heap else inf

    def step(self) -> None:
        """Let time pass until something is to be done, and do it."""
        self.now, _, what, with_ = heappop(self._heap)
        what(*with_)
