"""The clock of ``mockbroker serve --clock manual`` by lines on stdin, each answered by a line of JSON on stdout."""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import click
import trio

from mockbroker.api.clock import Clock
from mockbroker.broker.journal import Event

STDIN = 0
READ_SIZE = 4_096  # bytes
LONGEST = 1_024  # bytes of a line; longer ones are no commands
USAGE = "expected advance SECONDS, stop, resume or now"
log = logging.getLogger("mockbroker")


async def obey(clock: Clock, stdin: int = STDIN) -> None:
    """Carry out lines of a file until it ends, which is no reason for the broker to end."""
    if hasattr(signal, "SIGTTIN"):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # in the background of a terminal: no commands, but no halt
    async for line in _lines(stdin):
        try:
            click.echo(json.dumps(await carry_out(clock, line)))
        except OSError as error:
            log.error("nobody hears what the clock says: %s", error)
            return


async def carry_out(clock: Clock, line: str) -> dict[str, Any]:
    """What one line does, as it is told: where the clock is and what happened, or ``error``."""
    happened: list[Event] = []
    match line.split():
        case ["advance", seconds]:
            try:
                happened = await clock.advance(float(seconds))
            except ValueError as error:
                return {"error": f"{line.strip()!r}: {error}"}
        case ["stop"]:
            clock.stop()
        case ["resume"]:
            clock.resume()
        case ["now"]:
            pass
        case _:
            return {"error": f"{line.strip()!r}: {USAGE}"}
    return {
        "now": round(clock.now(), 3),
        "time": datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="milliseconds"),
        "running": clock.running,
        "events": [event.to_json() for event in happened],
    }


async def _lines(file: int) -> AsyncIterator[str]:
    """Lines with something on them. They are read in a thread: a file that others have too stays as it is."""
    rest = b""
    while True:
        try:
            data = await trio.to_thread.run_sync(os.read, file, READ_SIZE, abandon_on_cancel=True)
        except OSError:  # closed, or a terminal that is another's
            return
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        for line in lines:
            if line.strip():
                yield line.decode("utf-8", "replace")
        if not data:
            return
        rest = rest[:LONGEST]
