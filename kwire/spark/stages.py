"""The stages of the pipeline, which turn references to TCP segments into tables.

The first stage processes each connection. The second stage processes each consumer group and each count table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from kwire.analysis import events, usage
from kwire.analysis.clusters import Clusters, ClusterStatement
from kwire.analysis.columns import Row, arrow_table, spark_schema
from kwire.analysis.events import GroupEvent
from kwire.analysis.findings import fold as findings
from kwire.analysis.frames import located, problem_row
from kwire.analysis.groups import history, slices
from kwire.analysis.tables import FRAMES, LATENCY
from kwire.analysis.topics import Watermark
from kwire.analysis.transactions import Transactions
from kwire.analysis.unread import Unread
from kwire.analysis.what_if import comparison, evidence
from kwire.capture.calls.bodies import BodyReader
from kwire.capture.calls.conversation import Row as Segment
from kwire.capture.calls.exchange import FrameOfLog
from kwire.capture.calls.model import Connection
from kwire.capture.files.blocks import Problem, Skipped, damage, notes
from kwire.capture.files.file_systems import below
from kwire.capture.tls.keylog import KeyLog
from kwire.lazy_dataclass import dataclass
from kwire.spark import bundles, packing
from kwire.spark.bundles import (
    COUNTED,
    FOR_GROUPS,
    PER_CONNECTION,
    SUMMARY_KINDS,
    Bundle,
    Bundler,
    Counts,
    Rows,
    bundle,
    unbundle,
)
from kwire.spark.folding import CallFold, call_of
from kwire.spark.following import SEALED, ConnectionFollower, Payloads, reaches
from kwire.spark.parts import Parts
from kwire.spark.source import ORDER, PACKED, CaptureReader, convert_in_one_task, wrongly_guessed
from kwire.spark.tasks import task_count
from kwire.spark.tls_secrets import stored
from kwire.spark.worker import collect_garbage_rarely

SEGMENT = Segment._fields
ENOUGH = 5_000  # rows per batch of bundles
MOST_IN_RUN = 10_000  # segments of a connection that are processed at once
A_SLICE = 1024 * 1024  # bytes of undecoded frames per task, for small captures
A_TASK = 4 * 1024 * 1024  # bytes of bundles per task of the second stage
MOST_HELD = 250_000  # rows that one task keeps for all stages: commits of many partitions are 1,000,000 rows in 20 MB


# --- first stage: connections -----------------------------------------------------------------------------------------


def by_connection(references: DataFrame, partitions: int | None) -> DataFrame:
    """Return the references to TCP segments, ordered by connection and without the column ``path``.

    All segments of a connection are in one Spark partition.

    Args:
        references: rows of the data source ``kafka_pcap``.
        partitions: number of Spark partitions; None for Spark's own choice.
    """
    rows = references.drop("path")
    rows = rows.repartition(partitions, "connection") if partitions else rows.repartition("connection")
    return rows.sortWithinPartitions("connection", *ORDER)


def connection_bundles(
    ordered: DataFrame,
    paths: Sequence[str],
    capture_id: str,
    staging: str,
    follow: type[ConnectionFollower] = ConnectionFollower,
    slice_size: int = bundles.SLICE,
    slice_calls: int = 0,
    keylog: KeyLog | None = None,
) -> DataFrame:
    """Return the rows of all connections as bundles, except the rows of the table ``frames``.

    The tasks write the rows of ``frames`` to ``staging``. They report these files in bundles of the kind ``written``.

    Args:
        ordered: references to TCP segments, ordered by connection.
        paths: paths of the files. The index of a path is its file number.
        capture_id: name of the capture.
        staging: folder for the written files. It also contains the decompressed gzip files, the TLS secrets of pcapng
            files, and the reports of wrong guesses. After such a report, the result has no rows.
        follow: class that converts the segments of a connection; ReplayFollower if groups are replayed.
        slice_size: bytes of events that one task processes if a consumer group is so large that several tasks share it.
        slice_calls: number of calls that are decoded at the beginning of a connection. The bundles contain all later
            calls undecoded, and ``with_slices`` decodes them. 0 to decode all calls.
        keylog: TLS secrets, besides those of pcapng files; None for none.
    """
    convert = partial(_connection_bundles, paths, capture_id, staging, follow, slice_size, slice_calls, keylog)
    return ordered.mapInArrow(convert, bundles.SPARK)


def frames(ordered: DataFrame, paths: Sequence[str], capture_id: str, keylog: KeyLog | None = None) -> DataFrame:
    """Return the table ``frames`` as a DataFrame.

    Args:
        ordered: references to TCP segments, ordered by connection.
        paths: paths of the files. The index of a path is its file number.
        capture_id: name of the capture.
        keylog: TLS secrets; None to decrypt nothing.
    """
    return ordered.mapInArrow(partial(_frames, list(paths), capture_id, keylog), spark_schema(FRAMES))


def _connection_bundles(
    paths: Sequence[str],
    capture_id: str,
    staging: str,
    follow: type[ConnectionFollower],
    slice_size: int,
    slice_calls: int,
    keylog: KeyLog | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    collect_garbage_rarely()
    if wrongly_guessed(wrong_in(staging)):
        return  # all files were read before: the references are useless
    about = paths, capture_id, staging, follow, slice_calls, keylog
    for complete in _follow(Bundler(slice_size), *about, batches):
        yield bundles.batch(complete)


def _follow(
    bundler: Bundler,
    paths: Sequence[str],
    capture_id: str,
    staging: str,
    follow: type[ConnectionFollower],
    slice_calls: int,
    keylog: KeyLog | None,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[list[Bundle]]:
    """Yield the rows of connections as bundles, and write the rows of ``frames``.

    ``bundler``: converter of the rows to bundles. For the other arguments, see ``connection_bundles``.
    """
    parts = Parts(staging)
    secrets = stored(secrets_in(staging), keylog)
    for rows in followed(paths, capture_id, batches, unpacked_in(staging), follow, slice_calls, secrets):
        parts.add("frames", rows.pop("frames", []))
        if complete := list(bundler.add(rows)):
            yield complete
    yield [*bundler.finish(), bundle("written", "", parts.close())]


def _frames(
    paths: list[str], capture_id: str, keylog: KeyLog | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for rows in followed(paths, capture_id, batches, keylog=keylog):
        yield from arrow_table(FRAMES, rows.pop("frames", [])).to_batches()
        rows.clear()


def unpacked_in(staging: str) -> str:
    """Return the folder in ``staging`` into which gzip files are decompressed."""
    return below(staging, "unpacked")


def secrets_in(staging: str) -> str:
    """Return the folder in ``staging`` in which tasks store the TLS secrets of pcapng files."""
    return below(staging, "secrets")


def wrong_in(staging: str) -> str:
    """Return the folder in ``staging`` in which tasks report wrong guesses of packet record positions."""
    return below(staging, "wrong")


def followed(
    paths: Sequence[str],
    capture_id: str,
    batches: Iterator[pa.RecordBatch],
    unpacked: str | None = None,
    follow: type[ConnectionFollower] = ConnectionFollower,
    slice_calls: int = 0,
    keylog: KeyLog | None = None,
) -> Iterator[Rows]:
    """Yield the rows of calls and connections in portions, from references to TCP segments.

    A portion is a dictionary with lists of rows by kind. The same dictionary is used for all portions, so the caller
    must remove the rows from the dictionary before the next portion.

    Args:
        paths: paths of the files. The index of a path is its file number.
        capture_id: name of the capture.
        batches: references, ordered by connection.
        unpacked: folder with the decompressed content of gzip files; None if the rows contain the payload.
        follow: class that converts the segments of a connection.
        slice_calls: number of calls that are decoded at the beginning of a connection. All later calls are rows of the
            kind ``calls``, undecoded. 0 to decode all calls.
        keylog: TLS secrets; None to decrypt nothing.
    """
    payloads = Payloads(paths, unpacked)
    follower: ConnectionFollower | None = None
    collected: Rows = defaultdict(list)
    try:
        for batch in batches:
            for key, rows in runs(batch):
                if follower is None or follower.key != key:
                    if follower is not None:
                        follower.finish(collected)
                    follower = follow(key, capture_id, slice_calls, keylog)
                follow_segments(follower, rows, payloads, collected)
                if collected.get("calls") or sum(map(len, collected.values())) >= ENOUGH:
                    yield collected
        if follower is not None:
            follower.finish(collected)
        yield collected
    finally:
        payloads.close()


def runs(batch: pa.RecordBatch) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """Divide a batch of references into runs: consecutive rows of the same connection.

    Either all rows of a run are packed, or none. A run has at most MOST_IN_RUN segments.

    Yields: the connection key and the rows of a run.
    """
    kinds = list(zip(batch.column("connection").to_pylist(), packing.is_packed(batch), strict=True))
    begin = 0
    for n in range(1, len(kinds) + 1):
        most = MOST_IN_RUN // packing.MOST if kinds[begin][1] else MOST_IN_RUN
        if n == len(kinds) or kinds[n] != kinds[begin] or n - begin == most:
            yield kinds[begin][0], batch.slice(begin, n - begin)
            begin = n


def follow_segments(follower: ConnectionFollower, rows: pa.RecordBatch, payloads: Payloads, collected: Rows) -> None:
    """Process the segments of a connection, and add the rows of completed calls to ``collected``.

    References about damage and skipped packets of files belong to no connection. Their rows are added to ``collected``,
    too.

    Args:
        follower: converter of the connection's segments to rows. The key of the follower is empty if the references
            belong to no connection.
        rows: references to the segments, as a run of ``runs``.
        payloads: reader of the payload of the segments.
        collected: lists of rows by kind.
    """
    if not follower.key:
        files = rows.column("file").to_pylist()
        columns = (rows.column(name).to_pylist() for name in ("position", "time_us", "problem", "number", "skipped"))
        for file, position, time_us, problem, packets, reason in zip(files, *columns, strict=True):
            path = payloads.paths[int(file)]
            if problem is not None:
                collected["damage"].append(Problem(path, position, problem, time_us))
            else:
                collected["skipped"].append(((path, reason), packets))
        return
    if any(packing.is_packed(rows)):
        files, columns_by_name = packing.unpack(rows)
    else:
        files = rows.column("file").to_pylist()
        columns_by_name = {name: rows.column(name).to_pylist() for name in SEGMENT}
    segments = list(zip(*columns_by_name.values(), strict=True))
    payload = rows.column("payload")
    if len(follower.key) != SEALED:
        for file, values, frame in zip(files, segments, payload.to_pylist(), strict=True):
            one = Segment._make(values)
            follower.frame(FrameOfLog(one.upward, frame, one.time_us, payloads.paths[int(file)], one.position))
        follower.collect(collected)
        return
    starts = columns_by_name["start"]
    until = reaches(files, columns_by_name["position"], starts, columns_by_name["captured"])
    if payload.null_count < len(payload):
        for file, values, data, reach in zip(files, segments, payload.to_pylist(), until, strict=True):
            base = 0 if data is None else Segment._make(values).start
            source = payloads.of(file, {Segment._make(values).start: reach}) if data is None else data
            follower.segments((values,), source, base, payloads.paths[int(file)], collected)
        follower.collect(collected)
        return
    begin = 0
    for file, run in groupby(files):
        end = begin + len(list(run))
        source = payloads.of(file, dict(zip(starts[begin:end], until[begin:end], strict=True)))
        follower.segments(segments[begin:end], source, 0, payloads.paths[int(file)], collected)
        begin = end
    follower.collect(collected)


# --- second stage: groups and counts --------------------------------------------------------------------------------


@dataclass(slots=True)
class CaptureSummary:
    """The results of the first stage that the Spark driver needs.

    Attributes:
        names: topic names; a key is the text ``id:`` followed by the topic id.
        commits: consumer group ids, each with a topic and a partition for which the group commits offsets.
        producers: consumer group ids, each with the transactional id of a producer that commits offsets for the group.
        wanted: ids of replayed groups, each with a topic to which the group subscribes.
        statements: cluster ids and broker addresses in responses.
        damage: damaged positions in files.
        packets: numbers of skipped packets, by file and reason.
        remarks: numbers of connections that were not decoded completely, by reason.
        unread: periods of connections in which calls may be missing.
        written: paths of the written files, relative to the staging folder.
        size: bytes of the bundles.
        large: bytes of the events of consumer groups that may be large, by the key of the group.
        ids: topic ids, each with the number of a bucket that contains rows with the id; empty except in a stream.
        sliced: number of slices: groups of consecutive calls of a connection, which the first stage does not decode.
        sliced_size: bytes of the frames in all slices.
    """

    names: dict[str, str] = field(default_factory=dict)
    commits: set[tuple[str, str, int]] = field(default_factory=set)
    producers: set[tuple[str, str]] = field(default_factory=set)
    wanted: set[tuple[str, str]] = field(default_factory=set)
    statements: set[ClusterStatement] = field(default_factory=set)
    damage: set[Problem] = field(default_factory=set)
    packets: Counter[tuple[str, str]] = field(default_factory=Counter)
    remarks: Counter[str] = field(default_factory=Counter)
    unread: set[Unread] = field(default_factory=set)
    written: list[str] = field(default_factory=list)
    size: int = 0
    large: Counter[str] = field(default_factory=Counter)
    ids: set[tuple[str, int]] = field(default_factory=set)
    sliced: int = 0
    sliced_size: int = 0

    @classmethod
    def of(cls, bundles: Iterable[Bundle]) -> CaptureSummary:
        summary = cls()
        for one in bundles:
            rows = unbundle(one.rows)
            match one.kind:
                case "names":
                    summary.names.update(rows)
                case "commits":
                    summary.commits.update(rows)
                case "producers":
                    summary.producers.update(rows)
                case "wanted":
                    summary.wanted.update(rows)
                case "statements":
                    summary.statements.update(rows)
                case "damage":
                    summary.damage.update(rows)
                case "skipped":
                    for which, packets in rows:
                        summary.packets[which] += packets
                case "remarks":
                    summary.remarks.update(rows)
                case "unread":
                    summary.unread.update(rows)
                case "written":
                    summary.written += rows
                case "large":
                    for about, size in rows:
                        summary.large[about] += size
                case "ids":
                    summary.ids.update(rows)
                case "slices":
                    for number, size in rows:
                        summary.sliced += number
                        summary.sliced_size += size
                case "size":
                    summary.size += sum(rows)
        return summary

    def __or__(self, other: CaptureSummary) -> CaptureSummary:
        """Return a summary of the files of both summaries.

        Only the attributes that a stream needs are set: ``names``, ``commits``, ``producers``, ``statements``,
        ``unread``, ``ids`` and ``size``.
        """
        return CaptureSummary(
            self.names | other.names,
            self.commits | other.commits,
            self.producers | other.producers,
            statements=self.statements | other.statements,
            unread=self.unread | other.unread,
            ids=self.ids | other.ids,
            size=self.size + other.size,
        )

    def slices(self, size: int) -> dict[str, int]:
        """Return the number of slices of each large consumer group, by the key of the group from ``about_group``.

        A group is large if its events have more than twice ``size`` bytes. It has at most MOST_SLICES slices.

        ``size``: bytes of the events in one slice.
        """
        return {
            about: min(-(-events // size), bundles.MOST_SLICES)
            for about, events in self.large.items()
            if events > 2 * size
        }

    @property
    def problems(self) -> list[Problem]:
        """The damaged positions in files, ordered by file and position."""
        return sorted(self.damage, key=lambda problem: (problem.file, problem.position, problem.reason))

    @property
    def skipped(self) -> list[Skipped]:
        """The numbers of skipped packets, one for each file and reason, ordered by file and reason."""
        return [Skipped(file, packets, reason) for (file, reason), packets in sorted(self.packets.items())]

    @property
    def damaged(self) -> list[Problem | Skipped]:
        """The damaged positions in files, and the files with packets that were truncated or lost at an interface."""
        return damage(self.problems, self.skipped)

    @property
    def is_empty(self) -> bool:
        """Whether the captures have no frame, no damage, no skipped packet and no connection with a remark."""
        has_frames = any(place.startswith(f"{FRAMES.name}/") for place in self.written)
        return not (has_frames or self.problems or self.skipped or self.remarks)

    @property
    def notes(self) -> list[str]:
        """Lines for the user about skipped packets and about connections that were not decoded completely."""
        return notes(self.skipped, self.remarks)

    def name(self, topic: str) -> str:
        """Return the name of a topic.

        Args:
            topic: name of the topic, or the text ``id:`` followed by the topic id. A name is returned unchanged, and so
                is a topic id whose name is unknown.
        """
        return self.names.get(topic, topic)

    @property
    def groups(self) -> dict[tuple[str, int], list[str]]:
        """The ids of the consumer groups that commit offsets of a partition, by topic and partition."""
        groups: dict[tuple[str, int], set[str]] = defaultdict(set)
        for group, topic, partition in self.commits:
            groups[self.name(topic), partition].add(group)
        return {partition: sorted(names) for partition, names in groups.items()}

    @property
    def by_producer(self) -> dict[str, list[str]]:
        """The ids of the consumer groups for which a producer commits offsets in transactions, by transactional id."""
        groups_by_key: dict[str, set[str]] = defaultdict(set)
        for group, transactional_id in self.producers:
            groups_by_key[transactional_id].add(group)
        return {transactional_id: sorted(groups) for transactional_id, groups in groups_by_key.items()}

    @property
    def replayed(self) -> dict[str, list[str]]:
        """The ids of the consumer groups that subscribe to a topic, by topic; empty if groups are not replayed."""
        groups_by_key: dict[str, set[str]] = defaultdict(set)
        for group, topic in self.wanted:
            groups_by_key[self.name(topic)].add(group)
        return {topic: sorted(groups) for topic, groups in groups_by_key.items()}


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
    decoded = _by_key(extracted.where(kind == "calls"), tasks).mapInArrow(decode, bundles.SPARK).persist()
    folds = extracted.where(kind == "folds").unionByName(decoded.where(kind == "folds"))
    merged = _by_key(folds, 1).mapInArrow(partial(_merge_folds, slice_size), bundles.SPARK).persist()
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
    for by_kind in _runs_of_keys(batches):
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
    for by_kind in _runs_of_keys(batches):
        (_, _, fold, connection), *later = sorted(by_kind["folds"], key=itemgetter(1))
        rows: Rows = defaultdict(list)
        for _, _, other, _ in later:
            fold.merge(other, rows)
        fold.finish(connection, rows)
        yield bundles.batch(list(bundler.add(rows)))
    yield bundles.batch(list(bundler.finish()))


def summary_of(extracted: DataFrame) -> CaptureSummary:
    """Return the summary of the first stage's bundles.

    The call runs the first stage, so the caller should persist ``extracted`` before. Otherwise Spark runs the first
    stage again for the next use of ``extracted``.

    Args:
        extracted: bundles of the first stage, as a DataFrame.
    """
    return _summary(extracted.where(sql.col("kind").isin(*SUMMARY_KINDS)).collect())


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
        divide = partial(_divide, known.names, sliced)
        others = others.where(~of_large).unionByName(events.mapInArrow(divide, bundles.SPARK))
    fold = partial(_fold, builder, staging)
    parts = _by_key(others, tasks).mapInArrow(fold, bundles.SPARK)
    if not sliced:
        return _written(parts)
    parts = parts.persist()
    try:
        written = _written(parts.where("kind = 'written'"))
        rows = pending.unionByName(parts.where("kind = 'rows'"))
        find = partial(_find, builder, staging)
        return written + _written(_by_key(rows, min(tasks, len(sliced))).mapInArrow(find, bundles.SPARK))
    finally:
        parts.unpersist()


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
    connections = _follow(Bundler(encodes=False), *about, _by_position(references))
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
    others += _sent_to_groups(known.names, known.groups, known.replayed, known.by_producer, {}, for_groups)
    others.sort(key=attrgetter("about", "kind"))
    clusters = Clusters(known.statements)
    builder = TableBuilder(capture_id, known.names, clusters, frozenset(known.unread), assignor, settings)
    yield from _fold_bundles(builder, staging, others)
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


def _by_key(rows: DataFrame, tasks: int) -> DataFrame:
    """Order bundles so that bundles with the same key are consecutive rows of one task.

    Args:
        rows: bundles.
        tasks: number of Spark tasks.
    """
    divided = rows.repartition(tasks, "about") if tasks > 1 else rows.coalesce(1)
    return divided.sortWithinPartitions("about", "kind")


def _written(parts: DataFrame) -> list[str]:
    return _summary(parts.collect()).written


def _summary(collected: Iterable[Any]) -> CaptureSummary:
    return CaptureSummary.of(Bundle(row.kind, row.about, bytes(row.rows)) for row in collected)


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


def groups_in(
    known: CaptureSummary, buckets: Collection[int]
) -> tuple[dict[tuple[str, int], list[str]], dict[str, list[str]]]:
    """Return ``groups`` and ``by_producer`` of a summary, with the groups in some buckets only.

    Args:
        known: the summary.
        buckets: numbers of the buckets, see ``bundles.bucket_of``.
    """

    def some(groups: Iterable[str]) -> list[str]:
        return [one for one in groups if bundles.bucket_of(bundles.about_group(one)) in buckets]

    by_partition = {partition: some(groups) for partition, groups in known.groups.items()}
    return by_partition, {producer: some(groups) for producer, groups in known.by_producer.items()}


def send_to_groups(
    names: Mapping[str, str],
    groups: Mapping[tuple[str, int], list[str]],
    replayed: Mapping[str, list[str]],
    by_producer: Mapping[str, list[str]],
    sliced: Mapping[str, int],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Copy data about topics and transactions into bundles of the consumer groups that need the data.

    Spark groups bundles by key. So one task gets the events of a group together with this data:

    - For a partition whose offsets the group commits: the end offsets, and the periods in which the partition was
      fetched.
    - For a topic to which a replayed group subscribes: the partitions.
    - For a producer that commits offsets for the group: the ends of the producer's transactions.

    Args:
        names: topic names; a key is the text ``id:`` followed by the topic id.
        groups: ids of the groups that commit offsets, by topic and partition.
        replayed: ids of the groups that subscribe to a topic, by topic; empty if groups are not replayed.
        by_producer: ids of the groups for which a producer commits offsets, by transactional id.
        sliced: number of slices of each large group, by the key of the group. A slice is a part of the group's events
            that one task processes. The end offsets of a partition are sent to the slice with the partition, and to the
            task that derives the findings of the group. Ends of transactions are sent to all slices.
        batches: bundles from the first stage whose kind is in FOR_GROUPS. Their key is empty.

    Yields: bundles whose key is the key of a group or of a slice.
    """
    for batch in batches:
        if complete := _sent_to_groups(names, groups, replayed, by_producer, sliced, bundles.bundles_of(batch)):
            yield bundles.batch(complete)


def _sent_to_groups(
    names: Mapping[str, str],
    groups: Mapping[tuple[str, int], list[str]],
    replayed: Mapping[str, list[str]],
    by_producer: Mapping[str, list[str]],
    sliced: Mapping[str, int],
    for_groups: Iterable[Bundle],
) -> list[Bundle]:
    marks_by_group: Rows = defaultdict(list)
    sizes: Rows = defaultdict(list)
    ended: Rows = defaultdict(list)
    fetched: Rows = defaultdict(list)
    for one in for_groups:
        rows = unbundle(one.rows)
        match one.kind:
            case "sizes":
                for size in rows:
                    for group in replayed.get(names.get(size.topic, size.topic), ()):
                        sizes[group].append(size)
            case "spans":
                for span in rows:
                    for group in groups.get((names.get(span.topic, span.topic), span.partition), ()):
                        fetched[group].append(span)
            case "endings":
                for ending in bundles.endings_of(rows):
                    for group in by_producer.get(ending.transactional_id, ()):
                        ended[group].append(ending)
            case "marks":
                for mark in bundles.marks_of(rows):
                    for group in groups.get((names.get(mark.topic, mark.topic), mark.partition), ()):
                        marks_by_group[group].append(mark)
            case unknown:
                raise bundles.unknown_kind(unknown)
    complete = [
        bundles.bundle_of_marks(about, some)
        for group, marks in marks_by_group.items()
        for about, some in _by_slice(bundles.about_group(group), marks, names, sliced)
    ]
    complete += [bundle("spans", bundles.about_group(group), some) for group, some in fetched.items()]
    complete += [bundle("sizes", bundles.about_group(group), some) for group, some in sizes.items()]
    complete += [
        bundles.bundle_of_endings(about, some)
        for group, some in ended.items()
        for about in _slices_of(bundles.about_group(group), sliced)
    ]
    return complete


def _slices_of(about: str, sliced: Mapping[str, int]) -> list[str]:
    """Return the keys of the slices of a consumer group, or the key of the group if it has no slices.

    Args:
        about: key of the group, from ``about_group``.
        sliced: number of slices of each large group, by the key of the group.
    """
    return [bundles.about_slice(about, n) for n in range(sliced[about])] if about in sliced else [about]


def _by_slice(
    about: str, marks: list[Watermark], names: Mapping[str, str], sliced: Mapping[str, int]
) -> Iterator[tuple[str, list[Watermark]]]:
    """Yield pairs of a key and end offsets.

    The first pair has the key of the consumer group and all end offsets. For a large group, more pairs follow: the key
    of a slice, and the end offsets of the partitions in the slice. A slice without end offsets has no pair.

    Args:
        about: key of the group, from ``about_group``.
        marks: end offsets of partitions that the group commits.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        sliced: number of slices of each large group, by the key of the group.
    """
    yield about, marks
    if about in sliced:
        parted: dict[int, list[Watermark]] = defaultdict(list)
        for mark in marks:
            topic = names.get(mark.topic, mark.topic)
            parted[slices.slice_of(topic, mark.partition, sliced[about])].append(mark)
        for number, some in parted.items():
            yield bundles.about_slice(about, number), some


def _divide(
    names: Mapping[str, str], sliced: Mapping[str, int], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Divide the events of large consumer groups into slices.

    Args:
        names: topic names; a key is the text ``id:`` followed by the topic id.
        sliced: number of slices of each large group, by the key of the group.
        batches: bundles with the events of large groups.

    Yields: bundles of the kind ``sliced``, whose key is the key of a slice. In their events, known topic names replace
        topic ids.
    """
    for batch in batches:
        for one in bundles.bundles_of(batch):
            named = (events.name_topics(event, names) for event in bundles.events_of(unbundle(one.rows)))
            parted = slices.slices(named, sliced[one.about])
            yield bundles.batch(
                [
                    bundles.bundle_of_slice(bundles.about_slice(one.about, n), some)
                    for n, some in enumerate(parted)
                    if some or not n
                ]
            )


def _find(builder: TableBuilder, staging: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the findings of large consumer groups; yield a bundle with the paths of the written files.

    Args:
        builder: builder that derives the findings.
        staging: folder for the written files.
        batches: bundles of large groups: rows of all slices, end offsets of partitions, and periods in which partitions
            were fetched. Bundles with the same key are consecutive.
    """
    parts = Parts(staging)
    for by_kind in _runs_of_keys(batches):
        parts.add("findings", builder.findings(by_kind))
    yield bundles.batch([bundle("written", "", parts.close())])


def _runs_of_keys(batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
    """Yield for each key the decoded rows of its bundles, by kind.

    ``batches``: batches of bundles; bundles with the same key must be consecutive.
    """
    every = (one for batch in batches for one in bundles.bundles_of(batch))
    for _, run in groupby(every, key=attrgetter("about")):
        by_kind: Rows = defaultdict(list)
        for one in run:
            by_kind[one.kind] += unbundle(one.rows)
        yield by_kind


def _fold(builder: TableBuilder, staging: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    collect_garbage_rarely()
    return _fold_bundles(builder, staging, (one for batch in batches for one in bundles.bundles_of(batch)))


def _fold_bundles(builder: TableBuilder, staging: str, ordered: Iterable[Bundle]) -> Iterator[pa.RecordBatch]:
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


@dataclass(frozen=True, slots=True)
class TableBuilder:
    """A converter of the bundles with one key, such as the key of a consumer group, to rows of tables.

    Attributes:
        capture_id: name of the capture.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        clusters: the cluster of each broker.
        unread: periods of connections in which calls may be missing.
        assignor: name of the assignor with which groups are replayed; None for no replay.
        settings: changed thresholds of detectors, by ``detector.threshold``; empty for all defaults.
    """

    capture_id: str
    names: Mapping[str, str]
    clusters: Clusters
    unread: frozenset[Unread] = frozenset()
    assignor: str | None = None
    settings: Mapping[str, float] = field(default_factory=dict)

    def connection_rows(self, kind: str, rows: list[Row]) -> list[Row]:
        """Return rows that depend on one connection only, ready to be written.

        Rows of the table ``connections`` get values in the columns ``cluster`` and ``node_id``; all other rows are
        returned unchanged.

        Args:
            kind: name of the table, one of PER_CONNECTION.
            rows: rows from bundles of this kind.
        """
        return [located(row, self.clusters) for row in rows] if kind == "connections" else rows

    def rows(self, by_kind: Rows) -> Mapping[str, Iterable[Row]]:
        """Return the rows of tables for one key, by table name.

        The key is a consumer group, a client, a transactional id, a minute of latencies, a group of errors, or a part
        of a count table.

        Args:
            by_kind: decoded rows of the bundles with this key, by kind.

        Raises: ValueError for a kind that is not in bundles.OF_TABLES.
        """
        bundles.check_kinds(by_kind, bundles.OF_TABLES)
        if "events" in by_kind:
            ends, spans = self._ends(by_kind), by_kind.get("spans", [])
            group_rows: dict[str, list[Row]] = defaultdict(list)
            known = evidence.Evidence(
                by_kind.get("subscribed", []), by_kind.get("sizes", []), self.names, self.clusters
            )
            for group, tables in self._histories(by_kind, "events", ends).items():
                tables["findings"] = findings.of_group(
                    self.capture_id, group, tables, ends, spans, self.names, self.clusters, self.settings
                )
                if self.assignor is not None:
                    tables |= comparison.fold(self.assignor, tables, known)
                for name, rows in tables.items():
                    group_rows[name] += rows
            return group_rows
        if steps := by_kind.get("steps"):
            return {"findings": findings.of_transactions(self.capture_id, steps, self.clusters, self.settings)}
        if "tallies" in by_kind or "connected" in by_kind:
            seen = by_kind.get("tallies", []), by_kind.get("connected", [])
            return {"findings": findings.of_clients(self.capture_id, *seen, self.clusters, self.settings)}
        if waits := by_kind.get("waits"):
            return {LATENCY.name: self._latency(waits)}
        if refused := by_kind.get("errors"):
            return {"errors": usage.errors(refused, self.names, self.clusters)}
        counted: dict[str, list[Row]] = {}
        for name in COUNTED:
            if name in by_kind:
                counts = Counts(name)
                counts.add(by_kind[name])
                counted[name] = counts.drain()
        return counted

    def slice_rows(self, by_kind: Rows) -> dict[str, dict[str, Sequence[Row]]]:
        """Return the rows of ``history.fold`` for one slice of a large consumer group, by group id and table name.

        Args:
            by_kind: decoded rows of the bundles of this slice, by kind.
        """
        return self._histories(by_kind, "sliced", self._ends(by_kind))

    def findings(self, by_kind: Rows) -> list[Row]:
        """Return the findings of a large consumer group.

        Args:
            by_kind: data of the group by kind: the rows of all slices, the end offsets of the partitions that the group
                commits, and the periods in which these partitions were fetched.
        """
        of_slices: dict[str, list[dict[str, Sequence[Row]]]] = defaultdict(list)
        for group, tables in by_kind.get("rows", []):
            of_slices[group].append(tables)
        ends, spans = self._ends(by_kind), by_kind.get("spans", [])
        return [
            row
            for group, some in of_slices.items()
            for row in findings.of_group(
                self.capture_id, group, slices.merged(some), ends, spans, self.names, self.clusters, self.settings
            )
        ]

    def _ends(self, by_kind: Rows) -> history.Ends:
        return history.Ends(bundles.marks_of(by_kind.get("marks", [])), self.names, self.clusters)

    def _histories(self, by_kind: Rows, kind: str, ends: history.Ends) -> dict[str, dict[str, Sequence[Row]]]:
        by_group: dict[str, list[GroupEvent]] = defaultdict(list)
        for event in bundles.events_of(by_kind[kind]):
            by_group[event.group_id].append(events.name_topics(event, self.names))
        ended = Transactions(bundles.endings_of(by_kind.get("endings", [])), self.clusters)
        return {
            group: history.fold(self.capture_id, group, named, ends, self.clusters, ended, self.unread)
            for group, named in by_group.items()
        }

    def _latency(self, waits: Iterable[tuple[Any, ...]]) -> list[Row]:
        apart: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)
        for *about, us in waits:
            apart[tuple(about)] += us
        return [usage.latency_row(self.capture_id, *about, us) for about, us in apart.items()]
