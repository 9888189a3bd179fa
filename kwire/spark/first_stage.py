"""The first stage of the pipeline, which converts references to TCP segments to rows of calls and connections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame

from kwire.analysis.columns import arrow_table, spark_schema
from kwire.analysis.tables import FRAMES
from kwire.capture.calls.conversation import Row as Segment
from kwire.capture.calls.exchange import FrameOfLog
from kwire.capture.files.blocks import Problem
from kwire.capture.tls.keylog import KeyLog
from kwire.spark import bundles, packing
from kwire.spark.bundles import Bundle, Bundler, Rows, bundle
from kwire.spark.following import SEALED, ConnectionFollower, Payloads, reaches
from kwire.spark.parts import Parts
from kwire.spark.segment_references import ORDER, wrongly_guessed
from kwire.spark.staging_folders import secrets_in, unpacked_in, wrong_in
from kwire.spark.tls_secrets import stored
from kwire.spark.worker import collect_garbage_rarely

SEGMENT = Segment._fields
ENOUGH = 5_000  # rows per batch of bundles
MOST_IN_RUN = 10_000  # segments of a connection that are processed at once


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
    for complete in follow_connections(Bundler(slice_size), *about, batches):
        yield bundles.batch(complete)


def follow_connections(
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


def frames(ordered: DataFrame, paths: Sequence[str], capture_id: str, keylog: KeyLog | None = None) -> DataFrame:
    """Return the table ``frames`` as a DataFrame.

    Args:
        ordered: references to TCP segments, ordered by connection.
        paths: paths of the files. The index of a path is its file number.
        capture_id: name of the capture.
        keylog: TLS secrets; None to decrypt nothing.
    """
    return ordered.mapInArrow(partial(_frames, list(paths), capture_id, keylog), spark_schema(FRAMES))


def _frames(
    paths: list[str], capture_id: str, keylog: KeyLog | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for rows in followed(paths, capture_id, batches, keylog=keylog):
        yield from arrow_table(FRAMES, rows.pop("frames", [])).to_batches()
        rows.clear()


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
