"""Work, counted: how many Python functions were called, which no busy machine changes."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Calls:
    """How many functions were called."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _: object, event: str, __: object) -> None:
        self.count += event == "call"


@contextmanager
def counted() -> Iterator[Calls]:
    calls = Calls()
    gc.collect()
    gc.disable()  # what it ends would be counted
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        gc.enable()
