"""The clock commands of ``mockbroker serve`` and ``mockbroker replay`` with ``--clock manual``.

Each line on stdin is a command, such as ``advance 5``. The response to each command is a JSON line on stdout.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Protocol

import click

from mockbroker.broker.journal import Event
from mockbroker.cli.stdin import STDIN, read_lines

USAGE = "expected advance SECONDS, stop, resume or now"
log = logging.getLogger("mockbroker")


class CommandedClock(Protocol):
    """The interface of a clock that commands can control, such as ``mockbroker.api.clock.Clock``."""

    @property
    def running(self) -> bool:
        """Whether the clock is running."""
        ...

    def now(self) -> float:
        """Return the time of the clock in seconds since the cluster was started."""
        ...

    def wall(self) -> float:
        """Return the wall-clock time that the cluster uses, in seconds since 1970."""
        ...

    def stop(self) -> None:
        """Stop the clock."""

    def resume(self) -> None:
        """Let a stopped clock run again."""

    async def advance(self, seconds: float) -> list[Event]:
        """Move the clock forward by a number of seconds, and return the journal events of the deadlines that became
        due.

        Raises:
            ValueError: The number of seconds is negative or too large.
        """
        ...


async def run_commands(clock: CommandedClock, stdin: int = STDIN) -> None:
    """Run the clock commands in a file until the file ends or a response cannot be written.

    The end of the commands does not stop the broker.

    Args:
        clock: The clock to control.
        stdin: File descriptor to read the commands from.
    """
    from json import dumps  # on demand: a cluster with the real clock does not need it

    async for line in read_lines(stdin):
        try:
            click.echo(dumps(await run_command(clock, line)))
        except OSError as error:
            log.error("cannot write the response of a clock command to stdout: %s; no further commands are read", error)
            return


async def run_command(clock: CommandedClock, line: str) -> dict[str, Any]:
    """Run one clock command: ``advance SECONDS``, ``stop``, ``resume`` or ``now``; return its response for JSON.

    The keys of the response are ``now`` (the clock's time in seconds), ``time`` (the wall-clock time in ISO 8601, UTC),
    ``running`` (False if the clock is stopped) and ``events`` (the journal events of the deadlines that became due).
    For an invalid command, the only key is ``error``.
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
