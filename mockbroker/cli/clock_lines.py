"""The clock commands of ``mockbroker serve --clock manual``: lines on stdin, each answered by a JSON line on stdout."""

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
MAX_LINE = 1_024  # bytes kept of an unfinished line; every command is shorter
USAGE = "expected advance SECONDS, stop, resume or now"
log = logging.getLogger("mockbroker")


async def run_commands(clock: Clock, stdin: int = STDIN) -> None:
    """Run the commands in a file until the file ends or a response cannot be written. The broker continues to run.

    Args:
        clock: The clock to control.
        stdin: File descriptor to read from.
    """
    if hasattr(signal, "SIGTTIN"):
        signal.signal(
            signal.SIGTTIN, signal.SIG_IGN
        )  # a background job of a terminal reads no commands, but is not stopped
    async for line in _lines(stdin):
        try:
            click.echo(json.dumps(await run_command(clock, line)))
        except OSError as error:
            log.error("clock commands end: cannot write the response to stdout: %s", error)
            return


async def run_command(clock: Clock, line: str) -> dict[str, Any]:
    """Run one clock command, and return the response as a JSON object.

    The response contains ``now`` (seconds), ``time``, ``running`` and ``events``; after an invalid command ``error``.
    """
    events: list[Event] = []
    match line.split():
        case ["advance", text]:
            try:
                seconds = float(text)
            except ValueError:
                return {"error": f"{line.strip()!r}: expected a number of seconds, got {text!r}"}
            try:
                events = await clock.advance(seconds)
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
        "events": [event.to_json() for event in events],
    }


async def _lines(file: int) -> AsyncIterator[str]:
    """Yield the lines of a file that are not blank; ``file``: file descriptor.

    A thread reads the file, so that a file shared with other processes need not be made non-blocking.
    """
    rest = b""
    while True:
        try:
            data = await trio.to_thread.run_sync(os.read, file, READ_SIZE, abandon_on_cancel=True)
        except OSError:  # closed, or the terminal of another process group
            return
        *lines, rest = (rest + data).split(b"\n") if data else (rest, b"")
        for line in lines:
            if line.strip():
                yield line.decode("utf-8", "replace")
        if not data:
            return
        rest = rest[:MAX_LINE]
