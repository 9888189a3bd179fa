"""Buggify points: methods that the simulator replaces, so that rare but allowed behaviour of the broker occurs often.

A point is the name of a method. Only the simulator uses it, to replace the method on single objects of a run. For all
other objects nothing changes, and a call of the method costs no more than without the point. Source: FoundationDB's
BUGGIFY.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

RESPOND_LATE = "respond-late"
FLUSH_PARTIALLY = "flush-partially"
WAKE_EARLY = "wake-early"
BATCH_DIFFERENTLY = "batch-differently"

METHODS: dict[str, Callable[..., Any]] = {}  # name of a point -> method


def buggify_point(name: str) -> Callable[[F], F]:
    """Return a decorator that records a method as the buggify point ``name``, and returns the method unchanged."""

    def recorded(method: F) -> F:
        METHODS[name] = method
        return method

    return recorded
