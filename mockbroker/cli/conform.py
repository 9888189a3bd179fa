"""``mockbroker conform``: recorded conversations, played against a mockbroker or any other broker."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click
import trio

from mockbroker.cli.quiet import SILENT, quiet

BAD = frozenset({"differs", "failed"})
AT_ONCE = 8  # conversations played at the same time, each with its own broker; most of the time they wait


@click.command("conform")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--against", metavar="HOST:PORT", help="Play against this broker instead of a mockbroker.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
def command(files: tuple[Path, ...], against: str | None, as_json: bool) -> None:
    """Play recorded conversations and print the first difference of each; failures are listed last.

    Each conversation is played against a new mockbroker with the configuration and topics of the recording. With
    --against, a conversation that needs other settings than that broker has is listed as waiting. Exit 1 if any
    response differs.

    The order and the content of responses are compared, and that no response is early; a late response counts only for
    a mockbroker, by its manual clock. A conversation that differs while the machine is busy is repeated, up to five
    times.
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
