"""``kwire pipeline``: captures into tables, through Spark."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import click

from kwire.analysis.tables import ON_REQUEST
from kwire.analysis.what_if.replay import NAMES
from kwire.capture.files.capture_file import no_traffic
from kwire.command import report_problems
from kwire.spark import source
from kwire.spark.job import Job, name_of
from kwire.spark.output import Output
from kwire.spark.session import session
from kwire.spark.stream import Stream


@click.command("pipeline")
@click.option(
    "--input", "inputs", multiple=True, required=True, metavar="GLOB", help="Captures: files, folders, patterns."
)
@click.argument("more", nargs=-1, metavar="[GLOB]...")
@click.option("--output", required=True, metavar="DIR", help="Where the tables go, a folder each.")
@click.option("--master", help="Spark's master; by default this machine, all its cores.")
@click.option(
    "--stream", is_flag=True, help="Go on with the files that a rotating capture completes, until interrupted."
)
@click.option("--once", is_flag=True, help="With --stream: stop when all complete files are done.")
@click.option(
    "--settle",
    type=float,
    default=60.0,
    show_default=True,
    help="With --stream: seconds until the newest file is complete.",
)
@click.option("--capture-id", help="Name of the capture in the tables; by default that of the file or folder.")
@click.option("--format", "form", default="parquet", show_default=True, help="Any format that Spark writes.")
@click.option("--what-if", "assignor", type=click.Choice(NAMES), help="Replay groups through this assignor.")
@click.option("--split-size", type=click.IntRange(min=1), help="Bytes of a file that one task reads.")
def command(
    inputs: tuple[str, ...],
    more: tuple[str, ...],
    output: str,
    master: str | None,
    stream: bool,
    once: bool,
    settle: float,
    capture_id: str | None,
    form: str,
    assignor: str | None,
    split_size: int | None,
) -> None:
    """Captures into tables, through Spark.

    The tables are those of docs/pipeline.md, for any number of captures side by side. What an earlier run left of the
    same capture is replaced. With --what-if there are two more tables: what another assignor would have done.

    \b
    kwire pipeline --input 'captures/*.pcap' --output tables
    kwire pipeline --input captures --output tables --stream

    Exit 1 if a file is damaged or its packets were cut by a snap length, also at the end of a stream; all that could be
    read is in the tables.
    """
    if once and not stream:
        raise click.UsageError("--once is for --stream")
    if stream and assignor is not None:
        raise click.UsageError("--what-if is not for --stream: it needs the whole history of a group")
    given = (*inputs, *more)
    asked = () if assignor is None else tuple(ON_REQUEST)
    place, name = Output(output, form, asked), capture_id or name_of(given)
    if stream:
        followed = Stream(given, place, name, split_size or source.SPLIT, settle)
        query = followed.start(_session(master), once=once)
        with suppress(KeyboardInterrupt):
            query.awaitTermination()
        query.stop()
        sys.exit(1 if followed.damaged else 0)
    try:
        paths = source.files(given)
    except OSError as error:
        raise click.UsageError(f"cannot read {error.filename}: {error.strerror}") from error
    if not paths:
        raise click.ClickException(no_traffic(given, paths))
    told = Job(paths, place, name, split_size, assignor=assignor).run(_session(master))
    report_problems(told.damaged, told.notes)


def _session(master: str | None) -> Any:
    try:
        return session(master)
    except RuntimeError as error:
        raise click.ClickException(f"Spark did not start; it needs Java 17: {error}") from error
