"""All stages in one task, for small captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kwire.analysis.clusters import Clusters
from kwire.capture.tls.keylog import KeyLog
from kwire.spark import bundles
from kwire.spark.bundles import FOR_GROUPS, SUMMARY_KINDS, Bundle, Bundler, bundle, unbundle
from kwire.spark.capture_summary import CaptureSummary
from kwire.spark.first_stage import MOST_IN_RUN, follow_connections
from kwire.spark.following import ConnectionFollower
from kwire.spark.group_inputs import sent_to_groups
from kwire.spark.second_stage import fold_bundles
from kwire.spark.segment_references import ORDER, PACKED
from kwire.spark.source import CaptureReader, convert_in_one_task
from kwire.spark.table_builder import TableBuilder
from kwire.spark.worker import collect_garbage_rarely

MOST_HELD = 250_000  # rows that one task keeps for all stages: commits of many partitions are 1,000,000 rows in 20 MB


def write_small(
    spark: SparkSession | SparkContext,
    reader: CaptureReader,
    capture_id: str,
    staging: str,
    follow: type[ConnectionFollower] = ConnectionFollower,
    assignor: str | None = None,
    settings: Mapping[str, float] | None = None,
    keylog: KeyLog | None = None,
    most_rows: int = MOST_HELD,
) -> CaptureSummary | None:
    """Convert small captures to tables in ``staging`` with one task; return the summary with the written files.

    The task calls the functions of both stages. It encodes no bundles and sends no rows to other tasks, and the driver
    collects nothing between the stages. The task keeps its rows in memory, so it ends without a result if the captures
    have more than ``reader.size`` bytes of content, or more than ``most_rows`` rows. Then this function returns None.

    Args:
        spark: session or context that runs the task.
        reader: reader of the captures, which guesses no position. Its ``size`` is the maximum size of all captures.
        capture_id: name of the capture.
        staging: folder for the written files.
        follow: class that converts the segments of a connection; ReplayFollower if groups are replayed.
        assignor: name of the assignor with which groups are replayed; None for no replay.
        settings: changed thresholds of detectors, by ``detector.threshold``; None for all defaults.
        keylog: TLS secrets, besides those of pcapng files; None for none.
        most_rows: maximum number of rows between the stages, which the rows of ``frames`` are not.
    """
    about = capture_id, staging, follow, assignor, settings or {}, keylog
    convert = partial(_small, reader.paths, reader.size, most_rows, *about)
    found = convert_in_one_task(spark, reader, convert, bundles.SPARK)
    return CaptureSummary.of(one for batch in found for one in bundles.bundles_of(batch)) if found else None


def _small(
    paths: Sequence[str],
    most: int,
    most_rows: int,
    capture_id: str,
    staging: str,
    follow: type[ConnectionFollower],
    assignor: str | None,
    settings: Mapping[str, float],
    keylog: KeyLog | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    collect_garbage_rarely()
    references = gathered(batches, most)
    if references is None:
        return
    about = paths, capture_id, staging, follow, 0, keylog
    connections = follow_connections(Bundler(encodes=False), *about, _by_position(references))
    for_groups: list[Bundle] = []
    others: list[Bundle] = []
    of_summary: list[Bundle] = []
    held = 0
    for one in (one for complete in connections for one in complete):
        (for_groups if one.kind in FOR_GROUPS else of_summary if one.kind in SUMMARY_KINDS else others).append(one)
        held += len(one.rows)
        if held > most_rows:
            return
    known = CaptureSummary.of(of_summary)
    others += sent_to_groups(known.names, known.groups, known.replayed, known.by_producer, {}, for_groups)
    others.sort(key=attrgetter("about", "kind"))
    clusters = Clusters(known.statements)
    builder = TableBuilder(capture_id, known.names, clusters, frozenset(known.unread), assignor, settings)
    yield from fold_bundles(builder, staging, others)
    yield bundles.batch([bundle(one.kind, one.about, unbundle(one.rows)) for one in of_summary])


def gathered(batches: Iterator[pa.RecordBatch], most: int) -> pa.Table | None:
    """Return the references of all batches; None if the files have more than ``most`` bytes of content in all.

    The content of a file reaches to its last reference. ``batches``: each has references of one file.
    """
    gathered: list[pa.RecordBatch] = []
    ends: Counter[int] = Counter()
    for batch in batches:
        file, end = batch.column("file")[0].as_py(), int(batch.column("position").to_numpy().max())
        ends[file] = max(ends[file], end)
        if ends.total() > most:
            return None
        gathered.append(batch.drop_columns(["path"]))
    return pa.Table.from_batches(gathered, schema=PACKED.remove(PACKED.get_field_index("path")))


def _by_position(references: pa.Table) -> Iterator[pa.RecordBatch]:
    """Order references as ``by_connection`` does, in a task that has all references."""
    order = [(name, "ascending") for name in ("connection", *ORDER)]
    yield from references.sort_by(order).to_batches(max_chunksize=MOST_IN_RUN)
