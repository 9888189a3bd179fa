"""The second stage of the pipeline, which converts the rows of each group, client and count table to tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from kwire.analysis.clusters import Clusters
from kwire.analysis.findings import fold as findings
from kwire.analysis.frames import problem_row
from kwire.analysis.groups import slices
from kwire.capture.files.blocks import Problem, Skipped
from kwire.spark import bundles
from kwire.spark.bundles import FOR_GROUPS, PER_CONNECTION, SUMMARY_KINDS, Bundle, Rows, bundle, unbundle
from kwire.spark.capture_summary import CaptureSummary, summary_of_rows
from kwire.spark.group_inputs import divide_events, send_to_groups
from kwire.spark.keyed import by_key, rows_by_key
from kwire.spark.parts import Parts
from kwire.spark.table_builder import TableBuilder
from kwire.spark.tasks import task_count
from kwire.spark.worker import collect_garbage_rarely

A_TASK = 4 * 1024 * 1024  # bytes of bundles per task of the second stage


def write_tables(
    extracted: DataFrame,
    known: CaptureSummary,
    capture_id: str,
    staging: str,
    assignor: str | None = None,
    settings: Mapping[str, float] | None = None,
    slice_size: int = bundles.SLICE,
) -> list[str]:
    """Convert bundles to tables in ``staging``; return the paths of the files relative to this folder.

    The events of a large consumer group are divided into slices, see ``analysis.groups.slices``. An additional stage
    derives the findings of the group from the rows of all slices. Groups are not divided if ``assignor`` is
    set.

    Args:
        extracted: bundles of the first stage.
        known: summary of the first stage.
        capture_id: name of the capture.
        staging: folder for the written files.
        assignor: name of the assignor with which groups are replayed; None for no replay.
        settings: changed thresholds of detectors, by ``detector.threshold``; None for all defaults.
        slice_size: bytes of the events in one slice of a large consumer group.
    """
    groups, by_producer = known.groups, known.by_producer
    sliced = {} if assignor is not None else known.slices(slice_size)
    extracted = extracted.select("kind", "about", "rows")
    tasks = task_count(known.size, A_TASK)
    others = extracted.where(~sql.col("kind").isin(*FOR_GROUPS, *SUMMARY_KINDS))
    if any(groups.values()) or known.wanted:
        send = partial(send_to_groups, known.names, groups, known.replayed, by_producer, sliced)
        for_groups = extracted.where(sql.col("kind").isin(*FOR_GROUPS))
        for_groups = for_groups.coalesce(tasks)  # each partition costs a call of Python
        others = others.unionByName(for_groups.mapInArrow(send, bundles.SPARK))
    builder = TableBuilder(
        capture_id, known.names, Clusters(known.statements), frozenset(known.unread), assignor, settings or {}
    )
    of_large = sql.col("about").isin(*sliced)
    pending = others.where(of_large & (sql.col("kind") != "events"))
    if sliced:
        events = others.where(of_large & (sql.col("kind") == "events"))
        divide = partial(divide_events, known.names, sliced)
        others = others.where(~of_large).unionByName(events.mapInArrow(divide, bundles.SPARK))
    fold = partial(_fold, builder, staging)
    parts = by_key(others, tasks).mapInArrow(fold, bundles.SPARK)
    if not sliced:
        return _written(parts)
    parts = parts.persist()
    try:
        written = _written(parts.where("kind = 'written'"))
        rows = pending.unionByName(parts.where("kind = 'rows'"))
        find = partial(_find, builder, staging)
        return written + _written(by_key(rows, min(tasks, len(sliced))).mapInArrow(find, bundles.SPARK))
    finally:
        parts.unpersist()


def write_problems(known: CaptureSummary, capture_id: str, staging: str, mark: str = "") -> list[str]:
    """Write damage and skipped packets to the table ``problems``.

    Returns: the paths of the files, relative to ``staging``; empty if there are no problems.

    Args:
        known: summary of the first stage, which contains the problems.
        capture_id: name of the capture.
        staging: folder for the written files.
        mark: text in the names of the files. When ``Output.put`` replaces old files, it finds them by this text.
    """
    parts = Parts(staging)
    remarks: list[Problem | Skipped] = [*known.problems, *known.skipped]
    rows = (problem_row(one, capture_id) for one in remarks)
    parts.add("problems", [row for row in rows if row is not None], mark)
    return parts.close()


def _find(builder: TableBuilder, staging: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the findings of large consumer groups; yield a bundle with the paths of the written files.

    Args:
        builder: builder that derives the findings.
        staging: folder for the written files.
        batches: bundles of large groups: rows of all slices, end offsets of partitions, and periods in which partitions
            were fetched. Bundles with the same key are consecutive.
    """
    parts = Parts(staging)
    for by_kind in rows_by_key(batches):
        parts.add("findings", builder.findings(by_kind))
    yield bundles.batch([bundle("written", "", parts.close())])


def _fold(builder: TableBuilder, staging: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    collect_garbage_rarely()
    return fold_bundles(builder, staging, (one for batch in batches for one in bundles.bundles_of(batch)))


def fold_bundles(builder: TableBuilder, staging: str, ordered: Iterable[Bundle]) -> Iterator[pa.RecordBatch]:
    """Write the tables of bundles; yield bundles with the paths of the written files, and with rows for findings.

    Args:
        builder: converter of the bundles with one key to rows.
        staging: folder for the written files.
        ordered: bundles, ordered by key and kind.
    """
    parts = Parts(staging)
    about = ""
    by_kind: Rows = defaultdict(list)
    light: list[Bundle] = []  # rows of slices, for findings

    def write() -> None:
        if "sliced" in by_kind:
            group, first = bundles.group_of_slice(about)
            for group_id, tables in builder.slice_rows(by_kind).items():
                for name, own in slices.own_rows(tables, first=first).items():
                    parts.add(name, own)
                some = slices.for_findings(tables, first=first)
                light.append(bundle("rows", group, [(group_id, {name: some[name] for name in findings.OF_GROUPS})]))
        else:
            for name, rows in builder.rows(by_kind).items():
                parts.add(name, rows)
        by_kind.clear()

    for one in ordered:
        if one.about != about:
            write()
            if light:
                yield bundles.batch(light)
                light.clear()
            about = one.about
        if one.kind in PER_CONNECTION:
            parts.add(one.kind, builder.connection_rows(one.kind, unbundle(one.rows)))
        else:
            by_kind[one.kind] += unbundle(one.rows)
    write()
    yield bundles.batch([*light, bundle("written", "", parts.close())])


def _written(parts: DataFrame) -> list[str]:
    return summary_of_rows(parts.collect()).written
