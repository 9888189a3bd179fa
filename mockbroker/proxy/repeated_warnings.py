"""Warnings that would be logged again with each attempt of a client to reconnect."""

from __future__ import annotations

import logging

log = logging.getLogger("mockbroker")

INTERVAL = 10.0  # seconds between two log lines with the same text
MAX_TEXTS = 100  # maximum number of texts whose last line is remembered


class RepeatedWarnings:
    """A logger of warnings that are often repeated. It logs the same text at most once in INTERVAL seconds, with the
    number of repetitions since then.
    """

    def __init__(self) -> None:
        self._logged: dict[str, tuple[float, int]] = {}  # by text: time of the last line, and repetitions since then

    def warn(self, text: str, now: float) -> None:
        """Log a warning, or count it if the same text was logged less than INTERVAL seconds ago.

        Args:
            text: the warning.
            now: time in seconds.
        """
        at, repetitions = self._logged.pop(text, (-INTERVAL, 0))
        if now - at < INTERVAL:
            self._logged[text] = at, repetitions + 1
            return
        if len(self._logged) >= MAX_TEXTS:
            del self._logged[next(iter(self._logged))]
        self._logged[text] = now, 0
        log.warning("%s%s", text, f" ({repetitions} more times before)" if repetitions else "")
