"""``mockbroker conform``: recorded conversations, played against our broker or any other."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click
import trio

from mockbroker.cli.quiet import SILENT, quiet

BAD = frozenset({"differs", "failed"})
AT_ONCE = 8  # conversations played side by side, each with a broker of its own; most of them only wait


@click.command("conform")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--against", metavar="HOST:PORT", help="Play against this broker instead of one of our own.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a line.")
def command(files: tuple[Path, ...], against: str | None, as_json: bool) -> None:
    """Play recorded conversations and print the first difference of each, those that differ or failed last.

    Each is played against a fresh broker with the configuration and topics that the conversation names. A conversation
    that needs other settings than the broker of --against has is listed as waiting. Exit 1 if any answer differs.

    Order and content of answers count, and that none comes before its time; that one is late counts for our own broker
    alone, by its own clock. One that differs while the machine is busy is played again, up to five times.
    """
    from mockbroker.lab.conform.runner import Outcome, run

    address: tuple[str, int] | None = None
    if against:
        host, colon, port = against.rpartition(":")
        if not colon or not port.isdecimal():
            raise click.UsageError(f"--against {against}: expected HOST:PORT")
        address = host, int(port)
    counted = {"ok": 0, "differs": 0, "waiting": 0, "failed": 0}
    bad: list[Outcome] = []

    def show(outcome: Outcome) -> None:
        if as_json:
            click.echo(json.dumps(outcome.to_json()))
        else:
            click.echo(f"{outcome.verdict:<8} {outcome.name}{': ' if outcome.detail else ''}{outcome.detail}")

    def report_outcome(outcome: Outcome) -> None:
        counted[outcome.verdict] += 1
        if outcome.verdict in BAD:
            bad.append(outcome)
        else:
            show(outcome)

    with quiet(SILENT):  # conversations have malformed requests on purpose
        trio.run(partial(run, files, address, report_outcome, at_once=1 if address else AT_ONCE))
    for outcome in bad:
        show(outcome)
    click.echo(", ".join(f"{count} {verdict}" for verdict, count in counted.items()), err=True)
    sys.exit(1 if bad else 0)
