"""Captures that rotate, file by file, into the same tables.

What is known of a connection is the state of Spark between two files. After each batch the tables stand as if the
capture ended there: of connections that are still open a copy is finished, and its rows hold until the next.
"""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kwire.spark import source, stages
from kwire.spark.following import Following, Payloads, Rows
from kwire.spark.output import Output
from kwire.spark.session import ROCKS
from kwire.spark.shapes import TRAFFIC

IDLE = 15 * 60 * 1000  # milliseconds of silence after which the state of a connection goes
PACKED = "rows BINARY"  # batches of Arrow as bytes: Spark's rows know no time zone, and are slow


class Follower(StatefulProcessor):
    """The connections between two ends, over many batches."""

    def __init__(self, capture_id: str, idle: int = IDLE) -> None:
        self.capture_id = capture_id
        self.idle = idle

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
        kept = pickle.dumps(following)
        self.state.update((kept,))
        now = timerValues.getCurrentProcessingTimeInMs()
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(now + self.idle)
        yield from packed(found, connection, now, provisional=False)
        as_if: Rows = defaultdict(list)
        pickle.loads(kept).finish(as_if)  # noqa: S301 - our own state
        yield from packed(as_if, connection, now, provisional=True)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N803
        following = self._following()
        self.state.clear()
        found: Rows = defaultdict(list)
        if following is not None:
            following.finish(found)
        yield from packed(found, bytes(key[0]), timerValues.getCurrentProcessingTimeInMs(), provisional=False)

    def _following(self) -> Following | None:
        kept = self.state.get()
        return pickle.loads(bytes(kept[0])) if kept is not None else None  # noqa: S301 - our own state

    @staticmethod
    def _take(following: Following, rows: list[Row], found: Rows) -> None:
        rows.sort(key=lambda row: [row[name] for name in source.ORDER])
        paths: dict[str, int] = {row.path: n for n, row in reversed(list(enumerate(rows)))}
        numbers = {path: number for number, path in enumerate(paths)}
        columns = {
            field.name: pa.array([row[field.name] for row in rows], field.type)
            for field in source.REFERENCES
            if field.name not in ("file", "path")
        }
        columns["file"] = pa.array([numbers[row.path] for row in rows], pa.int32())
        payloads = Payloads(list(numbers))
        try:
            stages.take(following, pa.RecordBatch.from_pydict(columns), payloads, found)
        finally:
            payloads.close()


def packed(found: Rows, key: bytes, turn: int, *, provisional: bool) -> Iterator[Row]:
    """Rows of a connection as bytes."""
    told = {"key": key.hex(), "turn": turn, "provisional": provisional}
    for batch in TRAFFIC.batches(found, **told):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield Row(rows=sink.getvalue().to_pybytes())


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows out of the bytes."""
    for batch in batches:
        for data in batch.column("rows").to_pylist():
            yield from pa.ipc.open_stream(data)


@dataclass(frozen=True, slots=True)
class Stream:
    """``inputs``: patterns and folders; ``work``: a folder for checkpoints, and for what connections said."""

    inputs: Sequence[str]
    output: Output
    capture_id: str
    split_size: int = source.SPLIT
    settle: float = source.SETTLE
    files: int = 0  # of a batch; 0: as many as there are

    @property
    def work(self) -> str:
        return f"{self.output.folder}/_stream/{self.capture_id}"

    def start(self, spark: SparkSession, *, once: bool = False) -> StreamingQuery:
        """Begin, or go on from where an earlier run was. ``once``: only what is there now."""
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")  # timers alone would never let it end
        writer = self.traffic(spark).writeStream.foreachBatch(self._write).queryName(self.capture_id)
        writer = writer.option("checkpointLocation", f"{self.work}/checkpoint").outputMode("append")
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="5 seconds")).start()

    def traffic(self, spark: SparkSession) -> DataFrame:
        """What connections say, in the shape TRAFFIC, as it comes."""
        source.register(spark)
        options = {"splitSize": self.split_size, "settle": self.settle, "maxFilesPerTrigger": self.files}
        reader = spark.readStream.format(source.FORMAT).option("paths", json.dumps(list(self.inputs)))
        references = reader.options(**options).load()
        said = references.groupBy("connection").transformWithState(
            Follower(self.capture_id), PACKED, "Append", "ProcessingTime"
        )
        return said.mapInArrow(unpacked, TRAFFIC.spark)

    def _write(self, batch: DataFrame, number: int) -> None:
        """Put away what a batch said, in place of what it said if it is done again; then make the tables anew."""
        spark = batch.sparkSession
        kept = f"{self.work}/traffic"
        batch.write.mode("overwrite").parquet(f"{kept}/batch={number}")
        found = stages.current(spark.read.schema(TRAFFIC.spark).parquet(kept))
        made = stages.tables(found, self.capture_id)
        self.output.write(made.rows, self.capture_id, made.empty)
        spark.catalog.clearCache()
