"""From references to tables: connections each alone, then groups each alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from kwire.analysis import events, history, usage
from kwire.analysis.clusters import Clusters, Saying
from kwire.analysis.columns import Row, Table, arrow_table, rows_of, spark_schema
from kwire.analysis.events import event_of
from kwire.analysis.tables import CONNECTIONS, ERRORS, LATENCY, TABLES
from kwire.analysis.topics import Watermark
from kwire.capture.calls import Row as Segment
from kwire.spark.following import SEALED, Following, Payloads, Rows
from kwire.spark.shapes import GROUP_TABLES, GROUPS, REFUSED, TRAFFIC
from kwire.spark.source import ORDER

SEGMENT = Segment._fields
ENOUGH = 5_000  # rows that are handed on together
COUNTED = ("clients", "api_usage")


def traffic(references: DataFrame, paths: Sequence[str], capture_id: str, partitions: int) -> DataFrame:
    """What each connection says, in the shape TRAFFIC. No payload is moved: it is read where it lies."""
    ordered = references.drop("path").repartition(partitions, "connection").sortWithinPartitions("connection", *ORDER)
    return ordered.mapInArrow(partial(_connections, list(paths), capture_id), TRAFFIC.spark)


def _connections(paths: list[str], capture_id: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    payloads = Payloads(paths)
    following: Following | None = None
    found: Rows = defaultdict(list)
    try:
        for batch in batches:
            for key, rows in runs(batch):
                if following is None or following.key != key:
                    if following is not None:
                        following.finish(found)
                    following = Following(key, capture_id)
                take(following, rows, payloads, found)
                if sum(map(len, found.values())) >= ENOUGH:
                    yield from TRAFFIC.batches(found)
                    found.clear()
        if following is not None:
            following.finish(found)
        yield from TRAFFIC.batches(found)
    finally:
        payloads.close()


def runs(batch: pa.RecordBatch) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """The connections in a batch of references, one after the other."""
    keys = batch.column("connection").to_pylist()
    begin = 0
    for n in range(1, len(keys) + 1):
        if n == len(keys) or keys[n] != keys[begin]:
            yield keys[begin], batch.slice(begin, n - begin)
            begin = n


def take(following: Following, rows: pa.RecordBatch, payloads: Payloads, found: Rows) -> None:
    """Hand the segments of a connection over, and tell what they complete."""
    files = rows.column("file").to_pylist()
    if not following.key:
        for file, position, problem in zip(
            files, rows.column("position").to_pylist(), rows.column("problem").to_pylist(), strict=True
        ):
            found["problems"].append({"file": payloads.paths[file], "position": position, "reason": problem})
        return
    segments = map(Segment._make, zip(*(rows.column(name).to_pylist() for name in SEGMENT), strict=True))
    for file, segment, payload in zip(files, segments, rows.column("payload").to_pylist(), strict=True):
        path = payloads.paths[int(file)]
        if len(following.key) != SEALED:
            following.frame(segment.upward, payload, segment.time_us, path, segment.position)
        elif payload is not None:
            following.segment(segment, payload, segment.start, path, found)
        else:
            following.segment(segment, payloads.of(file), 0, path, found)
    following.tell(found)


def kind(found: DataFrame, name: str) -> DataFrame:
    """The rows of one kind."""
    return found.where(sql.col("kind") == name).select(f"{name}.*")


def current(found: DataFrame) -> DataFrame:
    """Of the traffic of a stream, the rows that still hold."""
    turns = found.where("key IS NOT NULL").groupBy("key").agg(sql.max("turn").alias("last"))
    joined = found.join(sql.broadcast(turns), "key", "left")
    return joined.where("NOT provisional OR turn = last").drop("last")


@dataclass(frozen=True, slots=True)
class Tables:
    """Every table by its name, the names of those without rows, and what is wrong with files, a line each."""

    rows: Mapping[str, DataFrame]
    empty: frozenset[str]
    problems: list[str]


def tables(found: DataFrame, capture_id: str) -> Tables:
    """Every table, out of what connections said. ``found`` is kept, for it is gone through several times."""
    found.persist()
    kinds = kinds_of(found)
    names = topic_names(found)
    clusters = clusters_of(found)
    groups = group_rows(found, capture_id, names, clusters).persist()
    made = {
        "frames": kind(found, "frames"),
        "connections": located(kind(found, "connections"), CONNECTIONS, clusters),
        "errors": merged(ERRORS, located(kind(found, "errors"), REFUSED, clusters), names),
    }
    made |= {name: merged(TABLES[name], kind(found, name), names) for name in COUNTED}
    made["latency"] = latency(kind(found, "waits"), capture_id)
    made |= {name: kind(groups, name) for name in GROUP_TABLES}
    filled = (kinds - {"events"}) | ({"latency"} if "waits" in kinds else set()) | kinds_of(groups)
    wrong = problems(found) if "problems" in kinds else []
    return Tables({name: made[name] for name in TABLES}, frozenset(TABLES.keys() - filled), wrong)


def kinds_of(found: DataFrame) -> set[str]:
    """The kinds of which there are rows."""
    return {row.kind for row in found.select("kind").distinct().collect()}


def topic_names(found: DataFrame) -> dict[str, str]:
    """Names of topics by id: few enough for one process."""
    return {row.id: row.name for row in kind(found, "names").distinct().collect()}


def clusters_of(found: DataFrame) -> Clusters:
    """Which broker is of which cluster: for one process too, as a connection says it once."""
    rows = kind(found, "sayings").collect()
    return Clusters(Saying(row.ts, row.conn_id, row.broker, row.cluster, tuple(row.nodes)) for row in rows)


def located(rows: DataFrame, table: Table, clusters: Clusters) -> DataFrame:
    """Rows with the cluster of their connection."""

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = rows_of(pa.Table.from_batches([batch]))
            for row in made:
                where = row["conn_id"], row["broker"], row["first_ts"]
                row["cluster"] = clusters.of(*where)
                if table is CONNECTIONS:
                    row["node_id"] = clusters.node_id(*where)
            yield from arrow_table(table, made).to_batches()

    return rows.mapInArrow(fill, spark_schema(table))


def named(rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Rows with the names of topics that are there by id."""
    known = rows.sparkSession.createDataFrame(list(names.items()), "id STRING, name STRING")
    joined = rows.join(sql.broadcast(known), rows.topic == known.id, "left")
    return joined.withColumn("topic", sql.coalesce("name", "topic")).drop("id", "name")


def merged(table: Table, rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Counts of several connections in one row: first and last times, and sums of what is a count."""
    if "topic" in rows.columns and names:
        rows = named(rows, names)
    how = {"first_ts": sql.min("first_ts"), "last_ts": sql.max("last_ts")}
    how |= {column.name: sql.sum(column.name) for column in table.columns if column.type == "long"}
    keys = [column.name for column in table.columns if column.name not in how]
    made = rows.groupBy(*keys).agg(*(value.alias(name) for name, value in how.items()))
    return made.select(*(column.name for column in table.columns))


def latency(waits: DataFrame, capture_id: str) -> DataFrame:
    """The table ``latency``."""
    by_minute = waits.groupBy("bucket_ts", "api_key", "api_version", "broker").agg(sql.collect_list("us").alias("us"))

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = [
                usage.latency_row(
                    capture_id, row["bucket_ts"], row["api_key"], row["api_version"], row["broker"], row["us"]
                )
                for row in batch.to_pylist()
            ]
            yield from arrow_table(LATENCY, made).to_batches()

    return by_minute.mapInArrow(rows, spark_schema(LATENCY))


def group_rows(found: DataFrame, capture_id: str, names: Mapping[str, str], clusters: Clusters) -> DataFrame:
    """The tables of groups, in the shape GROUPS: each group where all of its events come together."""
    happened = kind(found, "events")
    marks = kind(found, "marks")
    commits = happened.where("topic IS NOT NULL").selectExpr("group_id AS of", "topic", "partition").distinct()
    if names:
        marks, commits = named(marks, names), named(commits, names)
    wanted = marks.join(commits.distinct(), ["topic", "partition"]).select("of", *Watermark.__slots__)
    both = happened.groupBy("group_id").cogroup(wanted.groupBy("of"))
    return both.applyInArrow(_fold(capture_id, dict(names), clusters), GROUPS.spark)


def _fold(capture_id: str, names: dict[str, str], clusters: Clusters) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def fold(happened: pa.Table, marks: pa.Table) -> pa.Table:
        group = happened.column("group_id")[0].as_py()
        known = [events.name_topics(event_of(row), names) for row in rows_of(happened)]
        told = [Watermark(*(row[name] for name in Watermark.__slots__)) for row in rows_of(marks)]
        ends = history.Ends(told, clusters=clusters)
        made: Mapping[str, list[Row]] = history.fold(capture_id, group, known, ends, clusters)
        return pa.Table.from_batches(GROUPS.batches(made), GROUPS.arrow)

    return fold


def problems(found: DataFrame) -> list[str]:
    """What is wrong with the files, a line each."""
    rows = kind(found, "problems").distinct().orderBy("file", "position").collect()
    return [f"{row.file} at byte {row.position}: {row.reason}" for row in rows]
