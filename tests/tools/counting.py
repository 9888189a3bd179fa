"""Counts of called Python functions, a measure of work that does not depend on the load of the machine."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from cProfile import Profile
from typing import Any, TypeVar

T = TypeVar("T")


class Calls:
    """The number of function calls, which is known at the end of ``counted``."""

    def __init__(self) -> None:
        self.count = 0


@contextmanager
def counted() -> Iterator[Calls]:
    calls = Calls()
    profile = Profile(subcalls=False, builtins=False)  # counts in C, several times as fast as sys.setprofile
    gc.collect()
    gc.disable()  # finalizers that it calls would be counted
    profile.enable()
    try:
        yield calls
    finally:
        profile.disable()
        gc.enable()
        calls.count = sum(entry.callcount for entry in profile.getstats())


def in_slices(steps: Generator[None, None, T]) -> tuple[int, T]:
    """Do work that yields after each slice; return the number of slices and the result."""
    number = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return number, end.value
        number += 1


def most_calls(steps: Generator[None, None, Any]) -> tuple[int, int]:
    """Do work in slices; return the number of slices, and the calls in the one with the most."""
    slices, ended = [], object()
    while True:
        profile = Profile(subcalls=False, builtins=False)
        profile.enable()
        step = next(steps, ended)
        profile.disable()
        slices.append(sum(entry.callcount for entry in profile.getstats()))
        if step is ended:
            return len(slices), max(slices)
