"""A priority queue that returns elements of equal priority in the same order as Java's.

Source: java.util.PriorityQueue of OpenJDK 17 (offer, poll, siftUp, siftDown).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """A binary heap that returns elements of equal priority in the same order as Java's PriorityQueue.

    (``heapq`` returns elements of equal priority in a different order.)

    Args:
        elements: the first elements, in the order in which they are added.
        priority: function that returns the priority of an element; the lowest is polled first.
    """

    def __init__(self, elements: Iterable[T], priority: Callable[[T], float]) -> None:
        self._heap: list[T] = []
        self._priority = priority
        for element in elements:
            self.add(element)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, element: T) -> None:
        """Add an element."""
        heap, priority = self._heap, self._priority
        heap.append(element)
        at, own = len(heap) - 1, priority(element)
        while at > 0:
            parent = (at - 1) >> 1
            if own >= priority(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = element

    def poll(self) -> T:
        """Remove and return the element with the lowest priority. The queue must not be empty."""
        heap, priority = self._heap, self._priority
        first, last = heap[0], heap.pop()
        if not heap:
            return first
        at, size, own = 0, len(heap), priority(last)
        while (child := 2 * at + 1) < size:
            if child + 1 < size and priority(heap[child]) > priority(heap[child + 1]):
                child += 1
            if own <= priority(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return first
