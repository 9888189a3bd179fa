"""The command ``kwire capture``, which prints one row per frame of captured traffic."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import datetime
from itertools import chain, islice
from typing import IO, Any

import click

from kwire.capture.calls.model import GAPS, NOT_READ, NOTED, ONE_SIDED, REASONS
from kwire.capture.files.blocks import RING_FULL, SKIP_REASONS, SNAPLEN
from kwire.capture.files.capture_file import no_traffic
from kwire.capture.reading import read
from kwire.capture.rows import COLUMNS, DIRECTIONS, MORE, NUMBERS, WAITING, Row, json_lines, rows
from kwire.capture.tls.keylog import KeyLogFile
from kwire.capture.tls.keylog_option import keylog_option
from kwire.cli import lines
from kwire.cli.interface import interface_option, opened_ring
from kwire.cli.ports import ports_option
from kwire.command import CapturePath, one_line, read_errors, report_problems
from kwire.filter import Column, FilterError, parse
from kwire.json.expanded import Context
from kwire.messages import NAMES

BATCH = 10_000  # rows per Parquet row group
LINE = "{:28}{:22}{:1} {:22}{:24}{:>3}{:>9}{:>9} {:>11} {:>6}  {}"
FORMATS = ("jsonl", "table", "parquet")


@click.command("capture")
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, type=CapturePath(exists=True, allow_dash=True))
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="jsonl",
    show_default=True,
    help="Format of the rows: JSON lines, a text table, or Parquet.",
)
@click.option(
    "-o", "--output", metavar="OUT", type=click.Path(dir_okay=False), help="Write to this file instead of stdout."
)
@click.option("--where", metavar="EXPR", help="Only frames that match, such as latency_ms > 10.")
@click.option("--no-redact", is_flag=True, help="Do not redact SASL tokens and other secrets.")
@ports_option
@interface_option
@keylog_option
@click.option("--records", "open_records", is_flag=True, help="Also decode record batches, including compressed ones.")
def command(
    paths: tuple[str, ...],
    form: str,
    output: str | None,
    where: str | None,
    no_redact: bool,
    ports: tuple[int, ...],
    interface: str | None,
    keylog: KeyLogFile | None,
    open_records: bool,
) -> None:
    """Print captured traffic, one row per frame.

    FILE is a pcap file, a pcapng file (both also compressed with gzip) or a frame log; DIR is a folder of these files.
    kafka://HOST:PORT/TOPIC is a topic that mockbroker proxy --record has written.
    The argument - reads pcap or pcapng from stdin, and --interface reads a network interface until Ctrl-C; both print
    each call when it is complete.

    \b
    kwire capture trace.pcap
    kwire capture --where "api_name == 'JoinGroup' and latency_ms > 10" --format table captures/
    tcpdump -i any -U -w - port 9092 | kwire capture - --format table
    kwire capture --interface eth0 --port 9092 --format table
    kwire capture --where "body.group_id == 'orders'" -o frames.parquet --format parquet trace.pcapng.gz

    If a part of a file is damaged, reading continues at the next valid record. The output then has a row with "error",
    stderr has a line, and the exit code is 1. Packets that were truncated by a snap length or lost at an interface are
    reported in the same way; their row has the number of these packets ("packets").

    A row with "reason" and "note", but without a direction, reports one of three things: skipped packets, a connection
    that is not Kafka (such as TLS without secrets), or a connection that was not decoded completely.
    """
    if form == "parquet" and output is None:
        raise click.UsageError("--format parquet requires -o OUT")
    check, used = _filter(where)
    lines.writable(output, paths)
    hidden = interface is not None or (output is None and sys.stdout.isatty())
    with lines.rare_garbage_collection(), ExitStack() as stack:
        ring = stack.enter_context(opened_ring(paths, interface))
        shown = stack.enter_context(lines.progress(paths, hidden=hidden))
        as_json = form == "jsonl" and "body" not in used and not open_records
        options: Any = {"redacted": not no_redact, "keylog": keylog, "progress": shown, "as_json": as_json}
        with read_errors():
            reading = read(paths, ports=ports, ring=ring, **options)
        context = Context(reading.name_of, open_records)
        waiting = 0 if reading.is_stream else WAITING
        selection: Any = {"where": check, "needs_body": "body" in used, "waiting": waiting}
        out = stack.enter_context(_opened(output))
        if form == "jsonl":
            any_row = _write_lines(json_lines(reading, context, **selection), out, at_once=reading.is_stream)
        else:
            any_row = _write(rows(reading, context, **selection), form, out, at_once=reading.is_stream)
    missing = None if any_row or where is not None else no_traffic(paths, reading.files, ports)
    report_problems(reading.damage, reading.notes(), missing)


def _filter(where: str | None) -> tuple[Callable[[Row], bool] | None, set[str]]:
    if where is None:
        return None, set()
    try:
        return parse(where, columns())
    except FilterError as error:
        raise click.UsageError(f"--where: {error}") from error


def columns() -> dict[str, Column]:
    """Return the columns that the filter of ``--where`` can use, by name: type and allowed values of each column."""
    values: dict[str, Sequence[str]] = {
        "api_name": [*NAMES.values()],
        "direction": DIRECTIONS,
        "reason": (*REASONS, *NOT_READ, GAPS, ONE_SIDED, NOTED, *SKIP_REASONS, SNAPLEN, RING_FULL),
    }
    found = {name: Column("a number" if name in NUMBERS else "text", values.get(name)) for name in (*COLUMNS, *MORE)}
    return found | {"body": Column(fields=_fields_of_bodies)}


def _fields_of_bodies() -> Mapping[str, Collection[str]]:
    from kwire.body_fields import kinds_of_fields  # imports all messages

    return kinds_of_fields()


def _opened(output: str | None) -> AbstractContextManager[IO[bytes]]:
    """Open the output file for writing, for a ``with`` block.

    ``output``: path of the file; None for stdout, which stays open after the block.

    Raises: click.UsageError if the file cannot be written.
    """
    if output is None:
        return nullcontext(sys.stdout.buffer)
    try:
        return open(output, "wb")
    except OSError as error:
        raise click.UsageError(f"cannot write {output!r}: {error.strerror}") from error


def _write(rows: Iterator[Row], form: str, out: IO[bytes], *, at_once: bool = False) -> bool:
    """Write rows to a file; return False if there was no row.

    Args:
        rows: rows of frames and problems.
        form: "table" for lines of text, or "parquet".
        out: output file, open for writing.
        at_once: True to flush the file after each line of text. Ignored for "parquet".
    """
    first = next(rows, None)
    if first is not None:
        rows = chain((first,), rows)
    if form == "parquet":
        write_parquet(rows, out)
    else:
        out.write(
            LINE.format("time", "client", "", "broker", "api", "v", "id", "size", "latency", "error", "").encode()
            + b"\n"
        )
        for row in rows:
            out.write(table_line(row).encode("utf-8", "backslashreplace") + b"\n")
            if at_once:
                out.flush()
    out.flush()
    return first is not None


def _write_lines(lines: Iterator[bytes], out: IO[bytes], *, at_once: bool) -> bool:
    """Write lines to a file; return False if there was no line. ``at_once``: True to flush the file after each line."""
    any_line = False
    while batch := list(islice(lines, 1 if at_once else 512)):
        any_line = True
        out.write(b"".join(batch))
        if at_once:
            out.flush()
    out.flush()
    return any_line


def table_line(row: Row) -> str:
    """Return a row of a frame or problem as one line of the text table."""
    if row.get("error") and row["direction"] is None:
        place = "" if row.get("position") is None else f" at byte {row['position']}"
        return one_line(f"{row['time'] or '':28}{row['file']}{place}: {row['error']}")
    if row["direction"] is None:
        about = row["file"] or f"{row['client']} - {row['broker']}"
        return one_line(f"{row['time'] or '':28}{about}: {row['note']}")
    latency = "" if row["latency_ms"] is None else f"{row['latency_ms']:.3f} ms"
    arrow = "<" if row["direction"] == "response" else ">"
    shown = [row["time"], row["client"], arrow, row["broker"], row["api_name"], row["api_version"]]
    shown += [row["correlation_id"], row["size"], latency, row["error_code"], row.get("reason")]
    return one_line(LINE.format(*("" if value is None else value for value in shown)).rstrip())


def write_parquet(rows: Iterator[Row], output: IO[bytes]) -> None:
    """Write rows as a Parquet file: times as timestamps in UTC, bodies as JSON text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = {"api_key": pa.int16(), "api_version": pa.int16(), "correlation_id": pa.int32(), "size": pa.int64()}
    numbers |= {"error_code": pa.int16(), "latency_ms": pa.float64(), "position": pa.int64(), "packets": pa.int64()}
    numbers["time"] = pa.timestamp("us", tz="UTC")
    schema = pa.schema([(name, numbers.get(name, pa.string())) for name in (*COLUMNS, *MORE)])
    with pq.ParquetWriter(output, schema, compression="zstd") as writer:
        while batch := list(islice(rows, BATCH)):
            columns = [pa.array([_cell(row, name) for row in batch], schema.field(name).type) for name in schema.names]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _cell(row: Row, name: str) -> Any:
    value = row.get(name)
    if value is None:
        return None
    if name == "body":
        return json.dumps(value)
    if name == "time":
        return datetime.fromisoformat(value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
