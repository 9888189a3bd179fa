"""Delta Lake tables of the pipeline: overwritten by jobs, changed by the micro-batches of streams.

Each folder ``TABLE/capture_id=ID`` is a Delta table, partitioned by date and, if the table has this column, by cluster.
The tables of a stream have three more columns:

- ``mark``: file mark of the Parquet file from which the row was read, see ``parts.put``. With this text, later
  micro-batches find the rows that they replace.
- ``batch``: number of the micro-batch that wrote the row.
- ``is_final``: False for a current row, which later micro-batches may replace. It is a partition column: a micro-batch
  reads files with final rows only if it is repeated, or if it rebuilds a bucket (computes all rows of some groups and
  counts again, see ``stream``).

A micro-batch changes each table in one transaction: it appends final rows, and replaces current rows with MERGE. If
Spark repeats a micro-batch, the rows of the first attempt are replaced, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from kwire.analysis.columns import Table
from kwire.capture.files.file_systems import below
from kwire.spark import bundles, parts
from kwire.spark.hadoop_paths import path_to_read

FORMAT = "delta"
MARK, BATCH, IS_FINAL = "mark", "batch", "is_final"
OF_STREAM = f"{MARK} STRING, {BATCH} BIGINT, {IS_FINAL} BOOLEAN"
KEY, IS_GONE = "_key", "_is_gone"  # columns of the changes of a micro-batch: join key; whether rows are deleted
PROPERTIES = {  # a rebuilt bucket deletes rows from many files: deletion vectors leave these files as they are
    "delta.enableDeletionVectors": "true"
}
_BATCH = re.compile(r"(?:[cf]|s\d+\.)(\d+)")  # a file mark with the number of a micro-batch


def partitions(table: Table) -> list[str]:
    """Return the names of the partition columns of a table, without those of streams."""
    return [*([parts.DATE] if parts.day_of(table) else []), *([parts.CLUSTER] if parts.has_cluster(table) else [])]


def read_parquet(spark: SparkSession, folder: str, table: Table, places: Collection[str]) -> DataFrame:
    """Return the rows of Parquet files of a table.

    Args:
        spark: session that reads the files.
        folder: folder with the folders of all tables.
        table: table of the files.
        places: paths of the files, relative to ``folder``.
    """
    if not places:
        return spark.createDataFrame([], parts.spark_schema(table))
    reader = spark.read.schema(parts.spark_schema(table)).option("basePath", below(folder, table.name))
    return reader.parquet(*(path_to_read(below(folder, place)) for place in places))


def stream_rows(spark: SparkSession, folder: str, table: Table, places: Collection[str], number: int) -> DataFrame:
    """Return the rows of Parquet files of a stream, with the columns of streams.

    Args:
        spark: session that reads the files.
        folder: folder with the folders of all tables.
        table: table of the files.
        places: paths of the files, relative to ``folder``.
        number: number of the micro-batch that wrote the files.
    """
    if not places:
        return spark.createDataFrame([], f"{parts.spark_schema(table)}, {OF_STREAM}")
    name, mark = sql.col("_metadata.file_name"), sql.col(MARK)
    return (
        read_parquet(spark, folder, table, places)
        .withColumn(MARK, sql.split_part(name, sql.lit("-"), sql.lit(2)))
        .withColumn(BATCH, sql.lit(number).cast("bigint"))
        .withColumn(IS_FINAL, ~(mark.startswith(bundles.CURRENT) | (mark == bundles.OPEN)))
    )


def overwrite(rows: DataFrame, table: Table, path: str) -> None:
    """Replace all rows and columns of a Delta table, or create the table.

    Args:
        rows: rows of the table, with or without the columns of streams.
        table: the table.
        path: folder of the Delta table.
    """
    by = [*partitions(table), *([IS_FINAL] if IS_FINAL in rows.columns else [])]
    writer = rows.write.format(FORMAT).mode("overwrite").options(overwriteSchema="true", **PROPERTIES)
    writer.partitionBy(*by).save(path)


def replace(spark: SparkSession, rows: DataFrame, path: str, number: int, stale: Collection[str]) -> None:
    """Replace the rows of a Delta table that have a stale mark with new rows, in one transaction.

    Args:
        spark: session of the micro-batch.
        rows: new rows, with the columns of streams.
        path: folder of the Delta table.
        number: number of the micro-batch.
        stale: file marks of the rows to replace, as in ``parts.put``.

    Raises: ValueError if the Delta table was written by a job, or by an earlier release.
    """
    stored = spark.read.format(FORMAT).load(path)
    if MARK not in stored.columns:
        raise ValueError(
            f"the Delta table {path} was not written by this stream: to restart a stream from scratch, delete its "
            "folder _stream/capture_id=..."
        )
    if stored.where(_stale_rows(number, stale)).isEmpty():
        if not rows.isEmpty():
            rows.write.format(FORMAT).mode("append").save(path)
        return
    keys = sorted({mark.partition(".")[0] for mark in stale})
    deleted = spark.createDataFrame([(key, True) for key in keys], f"{KEY} STRING, {IS_GONE} BOOLEAN")
    inserted = rows.withColumns({KEY: sql.substring_index(MARK, ".", 1), IS_GONE: sql.lit(False)})
    view = f"changes_{uuid4().hex}"
    inserted.unionByName(deleted, allowMissingColumns=True).createOrReplaceTempView(view)
    names = ", ".join(f"`{name}`" for name in rows.columns)
    values = ", ".join(f"changes.`{name}`" for name in rows.columns)
    merge = (
        f"MERGE INTO delta.`{path.replace('`', '``')}` AS kept USING {view} AS changes",
        f"ON substring_index(kept.{MARK}, '.', 1) = changes.{KEY} AND changes.{IS_GONE}",
        f"AND {_stale_rows(number, stale, 'kept.')}",
        "WHEN MATCHED THEN DELETE",
        f"WHEN NOT MATCHED AND NOT changes.{IS_GONE} THEN INSERT ({names}) VALUES ({values})",  # noqa: S608
    )
    try:
        spark.sql(" ".join(merge))
    finally:
        spark.catalog.dropTempView(view)


def _stale_rows(number: int, stale: Collection[str], prefix: str = "") -> str:
    """Return the SQL condition of the rows that a micro-batch replaces.

    The condition of the final rows that an earlier attempt of this micro-batch wrote contains its number, so that
    Delta does not read the files of other micro-batches.

    Args:
        number: number of the micro-batch.
        stale: file marks, as in ``parts.put``.
        prefix: text before the names of columns.
    """
    current = {mark for mark in stale if mark == bundles.OPEN or mark.startswith(bundles.CURRENT)}
    repeated = {mark for mark in stale if (found := _BATCH.fullmatch(mark)) and int(found[1]) == number}
    mark, is_final = f"{prefix}{MARK}", f"{prefix}{IS_FINAL}"
    conditions = [f"NOT {is_final} AND {_is_in(mark, current)}"]
    if repeated:
        conditions.append(f"{is_final} AND {prefix}{BATCH} = {number} AND {_is_in(mark, repeated)}")
    if rebuilt := set(stale) - current - repeated:
        conditions.append(f"{is_final} AND {_is_in(f'''substring_index({mark}, '.', 1)''', rebuilt)}")
    return "(" + " OR ".join(f"({condition})" for condition in conditions) + ")"


def _is_in(column: str, marks: Collection[str]) -> str:
    values = ", ".join(f"'{mark}'" for mark in sorted(marks))
    return f"{column} IN ({values})" if marks else "FALSE"
