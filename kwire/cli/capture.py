"""``kwire capture``: captured traffic, a row for each frame."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import datetime
from itertools import chain, islice
from typing import IO, Any

import click

from kwire.capture.calls.model import GAPS, NOT_READ, NOTED, REASONS
from kwire.capture.files.blocks import PASSED_OVER, SNAPLEN
from kwire.capture.files.capture_file import no_traffic
from kwire.capture.reading import read
from kwire.capture.rows import COLUMNS, DIRECTIONS, MORE, NUMBERS, Row, rows
from kwire.cli import lines
from kwire.command import one_line, report_problems
from kwire.filter import Column, FilterError, parse
from kwire.json.expanded import Context
from kwire.messages import APIS

BATCH = 10_000  # rows written at a time, of Parquet
LINE = "{:28}{:22}{:1} {:22}{:24}{:>3}{:>9}{:>9} {:>11} {:>6}  {}"
FORMATS = ("jsonl", "table", "parquet")


@click.command("capture")
@click.argument("paths", metavar="FILE|DIR...", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--format", "form", type=click.Choice(FORMATS), default="jsonl", show_default=True)
@click.option(
    "-o", "--output", metavar="OUT", type=click.Path(dir_okay=False), help="Write there instead of to stdout."
)
@click.option("--where", metavar="EXPR", help="Only frames of which this holds, such as latency_ms > 10.")
@click.option("--no-redact", is_flag=True, help="Show SASL tokens and other secrets as they are.")
@click.option(
    "--port",
    "ports",
    type=click.IntRange(1, 65535),
    multiple=True,
    help="On which brokers listen; nothing else is looked at.",
)
@click.option(
    "--records", "open_records", is_flag=True, help="Open record batches, also compressed ones, beside their bytes."
)
def command(
    paths: tuple[str, ...],
    form: str,
    output: str | None,
    where: str | None,
    no_redact: bool,
    ports: tuple[int, ...],
    open_records: bool,
) -> None:
    """Captured traffic, a row for each frame: pcap, pcapng, gzip of them, and frame logs; folders are searched.

    \b
    kwire capture trace.pcap
    kwire capture --where "api_name == 'JoinGroup' and latency_ms > 10" --format table captures/
    kwire capture --where "body.group_id == 'orders'" -o frames.parquet --format parquet trace.pcapng.gz

    What is damaged is passed over, up to the next record, and told: by a row of its own with "error", a line on stderr,
    and exit code 1. So are files whose packets were cut by a snap length, with their number ("packets"). Packets that
    cannot be Kafka's, connections that are something else (TLS) and those with bytes missing have a row with "reason"
    and "note", without a direction.
    """
    if form == "parquet" and output is None:
        raise click.UsageError("--format parquet needs -o OUT")
    check, used = _filter(where)
    lines.writable(output, paths)
    bar = lines.progress(paths, hidden=output is None and sys.stdout.isatty())
    with lines.seldom_collected(), ExitStack() as stack:
        reading = read(paths, ports=ports, redacted=not no_redact, progress=stack.enter_context(bar))
        context = Context(reading.name_of, open_records)
        found = rows(reading, context, where=check, needs_body="body" in used)
        some = _write(found, form, stack.enter_context(_opened(output)))
    missing = None if some or where is not None else no_traffic(paths, reading.files, ports)
    report_problems(reading.damage, reading.notes(), missing)


def _filter(where: str | None) -> tuple[Callable[[Row], bool] | None, set[str]]:
    if where is None:
        return None, set()
    try:
        return parse(where, columns())
    except FilterError as error:
        raise click.UsageError(f"--where: {error}") from error


def columns() -> dict[str, Column]:
    """What a filter may ask of the columns."""
    known: dict[str, Sequence[str]] = {
        "api_name": [api.name for api in APIS.values()],
        "direction": DIRECTIONS,
        "reason": (*REASONS, *NOT_READ, GAPS, NOTED, *PASSED_OVER, SNAPLEN),
    }
    return {
        name: Column(None if name == "body" else "a number" if name in NUMBERS else "text", known.get(name))
        for name in (*COLUMNS, *MORE)
    }


def _opened(output: str | None) -> AbstractContextManager[IO[bytes]]:
    """Where rows go; stdout is not closed."""
    if output is None:
        return nullcontext(sys.stdout.buffer)
    try:
        return open(output, "wb")
    except OSError as error:
        raise click.UsageError(f"cannot write {output!r}: {error.strerror}") from error


def _write(found: Iterator[Row], form: str, out: IO[bytes]) -> bool:
    """Write the rows; whether there was one."""
    first = next(found, None)
    if first is not None:
        found = chain((first,), found)
    if form == "parquet":
        write_parquet(found, out)
    elif form == "jsonl":
        dump = json.JSONEncoder().encode
        while some := list(islice(found, 512)):
            out.write(("\n".join(map(dump, some)) + "\n").encode())
    else:
        out.write(
            LINE.format("time", "client", "", "broker", "api", "v", "id", "size", "latency", "error", "").encode()
            + b"\n"
        )
        for row in found:
            out.write(table_line(row).encode("utf-8", "backslashreplace") + b"\n")
    out.flush()
    return first is not None


def table_line(row: Row) -> str:
    """One row as text for people."""
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


def write_parquet(found: Iterator[Row], output: IO[bytes]) -> None:
    """Rows as a Parquet file: times as timestamps in UTC, bodies as JSON text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = {"api_key": pa.int16(), "api_version": pa.int16(), "correlation_id": pa.int32(), "size": pa.int64()}
    numbers |= {"error_code": pa.int16(), "latency_ms": pa.float64(), "position": pa.int64(), "packets": pa.int64()}
    numbers["time"] = pa.timestamp("us", tz="UTC")
    schema = pa.schema([(name, numbers.get(name, pa.string())) for name in (*COLUMNS, *MORE)])
    with pq.ParquetWriter(output, schema, compression="zstd") as writer:
        while some := list(islice(found, BATCH)):
            columns = [pa.array([_cell(row, name) for row in some], schema.field(name).type) for name in schema.names]
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
