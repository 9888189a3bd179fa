"""The command ``mockbroker conform``: plays recorded conversations against mockbroker or another broker."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click
import trio

from mockbroker.cli.quiet import SILENT, quiet
from mockbroker.proxy.addresses import Address

BAD = frozenset({"differs", "failed"})
CONCURRENCY = 8  # conversations played at once, each with its own broker; most of them only wait


@click.command("conform")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--against", metavar="HOST:PORT", help="Play against this broker instead of mockbroker.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per conversation.")
def command(files: tuple[Path, ...], against: str | None, as_json: bool) -> None:
    """Play recorded conversations against a broker, and print the first difference of each.

    The conversations that differ or failed are printed last; then the exit code is 1. Each conversation is played
    against a new mockbroker with the settings and topics of the recording. With --against, a conversation that needs
    other settings is listed as waiting for a broker with these settings.

    Responses must have the recorded content and order, and no response may be early. Late responses count as a
    difference only for mockbroker, whose clock measures them. A conversation that differs while the machine is busy is
    repeated up to five times.
    """
    from mockbroker.lab.conform.runner import Outcome, run

    address = None if against is None else Address.parse(against)
    if against is not None and address is None:
        raise click.UsageError(f"--against {against}: expected HOST:PORT, such as 127.0.0.1:9092")
    counts = {"ok": 0, "differs": 0, "waiting": 0, "failed": 0}
    bad: list[Outcome] = []

    def show(outcome: Outcome) -> None:
        if as_json:
            click.echo(json.dumps(outcome.to_json()))
        else:
            click.echo(f"{outcome.verdict:<8} {outcome.name}{': ' if outcome.detail else ''}{outcome.detail}")

    def report_outcome(outcome: Outcome) -> None:
        counts[outcome.verdict] += 1
        if outcome.verdict in BAD:
            bad.append(outcome)
        else:
            show(outcome)

    with quiet(SILENT):  # conversations contain malformed requests, which the broker would log
        trio.run(partial(run, files, address, report_outcome, at_once=1 if address else CONCURRENCY))
    for outcome in bad:
        show(outcome)
    click.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), err=True)
    sys.exit(1 if bad else 0)
