"""Bundles ordered by their keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
from pyspark.sql import DataFrame

from kwire.spark import bundles
from kwire.spark.bundles import Rows, unbundle


def by_key(rows: DataFrame, tasks: int) -> DataFrame:
    """Order bundles so that bundles with the same key are consecutive rows of one task.

    Args:
        rows: bundles.
        tasks: number of Spark tasks.
    """
    divided = rows.repartition(tasks, "about") if tasks > 1 else rows.coalesce(1)
    return divided.sortWithinPartitions("about", "kind")


def rows_by_key(batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
    """Yield for each key the decoded rows of its bundles, by kind.

    ``batches``: batches of bundles; bundles with the same key must be consecutive.
    """
    every = (one for batch in batches for one in bundles.bundles_of(batch))
    for _, run in groupby(every, key=attrgetter("about")):
        by_kind: Rows = defaultdict(list)
        for one in run:
            by_kind[one.kind] += unbundle(one.rows)
        yield by_kind
