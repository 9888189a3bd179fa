"""The streaming job: it adds the files of a rotating capture to the same tables, while the capture is written.

Spark processes new files in micro-batches ("batch" in this module), and keeps the state of each connection between
batches. After each batch, the tables look as if the capture ended there. For this, the job finishes a copy of the state
of each open connection. The rows of this copy are replaced when the connection has new segments. Rows of frames and of
finished connections are final.

The tables of groups and counts are divided into buckets by a hash of the group or count. ``increments`` adds the rows
of a micro-batch to the stored state of each bucket. A bucket is rebuilt from all its rows only if earlier rows may
change, or at the end of the stream.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from uuid import uuid4

from pyarrow.fs import FileSelector
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from kwire.analysis.clusters import Clusters
from kwire.capture.files.file_systems import file_system
from kwire.capture.tls.keylog import KeyLog
from kwire.lazy_dataclass import dataclass
from kwire.spark import bundles, plain, second_stage, source, stream_source, topic
from kwire.spark.bundles import (
    BUCKETS,
    FOR_GROUPS,
    PER_CONNECTION,
    STREAM_ONLY,
    SUMMARY_KINDS,
    about_group,
    bucket_of,
    unbundle,
)
from kwire.spark.capture_summary import CaptureSummary, summary_of
from kwire.spark.hadoop_paths import path_to_read
from kwire.spark.increments import SETTLED_US, Buckets, Increments, delete_state, final_mark, final_marks, state_path
from kwire.spark.output import Output, StreamedError
from kwire.spark.session import ROCKS
from kwire.spark.stale_buckets import buckets_to_rebuild
from kwire.spark.stream_follower import CONNECTION_ROWS, IDLE, Follower
from kwire.spark.tasks import task_count
from kwire.spark.updates import PENDING, Update, Updated, bucket_column, of_buckets
from kwire.spark.updates import update as write_update
from kwire.topic_address import is_topic

STORED_ROWS = f"bucket INT, {CONNECTION_ROWS}"
LOG = logging.getLogger(__name__)  # logs damaged files
ENDED = ("connections", "problems")  # kinds of rows that a connection has only when it ends
SUMMARY_FILE = "summary.values"
EVERY = "5 seconds"  # interval between listings of the folder


@dataclass(frozen=True, slots=True)
class Stream:
    """A Spark streaming job that updates tables while captures are written.

    The job stores its checkpoints, the rows of connections and the TLS secrets of pcapng files in OUTPUT/_stream.

    Args:
        inputs: glob patterns and folders of capture files; or only the address of a topic with frames.
        output: folder and file format of the tables.
        capture_id: name of the capture in the tables.
        split_size: bytes of a file per task.
        settle: seconds without change after which the newest file counts as complete.
        files: maximum number of files per micro-batch; 0 for no limit.
        idle: milliseconds without segments after which a connection is finished and its state is removed.
        settings: changed thresholds of detectors, by ``detector.threshold``; empty for all defaults.
        settled_us: age of events, in microseconds, after which rows about them may become final.
        keylog: TLS secrets, besides those of pcapng files, such as a ``KeyLogFile``; None for none.

    Attributes:
        damaged: paths of the damaged files read since the start.
    """

    inputs: Sequence[str]
    output: Output
    capture_id: str
    split_size: int = source.SPLIT
    settle: float = stream_source.SETTLE
    files: int = 0
    idle: int = IDLE
    settings: Mapping[str, float] = field(default_factory=dict)
    settled_us: int = SETTLED_US
    keylog: KeyLog | None = None
    damaged: set[str] = field(default_factory=set, compare=False)

    @property
    def work(self) -> str:
        return self.output.stream_folder(self.capture_id)

    @property
    def _unpacked(self) -> str:
        return f"{self.work}/unpacked"

    @property
    def _secrets(self) -> str:
        return f"{self.work}/secrets"

    @property
    def _staging(self) -> str:
        return f"{self.work}/staging"

    def start(self, spark: SparkSession, *, once: bool = False) -> StreamingQuery:
        """Start the streaming query, and return the query. The query continues where an earlier run stopped.

        The method also deletes incomplete tables of an earlier run, and sets two options of the Spark session. If Spark
        cannot write the format of the output, it fails before captures are read.

        Args:
            spark: session that runs the query.
            once: True if the query ends after the files that are complete now; False if it runs until it is stopped.

        Raises: StreamedError if an earlier run wrote the tables in another format.
        """
        self._require_same_format()
        self._delete(self._staging)  # incomplete tables of a run that was killed
        self.output.check(spark, self._staging)
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
        spark.conf.set(
            "spark.sql.streaming.noDataMicroBatches.enabled", "false"
        )  # the source creates empty batches when timers are due
        writer = self.connection_rows(spark).writeStream.foreachBatch(self._write).queryName(self.capture_id)
        writer = writer.option("checkpointLocation", f"{self.work}/checkpoint").outputMode("append")
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=EVERY)).start()

    def connection_rows(self, spark: SparkSession) -> DataFrame:
        """Return a streaming DataFrame with the schema CONNECTION_ROWS: bundles of the rows of all connections."""
        if is_topic(self.inputs[0]):
            return self._followed(topic.references(spark, self.inputs[0], stream=True))
        source.register(spark)
        options: dict[str, str | float] = {
            "splitSize": self.split_size,
            "settle": self.settle,
            "maxFilesPerTrigger": self.files,
            "idle": self.idle / 1000,
            "unpacked": self._unpacked,
            "secrets": self._secrets,
        }
        reader = spark.readStream.format(source.FORMAT).option("inputs", json.dumps(list(self.inputs)))
        return self._followed(reader.options(**options).load())

    def _followed(self, references: DataFrame) -> DataFrame:
        """Return bundles of the rows of connections, with the schema CONNECTION_ROWS.

        Args:
            references: references to TCP segments, or frames of a topic.
        """
        follower = Follower(self.capture_id, self.idle, self._unpacked, self.keylog, self._secrets)
        return references.groupBy("connection").transformWithState(
            follower, CONNECTION_ROWS, "Append", "ProcessingTime"
        )

    def _write(self, batch: DataFrame, number: int) -> None:
        """Store the rows of a micro-batch, and recompute the tables whose rows change.

        If Spark repeats a micro-batch, the rows of the first attempt are replaced.

        Args:
            batch: bundles of connection rows, with the schema CONNECTION_ROWS.
            number: number of the micro-batch, from 0.
        """
        spark = batch.sparkSession
        batch = batch.withColumn("bucket", bucket_column()).persist()
        try:
            self._renew(spark, batch, number)
        finally:
            batch.unpersist()

    def _renew(self, spark: SparkSession, batch: DataFrame, number: int) -> None:
        if number == 0:
            for folder in (
                "connection_rows",
                "standing",
                "states",
                "summary",
                "tables",
            ):  # left by a stream that was restarted from scratch
                self._delete(f"{self.work}/{folder}")
            self._write_file(self._format_file, self.output.form.encode())
        kind = sql.col("kind")
        fresh, keys = batch.where("NOT provisional"), batch.select("key").distinct()
        fresh.where(~kind.isin("frames", *STREAM_ONLY, *SUMMARY_KINDS)).write.mode("overwrite").parquet(
            f"{self._stored_rows}/batch={number}"
        )
        open_before = self._open_rows(spark, number - 1)
        still = open_before.join(keys, "key", "left_anti").unionByName(batch.where("provisional"))
        still.coalesce(1).write.mode("overwrite").parquet(self._open_rows_folder(number))
        open_now = self._open_rows(spark, number)

        (before, states), batch_summary = self._load_summary(number - 1), summary_of(fresh)
        summary = before | batch_summary
        was, now = before | summary_of(open_before), summary | summary_of(open_now)
        for problem in batch_summary.damaged:
            LOG.warning("%s", problem)
            self.damaged.add(problem.file)
        is_moved = Clusters(was.statements) != Clusters(now.statements)
        rebuilt = set(range(BUCKETS)) if is_moved else states.due | buckets_to_rebuild(was, now)
        changed = set(rebuilt)
        if len(changed) < BUCKETS:
            changed |= self._changed_buckets(batch.unionByName(open_before.join(keys, "key", "left_semi")), now)
        rebuilt |= changed - states.versions.keys()

        ended = self._stored(spark) if is_moved else fresh
        per_connection = _with_mark(fresh.where(kind == "frames"), _mark("f", number)).select("kind", "about", "rows")
        for rows, mark in (
            (ended.where(kind.isin(*ENDED)), _mark("c", number)),
            (open_now.where(kind.isin(*PER_CONNECTION)), bundles.OPEN),
        ):
            per_connection = per_connection.unionByName(_with_mark(rows, mark).select("kind", "about", "rows"))
        with self.output.staging(self._staging) as staging:
            written = second_stage.write_problems(batch_summary, self.capture_id, staging, _mark("f", number))
            update = Update(number, staging, self._states, states.versions, f"batch={number}", rebuilt)
            tasks = task_count(batch_summary.size, second_stage.A_TASK)
            done = self._updated(fresh, open_now, per_connection, now, update, changed, tasks)
            if done.late:
                rebuilt |= done.late
                again = replace(update, versions={}, rebuilt=done.late)
                more = self._updated(fresh, open_now, per_connection.where("false"), now, again, done.late, tasks)
                written += more.written
                done.buckets |= more.buckets
            written += done.written
            self._save_summary(summary, states.after(done.buckets, update.version, rebuilt), number)
            stale = {_mark("f", number), bundles.OPEN, *map(bundles.bucket_mark, changed)}
            stale |= {final_mark(bucket, number) for bucket in changed} | set(map(final_marks, rebuilt))
            stale |= {_mark("c", earlier) for earlier in range(0 if is_moved else number, number + 1)}
            kept = f"{self.work}/tables"
            self.output.put(spark, staging, self.capture_id, written, stale if number else None, kept, number)
        for bucket, version in states.replaced:
            delete_state(state_path(self._states, version, bucket))
        self._delete(self._open_rows_folder(number - 2))
        self._delete(self._summary_folder(number - 2))
        self._delete(self._unpacked)

    def finish(self, spark: SparkSession) -> None:
        """Rebuild the buckets that have changed since they were last rebuilt. The stream must not run.

        This merges the files with final rows of earlier micro-batches; the rows remain the same. Nothing is rebuilt if
        the last micro-batch was interrupted, because Spark repeats it at the next start.

        Args:
            spark: session that runs the queries.

        Raises: StreamedError if an earlier run wrote the tables in another format.
        """
        self._require_same_format()
        number = self._last_batch()
        if number is None or not self._is_committed(number):
            return
        summary, states = self._load_summary(number)
        stale = set(states.stale)
        if not stale:
            return
        states.due |= stale  # if the process is killed now, the next micro-batch rebuilds them
        self._save_summary(summary, states, number)
        open_now = self._open_rows(spark, number)
        now = summary | summary_of(open_now)
        version = f"batch={number}-{uuid4().hex}"
        with self.output.staging(self._staging) as staging:
            update = Update(number, staging, self._states, {}, version, stale)
            tasks = task_count(now.size, second_stage.A_TASK)
            nothing = open_now.where("false")
            done = self._updated(nothing, open_now, nothing, now, update, stale, tasks)
            marks = {mark(bucket) for bucket in stale for mark in (bundles.bucket_mark, final_marks)}
            self.output.put(spark, staging, self.capture_id, done.written, marks, f"{self.work}/tables", number)
        replaced = [*states.replaced, *((bucket, states.versions[bucket]) for bucket in stale)]
        states = states.after(done.buckets, version, stale)
        states.due -= stale
        states.replaced = replaced
        self._save_summary(summary, states, number)

    def unread(self) -> list[str]:
        """Return the paths of the capture files that the stream has not read, such as the newest one, which may still
        grow. For a topic, the list is empty. The stream must not run.
        """
        files, inside = file_system(f"{self.work}/checkpoint/offsets")
        found = files.get_file_info(FileSelector(inside, allow_not_found=True))
        stored = {int(one.base_name): one.path for one in found if one.base_name.isdecimal()}
        if is_topic(self.inputs[0]) or not stored:
            return []
        with files.open_input_file(stored[max(stored)]) as raw:
            return stream_source.after(self.inputs, json.loads(raw.read().splitlines()[-1]))  # the offset of the source

    @property
    def _format_file(self) -> str:
        return f"{self.work}/format"

    def _require_same_format(self) -> None:
        """Check that the tables of earlier micro-batches have the format of the output.

        Raises: StreamedError if they have another format. Tables of an earlier release of kwire are not checked.
        """
        number = self._last_batch()
        files, inside = file_system(self._format_file)
        is_stored = files.get_file_info(inside).type.name == "File"
        if not is_stored or number is None or (number == 0 and not self._is_committed(0)):
            return
        with files.open_input_file(inside) as raw:
            form = raw.read().decode()
        if form != self.output.form:
            raise StreamedError(
                f"the stream in {self.work} writes {form}: continue with --format {form}, or choose another --output"
            )

    @property
    def _stored_rows(self) -> str:
        return f"{self.work}/connection_rows"

    @property
    def _states(self) -> str:
        return f"{self.work}/states"

    def _stored(self, spark: SparkSession) -> DataFrame:
        """Return the stored rows of all micro-batches so far, without those of open connections."""
        return spark.read.schema(STORED_ROWS).parquet(path_to_read(self._stored_rows)).drop("batch", "provisional")

    def _updated(
        self,
        fresh: DataFrame,
        open_now: DataFrame,
        per_connection: DataFrame,
        known: CaptureSummary,
        update: Update,
        buckets: set[int],
        tasks: int,
    ) -> Updated:
        """Update the tables of some buckets, and write the rows of connections.

        Args:
            fresh: bundles of the micro-batch.
            open_now: bundles of open connections.
            per_connection: bundles of the kinds PER_CONNECTION, with a file mark in their keys.
            known: summary of all files up to the micro-batch.
            update: numbers and folders of the update.
            buckets: numbers of the buckets.
            tasks: number of Spark tasks.
        """
        rebuilt = set(update.rebuilt) & buckets
        groups = of_buckets(open_now, known, buckets, PENDING)
        if buckets - rebuilt:
            groups = groups.unionByName(of_buckets(fresh, known, buckets - rebuilt))
        if rebuilt:
            groups = groups.unionByName(of_buckets(self._stored(fresh.sparkSession), known, rebuilt))
            tasks = task_count(known.size, second_stage.A_TASK)
        increments = Increments(
            self.capture_id,
            known.names,
            Clusters(known.statements),
            frozenset(known.unread),
            self.settings,
            self.settled_us,
        )
        return write_update(groups, per_connection, increments, update, tasks)

    @staticmethod
    def _changed_buckets(connection_rows: DataFrame, summary: CaptureSummary) -> set[int]:
        """Return the numbers of the buckets that must be recomputed after a micro-batch.

        A bucket is a part of the consumer groups and count tables. It must be recomputed in three cases:

        - It contains the consumer group, or the sum of a count table, to which a new or replaced row belongs.
        - It contains a group that commits offsets of a partition with new end offsets or fetches.
        - It contains a group for which a producer commits offsets in transactions, and such a transaction has ended.

        Args:
            connection_rows: bundles of the micro-batch, and the older bundles that are replaced by them.
            summary: summary of all files up to the micro-batch.
        """
        rows = connection_rows.where(~sql.col("kind").isin(*PER_CONNECTION, *SUMMARY_KINDS, *FOR_GROUPS))
        stream_only = sql.when(sql.col("kind").isin(*STREAM_ONLY), sql.col("rows")).alias("stream_only")
        kind = sql.when(sql.col("kind").isin(*STREAM_ONLY), sql.col("kind")).alias("kind")
        buckets: set[int] = set()
        groups, by_producer = summary.groups, summary.by_producer
        for row in rows.select("bucket", kind, stream_only).distinct().collect():
            if row.stream_only is None:
                buckets.add(row.bucket)
                continue
            for about in unbundle(bytes(row.stream_only)):
                if row.kind == "ended":
                    concerned = by_producer.get(about, [])
                else:
                    concerned = groups.get((summary.name(about[0]), about[1]), [])
                buckets |= {bucket_of(about_group(group)) for group in concerned}
        return buckets

    def _open_rows(self, spark: SparkSession, number: int) -> DataFrame:
        """Return the rows of the connections that were open after a micro-batch.

        ``number``: number of the micro-batch. If no rows are stored for this number, the result is empty.
        """
        files, inside = file_system(self._open_rows_folder(number))
        if files.get_file_info(inside).type.name != "Directory":
            return spark.createDataFrame([], STORED_ROWS)
        return spark.read.schema(STORED_ROWS).parquet(path_to_read(self._open_rows_folder(number)))

    def _open_rows_folder(self, number: int) -> str:
        return f"{self.work}/standing/batch={number}"

    def _last_batch(self) -> int | None:
        """Return the number of the last micro-batch with a stored summary; None without one."""
        files, inside = file_system(f"{self.work}/summary")
        if files.get_file_info(inside).type.name != "Directory":
            return None
        folders = files.get_file_info(FileSelector(inside))
        return max((int(one.base_name.partition("=")[2]) for one in folders), default=None)

    def _is_committed(self, number: int) -> bool:
        """Return whether Spark has committed a micro-batch, which is then not repeated."""
        files, inside = file_system(f"{self.work}/checkpoint/commits/{number}")
        return bool(files.get_file_info(inside).type.name == "File")

    def _load_summary(self, number: int) -> tuple[CaptureSummary, Buckets]:
        """Return the stored summary of all files up to a micro-batch, and the states of buckets after it.

        ``number``: number of the micro-batch; -1 returns an empty summary.

        Raises: plain.PlainError if the stored summary is missing or cannot be decoded.
        """
        files, inside = file_system(f"{self._summary_folder(number)}/{SUMMARY_FILE}")
        if number < 0:
            return CaptureSummary(), Buckets()
        if files.get_file_info(inside).type.name != "File":
            raise plain.PlainError(f"file {inside} is missing: delete {self.work} to restart the stream from scratch")
        with files.open_input_file(inside) as raw:
            stored = plain.loads(raw.read())
        if not isinstance(stored, tuple):
            raise plain.PlainError(
                f"file {inside} is from an earlier release: delete {self.work} to restart the stream from scratch"
            )
        summary, states = stored
        return summary, states

    def _summary_folder(self, number: int) -> str:
        return f"{self.work}/summary/batch={number}"

    def _save_summary(self, summary: CaptureSummary, states: Buckets, number: int) -> None:
        self._write_file(f"{self._summary_folder(number)}/{SUMMARY_FILE}", plain.dumps((summary, states)))

    @staticmethod
    def _write_file(path: str, content: bytes) -> None:
        """Write a file, and create its folder."""
        files, inside = file_system(path)
        files.create_dir(inside.rpartition("/")[0], recursive=True)
        with files.open_output_stream(inside) as raw:
            raw.write(content)

    @staticmethod
    def _delete(folder: str) -> None:
        """Delete a folder and its files, if it exists."""
        files, inside = file_system(folder)
        if files.get_file_info(inside).type.name == "Directory":
            files.delete_dir(inside)


def _with_mark(rows: DataFrame, mark: str) -> DataFrame:
    """Replace the key of bundles: the new key consists of a file mark and the connection key.

    Args:
        rows: bundles whose column ``key`` identifies the connection. Each row depends on this connection only.
        mark: file mark: a text in the names of the files to which the rows are written.
    """
    return rows.withColumn("about", sql.concat(sql.lit(f"{mark} "), sql.hex(sql.col("key"))))


def _mark(letter: str, number: int) -> str:
    """Return the file mark, such as ``f000012``, of the final rows of a micro-batch.

    A file mark is a text in the names of the files to which the rows are written.

    Args:
        letter: ``f`` for rows of the table ``frames`` and rows about capture files, ``c`` for rows of connections.
        number: number of the micro-batch, from 0.
    """
    return f"{letter}{number:06}"
