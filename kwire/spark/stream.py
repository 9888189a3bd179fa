"""Captures that rotate, file by file, into the same tables.

What is known of a connection is the state of Spark between two files. After each batch the tables stand as if the
capture ended there: of connections that are still open a copy is finished, and its rows stand until the next. Frames
and connections that are complete are added. Of groups and counts those are made anew of which a batch told something,
by buckets: each has its own files. If it told the name of a topic or of what cluster a broker is, all are.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kwire.analysis.clusters import Clusters
from kwire.capture.files.file_systems import file_system
from kwire.spark import bundles, plain, source, stages
from kwire.spark.bundles import BUCKETS, EACH, MET, TOLD, Bundler, Rows, about_group, bucket_of, bundle, unbundle
from kwire.spark.following import Following, Payloads
from kwire.spark.output import Output
from kwire.spark.parts import folder_of
from kwire.spark.session import ROCKS

IDLE = 15 * 60 * 1000  # milliseconds of silence after which the state of a connection goes
SAID = f"key BINARY, provisional BOOLEAN, {bundles.SPARK}"
KEPT = f"bucket INT, {SAID}"
LOG = logging.getLogger(__name__)  # hears of damaged files
ENDED = ("connections", "problems")  # those that it has when it is over
TOLD_FILE = "told.values"
NEWS = ("ends", "ended")  # which partitions marks are of, and which transactional ids endings: groups to renew
OPEN = "open"  # mark of the files with what stands of open connections
EVERY = "5 seconds"  # the folder is looked at


class Follower(StatefulProcessor):
    """The connections between two ends, over many batches."""

    def __init__(self, capture_id: str, idle: int = IDLE, unpacked: str | None = None) -> None:
        self.capture_id = capture_id
        self.idle = idle
        self.unpacked = unpacked

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("following", "kept BINARY")

    def handleInputRows(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        connection = bytes(key[0])
        following = self._following() or Following(connection, self.capture_id)
        found: Rows = defaultdict(list)
        self._take(following, list(rows), found)
        kept = plain.dumps(following)
        self.state.update((kept,))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + self.idle)
        yield from said(found, connection, provisional=False)
        as_if: Rows = defaultdict(list)
        plain.loads(kept).finish(as_if)
        yield from said(as_if, connection, provisional=True)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N803
        following = self._following()
        self.state.clear()
        found: Rows = defaultdict(list)
        if following is not None:
            following.finish(found)
        yield from said(found, bytes(key[0]), provisional=False)

    def _following(self) -> Following | None:
        kept = self.state.get() if self.state.exists() else None  # Spark warns of each that it is asked for in vain
        return plain.loads(bytes(kept[0])) if kept is not None else None

    def _take(self, following: Following, rows: list[Row], found: Rows) -> None:
        rows.sort(key=lambda row: [row[name] for name in source.ORDER])
        paths: dict[str, int] = {row.path: n for n, row in reversed(list(enumerate(rows)))}
        numbers = {path: number for number, path in enumerate(paths)}
        columns = {
            field.name: pa.array([row[field.name] for row in rows], field.type)
            for field in source.REFERENCES
            if field.name not in ("file", "path")
        }
        columns["file"] = pa.array([numbers[row.path] for row in rows], pa.int32())
        payloads = Payloads(list(numbers), self.unpacked)
        try:
            stages.follow_segments(following, pa.RecordBatch.from_pydict(columns), payloads, found)
        finally:
            payloads.close()


def said(found: Rows, key: bytes, *, provisional: bool) -> Iterator[Row]:
    """What a connection says, in the shape SAID."""
    made = [bundle("frames", "", rows)] if (rows := found.pop("frames", [])) else []
    if ends := {(mark.topic, mark.partition) for mark in found.get("marks", ())}:
        made.append(bundle("ends", "", sorted(ends)))
    if ended := {one.transactional_id for one in found.get("endings", ())}:
        made.append(bundle("ended", "", sorted(ended)))
    bundler = Bundler()
    made += [*bundler.bundle_rows(found), *bundler.finish()]
    for one in made:
        yield Row(key=key, provisional=provisional, **one._asdict())


@dataclass(frozen=True, slots=True)
class Stream:
    """``inputs``: patterns and folders. Below the output is a folder for checkpoints, and for what connections said."""

    inputs: Sequence[str]
    output: Output
    capture_id: str
    split_size: int = source.SPLIT
    settle: float = source.SETTLE
    files: int = 0  # of a batch; 0: as many as there are
    idle: int = IDLE
    damaged: set[str] = field(default_factory=set, compare=False)  # files, of those that were read since it was started

    @property
    def work(self) -> str:
        return f"{self.output.folder}/_stream/{folder_of(self.capture_id)}"

    @property
    def _unpacked(self) -> str:
        return f"{self.work}/unpacked"

    def start(self, spark: SparkSession, *, once: bool = False) -> StreamingQuery:
        """Begin, or go on from where an earlier run was. ``once``: only what is there now."""
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")  # the source says when timers are due
        writer = self.said(spark).writeStream.foreachBatch(self._write).queryName(self.capture_id)
        writer = writer.option("checkpointLocation", f"{self.work}/checkpoint").outputMode("append")
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=EVERY)).start()

    def said(self, spark: SparkSession) -> DataFrame:
        """What connections say, in the shape SAID, as it comes."""
        source.register(spark)
        options: dict[str, str | float] = {
            "splitSize": self.split_size,
            "settle": self.settle,
            "maxFilesPerTrigger": self.files,
            "idle": self.idle / 1000,
            "unpacked": self._unpacked,
        }
        reader = spark.readStream.format(source.FORMAT).option("inputs", json.dumps(list(self.inputs)))
        references = reader.options(**options).load()
        follower = Follower(self.capture_id, self.idle, self._unpacked)
        return references.groupBy("connection").transformWithState(follower, SAID, "Append", "ProcessingTime")

    def _write(self, batch: DataFrame, number: int) -> None:
        """Put away what a batch said, in place of what it said if it is done again; then renew what it is about."""
        spark = batch.sparkSession
        batch = batch.withColumn("bucket", (sql.crc32("about") % BUCKETS).cast("int")).persist()
        try:
            self._renew(spark, batch, number)
        finally:
            batch.unpersist()

    def _renew(self, spark: SparkSession, batch: DataFrame, number: int) -> None:
        heard = f"{self.work}/said"
        if number == 0:
            for folder in ("said", "standing", "told", "tables"):  # of a stream that was begun anew
                self._forget(f"{self.work}/{folder}")
        kind = sql.col("kind")
        fresh, keys = batch.where("NOT provisional"), batch.select("key").distinct()
        fresh.where(~kind.isin("frames", *NEWS, *TOLD)).write.mode("overwrite").parquet(f"{heard}/batch={number}")
        stood = self._standing(spark, number - 1)
        still = stood.join(keys, "key", "left_anti").unionByName(batch.where("provisional"))
        still.coalesce(1).write.mode("overwrite").parquet(self._standing_at(number))
        standing = self._standing(spark, number)

        before, heard_now = self._told(number - 1), stages.notes_of(fresh)
        told = before | heard_now
        self._keep(told, number)
        was, now = before | stages.notes_of(stood), told | stages.notes_of(standing)
        for problem in heard_now.damaged:
            LOG.warning("%s", problem)
            self.damaged.add(problem.file)
        is_moved = Clusters(was.sayings) != Clusters(now.sayings)
        if is_moved or was.names != now.names or was.unread != now.unread:
            touched = set(range(BUCKETS))
        else:
            touched = self._touched(batch.unionByName(stood.join(keys, "key", "left_semi")), now)

        said = spark.read.schema(KEPT).parquet(heard)
        over = said.where(kind.isin(*ENDED) & (sql.lit(is_moved) | (sql.col("batch") == number))).drop("batch")
        said = said.drop("batch").unionByName(standing)
        about = said.where((sql.col("bucket").isin(*touched) & ~kind.isin(*EACH, *NEWS)) | kind.isin(*MET))
        done = fresh.where(kind == "frames").withColumn("about", sql.lit(_mark("f", number)))
        over = over.withColumn("about", sql.lit(_mark("c", number)))
        pending = standing.where(kind.isin(*EACH)).withColumn("about", sql.lit(OPEN))
        found = about.unionByName(done).unionByName(over).unionByName(pending)
        with self.output.staging() as staging:
            most = spark.sparkContext.defaultParallelism
            written = stages.remarked(heard_now, self.capture_id, staging, _mark("f", number))
            written += stages.written(found, now, self.capture_id, staging, most, buckets=touched)
            stale = {_mark("f", number), OPEN, *map(bundles.bucket_mark, touched)}
            stale |= {_mark("c", earlier) for earlier in range(0 if is_moved else number, number + 1)}
            kept = f"{self.work}/tables"
            self.output.put(spark, staging, self.capture_id, written, stale if number else None, kept)
        self._forget(self._standing_at(number - 2))
        self._forget(self._told_at(number - 2))
        self._forget(self._unpacked)

    @staticmethod
    def _touched(said: DataFrame, told: stages.DriverNotes) -> set[int]:
        """The buckets of which something was said."""
        rows = said.where(~sql.col("kind").isin(*EACH, *TOLD, *MET))
        news = sql.when(sql.col("kind").isin(*NEWS), sql.col("rows")).alias("news")
        kind = sql.when(sql.col("kind").isin(*NEWS), sql.col("kind")).alias("kind")
        found: set[int] = set()
        groups, by_producer = told.groups, told.by_producer
        for row in rows.select("bucket", kind, news).distinct().collect():
            if row.news is None:
                found.add(row.bucket)
                continue
            for about in unbundle(bytes(row.news)):
                if row.kind == "ended":
                    concerned = by_producer.get(about, [])
                else:
                    concerned = groups.get((told.name(about[0]), about[1]), [])
                found |= {bucket_of(about_group(group)) for group in concerned}
        return found

    def _standing(self, spark: SparkSession, number: int) -> DataFrame:
        """What stands of connections that were open after a batch."""
        files, inside = file_system(self._standing_at(number))
        if files.get_file_info(inside).type.name != "Directory":
            return spark.createDataFrame([], KEPT)
        return spark.read.schema(KEPT).parquet(self._standing_at(number))

    def _standing_at(self, number: int) -> str:
        return f"{self.work}/standing/batch={number}"

    def _told(self, number: int) -> stages.DriverNotes:
        """What the driver knew after a batch."""
        files, inside = file_system(f"{self._told_at(number)}/{TOLD_FILE}")
        if number < 0:
            return stages.DriverNotes()
        if files.get_file_info(inside).type.name != "File":
            raise plain.PlainError(f"{inside} is missing; to begin the stream again, delete {self.work}")
        with files.open_input_file(inside) as raw:
            found: stages.DriverNotes = plain.loads(raw.read())
            return found

    def _told_at(self, number: int) -> str:
        return f"{self.work}/told/batch={number}"

    def _keep(self, told: stages.DriverNotes, number: int) -> None:
        files, inside = file_system(f"{self._told_at(number)}/{TOLD_FILE}")
        files.create_dir(inside.rpartition("/")[0], recursive=True)
        with files.open_output_stream(inside) as raw:
            raw.write(plain.dumps(told))

    @staticmethod
    def _forget(folder: str) -> None:
        """Take away what only a batch needed that will not be done again."""
        files, inside = file_system(folder)
        if files.get_file_info(inside).type.name == "Directory":
            files.delete_dir(inside)


def _mark(letter: str, number: int) -> str:
    """Of the files with the frames and captures (f) or connections (c) that were complete in a batch."""
    return f"{letter}{number:06}"
