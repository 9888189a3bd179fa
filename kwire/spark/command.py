"""The command ``kwire pipeline``, which converts captures to tables with Spark."""

from __future__ import annotations

import logging
import os
import sys

import click
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from kwire.analysis.findings.fold import settings_of
from kwire.analysis.tables import ON_REQUEST
from kwire.analysis.what_if.replay import NAMES
from kwire.capture.files.capture_file import no_traffic
from kwire.capture.tls.keylog import KeyLogFile
from kwire.capture.tls.keylog_option import keylog_option
from kwire.command import FiniteRange, one_line, read_errors, report_problems
from kwire.spark import input_files, source
from kwire.spark.failures import interrupted_later, spark_errors
from kwire.spark.job import Job, name_of
from kwire.spark.output import Output
from kwire.spark.session import is_connect, session_on, start
from kwire.spark.stream import Stream
from kwire.spark.stream_lock import locked
from kwire.spark.topic import connector_options
from kwire.topic_address import is_topic

SLOW = "Python worker failed to connect back"  # Spark's message after a timeout of 10 s
NOT_READ = "not read yet: {files}: a file is complete {settle:g} s after its last change (--settle)"
ATTEMPTS = 5  # starts of a stream without a complete micro-batch
LOG = logging.getLogger(__name__)


@click.command("pipeline")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="GLOB",
    help="Captures: files, folders, patterns; or a topic with frames. Files after it are inputs too.",
)
@click.argument("more", nargs=-1, metavar="[GLOB]...")
@click.option("--output", required=True, metavar="DIR", help="Folder for the tables, one subfolder each.")
@click.option(
    "--master", help="Spark's master, or a Spark Connect server (sc://HOST:PORT).  [default: this machine, all cores]"
)
@click.option(
    "--stream", is_flag=True, help="Continue with each file that a rotating capture completes, until interrupted."
)
@click.option("--once", is_flag=True, help="With --stream: stop after all files that are complete now.")
@click.option(
    "--settle",
    type=FiniteRange(min=0),
    default=60.0,
    show_default=True,
    help="With --stream: seconds without change after which the newest file counts as complete.",
)
@click.option("--capture-id", help="Name of the capture in the tables.  [default: the file or folder]")
@click.option("--format", "form", default="parquet", show_default=True, help="Any format that Spark can write.")
@click.option("--what-if", "assignor", type=click.Choice(NAMES), help="Replay groups with this assignor and compare.")
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="DETECTOR.NAME=VALUE",
    help="Change a threshold of a detector of findings. May be repeated.",
)
@keylog_option
@click.option("--split-size", type=click.IntRange(min=1), help="Bytes of a file per task.")
@click.option(
    "--class-archive",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="On this machine: start faster with an archive of Java classes, which the first run writes.",
)
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
    thresholds: tuple[str, ...],
    keylog: KeyLogFile | None,
    split_size: int | None,
    class_archive: str | None,
) -> None:
    """Convert captures into tables, with Spark.

    docs/pipeline.md describes the tables. They can contain any number of captures. The rows of an earlier run for the
    same capture are replaced. With --what-if, two more tables have the results of another assignor.

    \b
    kwire pipeline --input 'captures/*.pcap' --output tables
    kwire pipeline --input captures --output tables --stream
    kwire pipeline --input kafka://localhost:9092/frames --output tables --stream

    `mockbroker proxy --record` writes topics such as the one in the last line. Spark needs its Kafka connector to read
    them.

    The exit code, also of a stream that ends, is 1 if a file is damaged or its packets are truncated by a snap length.
    All data that could be read is in the tables.
    """
    if once and not stream:
        raise click.UsageError("--once requires --stream")
    if stream and assignor is not None:
        raise click.UsageError("--what-if cannot be used with --stream: it needs the complete history of a group")
    if stream and is_connect(master):
        raise click.UsageError(
            "--stream cannot be used with a Spark Connect server: the stream would continue after this command ends"
        )
    if any(map(is_topic, (*inputs, *more))) and len((*inputs, *more)) > 1:
        raise click.UsageError("a topic cannot be combined with other inputs: run the command once for each")
    if class_archive is not None and not os.path.isdir(folder := os.path.dirname(os.path.abspath(class_archive))):
        raise click.UsageError(f"--class-archive {class_archive}: folder {folder} does not exist: create it first")
    try:
        settings = settings_of(thresholds)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    paths_or_patterns = (*inputs, *more)
    is_of_topic = is_topic(paths_or_patterns[0])
    if is_of_topic:
        with read_errors():
            connector_options(paths_or_patterns[0])  # errors before Spark starts
    extra_tables = () if assignor is None else tuple(ON_REQUEST)
    place, name = Output(output, form, extra_tables), capture_id or name_of(paths_or_patterns)
    if stream:
        followed = Stream(
            paths_or_patterns, place, name, split_size or source.SPLIT, settle, settings=settings, keylog=keylog
        )
        if missing := input_files.without_files(paths_or_patterns):
            click.echo(one_line(no_traffic(missing, ())), err=True)
        with spark_errors(), locked(followed.work):
            spark = session_on(_start(master, class_archive))
            try:
                run_stream(followed, spark, once=once)
            finally:  # also at Ctrl-C
                followed.finish(spark)
        if once and (unread := followed.unread()):
            click.echo(one_line(NOT_READ.format(files=", ".join(unread), settle=settle)), err=True)
        sys.exit(1 if followed.damaged else 0)
    with read_errors():
        paths = list(paths_or_patterns) if is_of_topic else input_files.files(paths_or_patterns)
    if not paths:
        raise click.ClickException(no_traffic(paths_or_patterns, paths))
    job = Job(paths, place, name, split_size, assignor=assignor, settings=settings, keylog=keylog)
    with spark_errors():
        report = job.run(_start(master, class_archive))
    report_problems(report.damaged, report.notes, no_traffic(paths_or_patterns, paths) if report.is_empty else None)


def run_stream(followed: Stream, spark: SparkSession, *, once: bool) -> None:
    """Run a stream until it ends, and start it again after a timeout of a Python process.

    In each micro-batch, Spark starts a Python process and waits 10 s for its connection, which is not enough on a busy
    machine. A stream that is started again repeats the micro-batch.

    Args:
        followed: the stream.
        spark: session that runs the stream.
        once: True if the stream ends after the files that are complete now.

    Raises: StreamingQueryException if the stream fails for another reason, or ATTEMPTS times without a complete
        micro-batch.
    """
    attempts = 0
    while True:
        query = followed.start(spark, once=once)
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            attempts = 1 if query.lastProgress else attempts + 1
            if SLOW not in str(error) or attempts == ATTEMPTS:
                raise
            LOG.warning("the stream starts again: %s", SLOW)
        else:
            return
        finally:
            query.stop()


def _start(master: str | None, class_archive: str | None) -> SparkSession | SparkContext:
    try:
        with interrupted_later():
            return start(master, class_archive=class_archive)
    except RuntimeError as error:
        check = "" if master is None else f"check --master {master}; "
        raise click.ClickException(f"Spark did not start: {error}; {check}Spark needs Java 17 (JAVA_HOME)") from error
    except ConnectionError as error:
        raise click.ClickException(str(error)) from error
    except ValueError as error:
        raise click.ClickException(f"wrong address {master}: {error}") from error
