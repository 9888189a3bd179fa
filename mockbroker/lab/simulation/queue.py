"""The event queue of a run, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import Any

from mockbroker.lab.simulation.trace import Trace


class Queue:
    """The event queue of a run: function calls at times of a virtual clock.

    Calls with the same time run in the order in which they were added.

    Attributes:
        now: virtual time since the start of the run, seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = 0

    def at(self, when: float, what: Callable[..., object], *with_: Any) -> None:
        self._order += 1
        heappush(self._heap, (max(when, self.now), self._order, what, with_))

    def after(self, seconds: float, what: Callable[..., object], *with_: Any) -> None:
        self._order += 1
        heappush(self._heap, (self.now + seconds if seconds > 0.0 else self.now, self._order, what, with_))

    def run_to(self, until: float) -> None:
        """Run all calls up to the virtual time ``until``, in seconds, and set the time to it."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, what, with_ = heappop(heap)
            what(*with_)
        self.now = until

    def run_events(self, trace: Trace, events: int, until: float) -> None:
        """Run the next call, and further calls until the trace has ``events`` events.

        No further call runs after the virtual time ``until``, in seconds.

        Args:
            trace: trace of the run.
            events: number of events.
            until: virtual time, seconds.
        """
        heap = self._heap
        while True:
            self.now, _, what, with_ = heappop(heap)
            what(*with_)
            if trace.events >= events or not heap or heap[0][0] > until:
                return

    @property
    def calls(self) -> int:
        """The number of calls that have run."""
        return self._order - len(self._heap)

    @property
    def next(self) -> float:
        return self._heap[0][0] if self._heap else inf

    def step(self) -> None:
        """Advance to the time of the next call and run it."""
        self.now, _, what, with_ = heappop(self._heap)
        what(*with_)
