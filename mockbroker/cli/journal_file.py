"""The file of the option ``--journal``. Each event of the journal is written to this file as a line."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import click

from mockbroker.broker.journal import Event, Journal

log = logging.getLogger("mockbroker")


def open_journal(path: Path) -> TextIO:
    """Open the file of --journal, to append lines.

    Raises:
        click.UsageError: The file cannot be opened.
    """
    try:
        return path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise click.UsageError(f"--journal {path}: cannot open the file: {error.strerror}") from error


def write_journal(journal: Journal, begin: float, file: TextIO) -> None:
    """From now on, append each new event of the journal to a file, as one JSON object per line.

    The object is that of ``Event.to_json``, with the additional key ``time``: the broker's wall-clock time. If a write
    fails, the error is logged, the file is closed, and no further events are written.

    Args:
        journal: the journal whose events are written.
        begin: time at which the ``time_ms`` of an event is 0, in seconds since 1970.
        file: the file, open for writing.
    """

    def write(event: Event) -> None:
        stamp = datetime.fromtimestamp(begin + event.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
        try:
            file.write(json.dumps({"time": stamp} | event.to_json()) + "\n")
        except OSError as error:
            log.error("journal: cannot write an event: %s; no further events are written", error)
            journal.listeners.remove(write)
            with suppress(OSError):  # closing flushes the buffer, which fails again
                file.close()

    listener: Callable[[Event], None] = write
    journal.listeners.append(listener)
