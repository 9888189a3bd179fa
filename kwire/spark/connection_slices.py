"""A stage for connections with very many calls, whose later calls several tasks decode."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from kwire.capture.calls.bodies import BodyReader
from kwire.capture.calls.model import Connection
from kwire.spark import bundles
from kwire.spark.bundles import Bundler, Rows, bundle
from kwire.spark.capture_summary import CaptureSummary
from kwire.spark.first_stage import ENOUGH
from kwire.spark.folding import CallFold, call_of
from kwire.spark.keyed import by_key, rows_by_key
from kwire.spark.parts import Parts
from kwire.spark.tasks import task_count
from kwire.spark.worker import collect_garbage_rarely

A_SLICE = 1024 * 1024  # bytes of undecoded frames per task, for small captures


def with_slices(
    extracted: DataFrame, known: CaptureSummary, capture_id: str, staging: str, slice_size: int = bundles.SLICE
) -> tuple[DataFrame, list[DataFrame]]:
    """Decode the calls that the first stage has left undecoded.

    These are the later calls of connections with very many calls. They are divided into slices of consecutive calls.
    One task decodes the calls of a slice and writes their rows of ``frames`` to ``staging``. Then one task merges the
    results of the slices of each connection.

    Args:
        extracted: bundles of the first stage.
        known: summary of these bundles, from ``summary_of``.
        capture_id: name of the capture.
        staging: folder for the written files.
        slice_size: bytes of events that one task processes if a consumer group is so large that several tasks share it.

    Returns: the bundles of the first stage, in which the undecoded calls are replaced by the rows of the decoded calls;
        and the DataFrames that this function has persisted and the caller must unpersist.
    """
    kind = sql.col("kind")
    decode = partial(_decode_slices, capture_id, staging, slice_size)
    tasks = min(known.sliced, task_count(known.sliced_size, A_SLICE))
    decoded = by_key(extracted.where(kind == "calls"), tasks).mapInArrow(decode, bundles.SPARK).persist()
    folds = extracted.where(kind == "folds").unionByName(decoded.where(kind == "folds"))
    merged = by_key(folds, 1).mapInArrow(partial(_merge_folds, slice_size), bundles.SPARK).persist()
    others = extracted.where(~kind.isin(*bundles.OF_SLICES)).unionByName(decoded.where(kind != "folds"))
    return others.unionByName(merged), [decoded, merged]


def _decode_slices(
    capture_id: str, staging: str, slice_size: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Decode undecoded calls. Write their rows of ``frames``, and yield bundles with all other rows.

    Args:
        capture_id: name of the capture.
        staging: folder for the written files.
        slice_size: bytes of events that one task processes if a consumer group is so large that several tasks share it.
        batches: bundles of the kind ``calls``. The bundles of one key are the calls of one slice of a connection.

    Yields: bundles of the rows; a bundle of the kind ``folds`` for each slice, with the results that must be merged;
        and a bundle of the kind ``written`` with the paths of the written files.
    """
    collect_garbage_rarely()
    bundler, parts = Bundler(slice_size), Parts(staging)
    reader = BodyReader(Connection(id="", client="", broker="", first_us=0, last_us=0), None, False, True)
    for by_kind in rows_by_key(batches):
        fold = CallFold(capture_id, is_first=False)
        rows: Rows = defaultdict(list)
        calls = sorted(by_kind["calls"], key=itemgetter(2))
        for *_, values in calls:
            fold.add(call_of(values, reader), rows)
            if sum(map(len, rows.values())) >= ENOUGH:
                parts.add("frames", rows.pop("frames", []))
                if complete := list(bundler.add(rows)):
                    yield bundles.batch(complete)
        fold.drain(rows)
        conn_id, number, *_ = calls[0]
        rows["folds"].append((conn_id, number, fold, None))
        parts.add("frames", rows.pop("frames", []))
        yield bundles.batch(list(bundler.add(rows)))
    yield bundles.batch([*bundler.finish(), bundle("written", "", parts.close())])


def _merge_folds(slice_size: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the results of the slices of each connection.

    Args:
        slice_size: bytes of events that one task processes if a consumer group is so large that several tasks share it.
        batches: bundles of the kind ``folds``, which contain the results of slices. All results of a connection have
            the same key.

    Yields: bundles of the rows of each connection that depend on all its calls, such as counts.
    """
    bundler = Bundler(slice_size)
    for by_kind in rows_by_key(batches):
        (_, _, fold, connection), *later = sorted(by_kind["folds"], key=itemgetter(1))
        rows: Rows = defaultdict(list)
        for _, _, other, _ in later:
            fold.merge(other, rows)
        fold.finish(connection, rows)
        yield bundles.batch(list(bundler.add(rows)))
    yield bundles.batch(list(bundler.finish()))
