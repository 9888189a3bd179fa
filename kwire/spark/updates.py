"""The second stage of a stream on Spark: it updates the tables of groups and counts after a micro-batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from kwire.analysis.frames import located
from kwire.spark import bundles
from kwire.spark.bundles import (
    BUCKETS,
    CALLERS,
    FOR_GROUPS,
    OF_CALLERS,
    PER_CONNECTION,
    STREAM_ONLY,
    SUMMARY_KINDS,
    Rows,
    bundle,
    unbundle,
)
from kwire.spark.capture_summary import CaptureSummary
from kwire.spark.group_inputs import groups_in, send_to_groups
from kwire.spark.increments import Increments, final_mark, load_state, runs, save_state, state_path
from kwire.spark.parts import Parts
from kwire.spark.subjects import LateRowError

PENDING = "open "  # prefix of the kinds of rows of open connections


@dataclass(frozen=True, slots=True)
class Update:
    """What a task needs to know to update the tables of a bucket.

    Attributes:
        number: number of the micro-batch.
        staging: folder for the written files.
        folder: folder of the states of all buckets.
        versions: names of the versions of the states before the micro-batch.
        version: name of the version of the new states.
        rebuilt: buckets that are rebuilt from all rows so far.
    """

    number: int
    staging: str
    folder: str
    versions: Mapping[int, str]
    version: str
    rebuilt: Collection[int]


@dataclass(slots=True)
class Updated:
    """The result of an update.

    Attributes:
        written: paths of the written files, relative to the staging folder.
        late: buckets that have not been updated, because a row is older than their final rows.
        buckets: updated buckets.
        size: bytes of the new states.
    """

    written: list[str] = field(default_factory=list)
    late: set[int] = field(default_factory=set)
    buckets: set[int] = field(default_factory=set)
    size: int = 0


def bucket_column() -> Column:
    """Return the bucket of the key in the column ``about``, see ``bundles.bucket_of``."""
    number = sql.crc32("about")
    is_caller = reduce(or_, map(sql.col("about").startswith, CALLERS))
    bucket = sql.when(is_caller, number % OF_CALLERS).otherwise(number % (BUCKETS - OF_CALLERS) + OF_CALLERS)
    return bucket.cast("int")


def of_buckets(rows: DataFrame, known: CaptureSummary, buckets: Collection[int], prefix: str = "") -> DataFrame:
    """Return the bundles of groups and counts in some buckets.

    Data about topics and transactions, which may come from any connection, are copied to the groups that need them.

    Args:
        rows: bundles with the column ``bucket``.
        known: summary of all files up to the micro-batch.
        buckets: numbers of the buckets.
        prefix: prefix for the kinds of the result.
    """
    kind = sql.col("kind")
    left_out = ~kind.isin(*PER_CONNECTION, *FOR_GROUPS, *STREAM_ONLY, *SUMMARY_KINDS)
    found = rows.where(sql.col("bucket").isin(*buckets) & left_out).select("kind", "about", "rows")
    groups, by_producer = groups_in(known, buckets)
    if any(groups.values()) or any(by_producer.values()):
        send = partial(send_to_groups, known.names, groups, known.replayed, by_producer, {})
        for_groups = rows.where(kind.isin(*FOR_GROUPS)).select("kind", "about", "rows").mapInArrow(send, bundles.SPARK)
        found = found.unionByName(for_groups)
    return found.withColumn("kind", sql.concat(sql.lit(prefix), kind)) if prefix else found


def update(groups: DataFrame, per_connection: DataFrame, increments: Increments, about: Update, tasks: int) -> Updated:
    """Write the rows of a micro-batch to the staging folder, and store the new states of the buckets.

    Args:
        groups: bundles of groups and counts from ``of_buckets``. For a bucket that is rebuilt, all bundles so far.
        per_connection: bundles of the kinds PER_CONNECTION, whose keys begin with a file mark.
        increments: converter of rows and states.
        about: numbers and folders of the update.
        tasks: number of Spark tasks.
    """
    of_task = (sql.crc32("about") % tasks + BUCKETS).cast("int")  # connections are in no bucket
    every = groups.withColumn("bucket", bucket_column())
    every = every.unionByName(per_connection.select("kind", "about", "rows").withColumn("bucket", of_task))
    divided = every.repartition(tasks, "bucket") if tasks > 1 else every.coalesce(1)
    ordered = divided.sortWithinPartitions("bucket", "about", "kind")
    updated = Updated()
    for row in ordered.mapInArrow(partial(_update, increments, about), bundles.SPARK).collect():
        values = unbundle(bytes(row.rows))
        match row.kind:
            case "written":
                updated.written += values
            case "late":
                updated.late.update(values)
            case _:
                for bucket, size in values:
                    updated.buckets.add(bucket)
                    updated.size += size
    return updated


def _update(increments: Increments, about: Update, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Update the buckets of one task.

    Args:
        increments: converter of rows and states.
        about: numbers and folders of the update.
        batches: bundles with the column ``bucket``, in the order of the buckets.

    Yields: bundles of the kinds ``written``, ``states`` and ``late``, see ``Updated``.
    """
    parts = Parts(about.staging)
    states: list[tuple[int, int]] = []
    late: list[int] = []
    for bucket, by_key in runs(_groups(increments, parts, batches)):
        fresh: dict[str, Rows] = defaultdict(dict)
        pending: dict[str, Rows] = defaultdict(dict)
        for key, rows_by_kind in by_key.items():
            for kind, rows in rows_by_kind.items():
                if kind.startswith(PENDING):
                    pending[key][kind.removeprefix(PENDING)] = rows
                else:
                    fresh[key][kind] = rows
        state = None
        if bucket not in about.rebuilt:
            state = load_state(state_path(about.folder, about.versions[bucket], bucket))
        try:
            outcome = increments.bucket(state, fresh, pending)
        except LateRowError:
            late.append(bucket)
            continue
        for name, current in outcome.current:
            parts.add(name, current, bundles.bucket_mark(bucket))
        for name, final in outcome.final:
            parts.add(name, final, final_mark(bucket, about.number))
        size = save_state(state_path(about.folder, about.version, bucket), outcome.state)
        states.append((bucket, size))
    yield bundles.batch([bundle("written", "", parts.close()), bundle("states", "", states), bundle("late", "", late)])


def _groups(
    increments: Increments, parts: Parts, batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[int, str, str, list[Any]]]:
    """Yield bucket, key, kind and rows of each bundle (encoded rows, see ``bundles``) of a group or of a count table.

    The rows of the kinds PER_CONNECTION are written with ``parts`` instead.

    Args:
        increments: converter of rows and states.
        parts: writer of rows.
        batches: bundles with the column ``bucket``.
    """
    for batch in batches:
        for bucket, one in zip(batch.column("bucket").to_pylist(), bundles.bundles_of(batch), strict=True):
            rows = unbundle(one.rows)
            if one.kind not in PER_CONNECTION:
                yield bucket, one.about, one.kind, rows
                continue
            if one.kind == "connections":
                rows = [located(row, increments.clusters) for row in rows]
            parts.add(one.kind, rows, bundles.mark_of(one.about))
