"""Suppression of log lines, for commands that run brokers in their own process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

SILENT = logging.CRITICAL + 1


@contextmanager
def quiet(level: int) -> Iterator[None]:
    """Suppress mockbroker's log lines below a level of ``logging`` until the end of the block."""
    log = logging.getLogger("mockbroker")
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)
