"""The command ``kwire compare``, which compares two captures and shows which measures became worse."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kwire.analysis.columns import Tables
from kwire.analysis.differences import BETTER, NEEDED, SAME, WORSE, Difference, differences, hours
from kwire.capture.files.capture_file import no_traffic
from kwire.capture.tls.keylog import KeyLog, KeyLogFile
from kwire.capture.tls.keylog_option import keylog_option
from kwire.cli.analysed import analysed, is_table_folder, stored_tables
from kwire.cli.ports import ports_option
from kwire.command import CapturePath, one_line, report_problems

WIDEST = 70  # characters of a column
TITLES = ((WORSE, "worse"), (BETTER, "better"), (SAME, "about the same"), (None, "not judged"))


@click.command("compare")
@click.argument("before", metavar="BEFORE", type=CapturePath(exists=True))
@click.argument("after", metavar="AFTER", type=CapturePath(exists=True))
@click.option("--all", "everything", is_flag=True, help="Also measures that are about the same or not judged.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object with all measures instead of text.")
@click.option("--check", is_flag=True, help="Exit with code 1 if a measure is worse.")
@ports_option
@keylog_option
def command(
    before: str,
    after: str,
    everything: bool,
    as_json: bool,
    check: bool,
    ports: tuple[int, ...],
    keylog: KeyLogFile | None,
) -> None:
    """Compare two captures, and show which measures became worse.

    BEFORE and AFTER are each a capture file, a folder of capture files, or a folder of tables. `kwire pipeline` and
    `kwire groups --tables` write folders of tables.

    Groups are compared by rebalances, stops, refused commits, lag and violations. APIs are compared by latency. Errors
    and findings follow. Counts are compared per hour of capture, and errors per thousand calls. The latency of requests
    that wait in the broker, such as Fetch, is shown with --all and not judged.

    \b
    kwire compare monday.pcap tuesday.pcap
    kwire compare tables-4.1 tables-4.2 --check --json
    """
    problems: list[object] = []
    notes: list[str] = []
    one, two = (_tables(path, ports, keylog, problems, notes) for path in (before, after))
    made = differences(one, two)
    if as_json:
        length = {"before": round(hours(one) * 3600, 3), "after": round(hours(two) * 3600, 3)}
        content = {"seconds": length, "differences": [asdict(each) for each in made]}
        click.echo(json.dumps(content, indent=1))
    else:
        click.echo(f"before: {one_line(before)}, {hours(one) * 3600:.1f} s of capture")
        click.echo(f"after:  {one_line(after)}, {hours(two) * 3600:.1f} s of capture")
        for line in text(made, everything=everything):
            click.echo(one_line(line, 10_000))
    report_problems(problems, notes)
    if check and any(each.verdict == WORSE for each in made):
        sys.exit(1)


def _tables(
    path: str, ports: Collection[int], keylog: KeyLog | None, problems: list[object], notes: list[str]
) -> Tables:
    """Return the tables of a capture or of a folder of tables.

    Args:
        path: capture file, folder of capture files, or folder of tables.
        ports: ports of the brokers; other traffic of a capture is ignored. Empty for all ports.
        keylog: secrets of TLS connections; None to use only the secrets in pcapng files.
        problems: list to which damaged positions of files are added, also those in the tables.
        notes: list to which lines about skipped packets and undecoded connections are added.

    Raises: click.UsageError or click.ClickException for a path that cannot be read, or without Kafka traffic.
    """
    if is_table_folder(path):
        return stored_tables(path, NEEDED, problems)
    tables, reading = analysed([path], Path(path).name, ports, keylog=keylog, frames=False)
    if not tables["api_usage"] and not reading.damage:
        raise click.ClickException(no_traffic([path], reading.files, ports))
    problems += reading.damage
    notes += reading.notes()
    return tables


def text(made: Sequence[Difference], *, everything: bool) -> Iterator[str]:
    """Yield the lines of text about differences. Measures that became worse are first.

    Args:
        made: all differences, in order.
        everything: True to include measures that are about the same or are not judged.
    """
    for verdict, title in TITLES:
        own = [each for each in made if each.verdict == verdict]
        is_listed = everything or verdict in (WORSE, BETTER)
        if own or is_listed:
            yield f"{title}: {len(own)}"
        if own and is_listed:
            yield from _columns([("", "", "before", "after", "change"), *map(_cells, own)])


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [min(max(map(len, column)), WIDEST) for column in zip(*rows, strict=True)]
    for name, measure, *values, change in rows:
        numbers = [value.rjust(width) for value, width in zip(values, widths[2:], strict=False)]
        yield "  ".join(["", name.ljust(widths[0]), measure.ljust(widths[1]), *numbers, change]).rstrip()


def _cells(each: Difference) -> tuple[str, ...]:
    unit = f", {each.unit}" if each.unit else ""
    values = _number(each.before), _number(each.after)
    return f"{each.kind} {each.name}", f"{each.measure}{unit}", *values, _change(each)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.10g}"


def _change(each: Difference) -> str:
    """Return the text of the change of a measure, such as ``x 2.10 per hour``.

    The text is ``new`` if the first value is 0, and ``gone`` if the second value is 0. It is "" if the value did not
    change or is missing in one of the captures.
    """
    is_rate = each.rate_before is not None and each.rate_after is not None
    first, second = (each.rate_before, each.rate_after) if is_rate else (each.before, each.after)
    per = " per 1,000 calls" if each.kind == "error" else " per hour"
    if first is None or second is None or first == second:
        return ""
    if not first:
        return "new"
    return f"x {second / first:.2f}{per if is_rate else ''}" if second else "gone"
