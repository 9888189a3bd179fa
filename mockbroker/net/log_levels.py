"""The levels of Python's loggers, which follow the levels that clients have set for the broker's loggers."""

from __future__ import annotations

import logging
from collections.abc import Mapping

LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
NAMES = "mockbroker", "mockbroker.http"  # the loggers of mockbroker; Python's root logger is not changed
_before: dict[str, int] = {}  # levels before the first change, by logger


def set_levels(levels: Mapping[str, str]) -> None:
    """Set the levels of mockbroker's loggers. ``levels``: Kafka's level by logger; empty to restore the original ones.

    Loggers belong to the process: if it runs several clusters, the last change of any of them applies.
    """
    for name in NAMES:
        log = logging.getLogger(name)
        if name in levels:
            _before.setdefault(name, log.level)
            log.setLevel(LEVELS[levels[name]])
        elif name in _before:
            log.setLevel(_before.pop(name))
