"""The levels of the broker's loggers, which clients read and change by the resource type BROKER_LOGGER.

All brokers of a cluster share their loggers. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

ROOT = "root"
LOGGERS = ROOT, "mockbroker", "mockbroker.http"  # root is the parent of the others, not Python's root logger
LEVELS = "DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"
INITIAL = "INFO"


class BrokerLoggers:
    """The log levels that clients have set, for all loggers of the cluster.

    Attributes:
        set_levels: Function that is called after each change with the effective level of each logger, by logger name;
            with an empty mapping if clients have set no level.
    """

    def __init__(self) -> None:
        self.set_levels: Callable[[Mapping[str, str]], None] = lambda _: None
        self._own: dict[str, str] = {}

    def effective(self) -> dict[str, str]:
        """Return the effective level of each logger by name: its own level, or that of the nearest parent with
        a level.
        """
        levels: dict[str, str] = {}
        for name in LOGGERS:
            parent = levels.get(name.rpartition(".")[0]) or levels.get(ROOT, INITIAL)
            levels[name] = self._own.get(name, parent)
        return levels

    def change(self, levels: Mapping[str, str | None]) -> None:
        """Set the levels of some loggers, then call ``set_levels``.

        ``levels``: level by logger name; None removes the logger's own level.
        """
        self._own |= {name: level for name, level in levels.items() if level is not None}
        for name in levels.keys() - {name for name, level in levels.items() if level is not None}:
            self._own.pop(name, None)
        self.set_levels(self.effective() if self._own else {})
