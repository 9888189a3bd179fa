"""Suppression of log lines, for commands that run brokers in their own process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

SILENT = logging.CRITICAL + 1


@contextmanager
def quiet(level: int) -> Iterator[None]:
    """Suppress mockbroker's log lines during a ``with`` block. ``level``: lines below this level are suppressed."""
    log = logging.getLogger("mockbroker")
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)
