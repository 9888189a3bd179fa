"""The command ``kwire readiness``, which reports whether captured clients and groups are ready for Kafka 4."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import click

from kwire.analysis.readiness import BLOCKED, TARGETS, statements
from kwire.capture.tls.keylog import KeyLogFile
from kwire.cli.analysed import analysed
from kwire.cli.interface import interface_option
from kwire.cli.keylog import keylog_option
from kwire.command import one_line, report_problems


@click.command("readiness")
@click.argument("paths", nargs=-1, metavar="FILE|DIR...")
@click.option("--target", type=click.Choice(TARGETS), default="4.2", show_default=True, help="Release to upgrade to.")
@interface_option
@keylog_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of text.")
def command(
    paths: tuple[str, ...], target: str, interface: str | None, keylog: KeyLogFile | None, as_json: bool
) -> None:
    """Report whether the clients and groups in captures are ready for Kafka 4.

    For each client id and library version, the report has the requests in versions that Kafka 4 removed (KIP-896), the
    message formats older than record batches, and the transaction protocol (TV1, or TV2 of KIP-890). For each group, it
    shows whether the group can move to the consumer protocol (KIP-848).

    The exit code is 1 if a client is blocked, or if a file is damaged.
    """
    tables, reading = analysed(paths, "readiness", interface=interface, keylog=keylog, frames=False)
    rows = list(statements(tables))
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        for row in rows:
            software = f" ({row.software})" if row.software else ""
            click.echo(one_line(f"{row.state:8} {row.kind:6} {row.name}{software}: {row.detail}", 10_000))
    blocked = sum(row.state == BLOCKED for row in rows)
    report_problems(reading.damage, reading.notes(), None)
    if blocked:
        click.echo(f"{blocked} of the clients cannot use Kafka {target}", err=True)
        sys.exit(1)
