"""The commands ``mockbroker ctl clock``: show, stop, resume and advance the broker's clock."""

from __future__ import annotations

import re
from typing import Any

import click

from mockbroker.cli.ctl.session import CtlGroup, Session, pass_session
from mockbroker.cli.event_lines import event_line
from mockbroker.cli.tables import escape

MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


@click.group("clock", cls=CtlGroup)
def command() -> None:
    """Stop, resume and advance the broker's clock. The default command is show."""


@command.command("show")
@pass_session
def show(session: Session) -> None:
    """Show the mode and the time of the clock."""
    _show(session, session.client.ask("GET", "/v1/clock"))


@command.command("stop")
@pass_session
def stop(session: Session) -> None:
    """Stop the clock: only clock advance changes its time."""
    _show(session, session.client.ask("POST", "/v1/clock", body={"mode": "manual"}))


@command.command("resume")
@pass_session
def resume(session: Session) -> None:
    """Let a stopped clock run in real time again."""
    _show(session, session.client.ask("POST", "/v1/clock", body={"mode": "real"}))


@command.command("advance")
@click.argument("duration")
@pass_session
def advance(session: Session, duration: str) -> None:
    """Advance a stopped clock by DURATION, such as 500ms, 45s or 5m. Prints the resulting events."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?)(ms|s|m|h)", duration, re.ASCII)
    if not found:
        raise click.UsageError(f"{escape(duration)} is not a valid duration: expected one such as 500ms, 45s, 5m or 2h")
    change = {"advance_ms": float(found[1]) * MILLISECONDS[found[2]]}
    answer = session.client.ask("POST", "/v1/clock", body=change)
    _show(session, answer, *map(event_line, answer["events"]))


def _show(session: Session, answer: dict[str, Any], *events: str) -> None:
    session.show(answer, "\n".join([*events, f"{answer['mode']} {answer['time']}"]))
