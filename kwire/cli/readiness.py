"""The command ``kwire readiness``, which reports whether captured clients and groups are ready for Kafka 4."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kwire.analysis.columns import Tables
from kwire.analysis.readiness import BLOCKED, NEEDED, TARGETS, Summary, labels, statements
from kwire.analysis.report.readiness_page import page
from kwire.capture.files.capture_file import STDIN, no_traffic
from kwire.capture.tls.keylog import KeyLogFile
from kwire.capture.tls.keylog_option import keylog_option
from kwire.cli.analysed import analysed_parts, is_table_folder, stored_tables
from kwire.cli.interface import interface_option
from kwire.cli.lines import writable
from kwire.cli.ports import ports_option
from kwire.command import one_line, report_problems


@click.command("readiness")
@click.argument("paths", nargs=-1, metavar="FILE|DIR...")
@click.option("--target", type=click.Choice(TARGETS), default="4.2", show_default=True, help="Release to upgrade to.")
@ports_option
@interface_option
@keylog_option
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the report as a page to this file, too."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of text.")
def command(
    paths: tuple[str, ...],
    target: str,
    ports: tuple[int, ...],
    interface: str | None,
    keylog: KeyLogFile | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Report whether the clients and groups in captures are ready for Kafka 4.

    For each client id and library version, the report has the requests in versions that Kafka 4 removed (KIP-896), the
    message formats older than record batches, and the transaction protocol (TV1, or TV2 of KIP-890). For each group, it
    shows whether the group can move to the consumer protocol (KIP-848).

    Instead of captures, the argument can be one folder of tables, which `kwire groups --tables` or `kwire pipeline`
    wrote. With --html, the report is also a page.

    The exit code is 1 if a client is blocked, if a file is damaged, or if there is no Kafka traffic.
    """
    writable(html, paths)
    tables: Tables
    damage: list[object] = []
    notes: list[str] = []
    files: Sequence[str] = paths
    if len(paths) == 1 and is_table_folder(paths[0]):
        tables = stored_tables(paths[0], NEEDED, damage)
    else:
        summary = Summary()
        for part in analysed_parts(paths, "readiness", ports, interface=interface, keylog=keylog, frames=False):
            summary.add(part.tables)
            if part.is_last:
                damage += part.reading.damage
                notes += part.reading.notes()
                files = part.reading.files
        tables = summary.tables
    rows = list(statements(tables))
    if html is not None:
        title = Path(paths[0]).name if paths and paths[0] != STDIN else interface or "stdin"
        html.write_text(page(rows, target, title), "utf-8", "backslashreplace")
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        for row, name in zip(rows, labels(rows), strict=True):
            software = f" ({row.software})" if row.software else ""
            click.echo(one_line(f"{row.state:8} {row.kind:6} {name}{software}: {row.detail}", 10_000))
    blocked = sum(row.state == BLOCKED for row in rows)
    missing = None if rows or damage else no_traffic(paths, files, ports)
    report_problems(damage, notes, missing)
    if blocked:
        click.echo(f"{blocked} of the clients cannot use Kafka {target}", err=True)
        sys.exit(1)
