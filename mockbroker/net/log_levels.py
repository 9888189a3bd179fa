"""The levels of mockbroker's Python loggers. They are set to the levels that clients request by
IncrementalAlterConfigs.
"""

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
    """Set the levels of mockbroker's Python loggers.

    A process has only one set of loggers. If several clusters run in one process, the last call applies to all of them.

    ``levels``: Kafka's level, such as ``DEBUG``, by logger name. A logger without an entry gets its original level
    again.
    """
    for name in NAMES:
        log = logging.getLogger(name)
        if name in levels:
            _before.setdefault(name, log.level)
            log.setLevel(LEVELS[levels[name]])
        elif name in _before:
            log.setLevel(_before.pop(name))
