"""The log of brokers that a command runs itself, held back while it runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

SILENT = logging.CRITICAL + 1


@contextmanager
def quiet(level: int) -> Iterator[None]:
    """Log nothing of mockbroker below this level, and as before afterwards."""
    log = logging.getLogger("mockbroker")
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)
