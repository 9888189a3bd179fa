"""The first stage of a stream: connections are followed from micro-batch to micro-batch, with Spark's state store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from kwire.analysis.events import split_partition
from kwire.capture.tls.keylog import KeyLog
from kwire.spark import bundles, first_stage, plain, segment_references
from kwire.spark.bundles import Bundler, Rows, about_group, bucket_of, bundle
from kwire.spark.following import ConnectionFollower, Payloads
from kwire.spark.tls_secrets import add_stored

IDLE = 15 * 60 * 1000  # milliseconds of inactivity after which the state of a connection is dropped
CONNECTION_ROWS = f"key BINARY, provisional BOOLEAN, {bundles.SPARK}"


class Follower(StatefulProcessor):
    """A stateful Spark processor that converts TCP segments to bundles of rows.

    For each pair of endpoints, Spark's state store keeps a ``ConnectionFollower`` between micro-batches.

    Args:
        capture_id: name of the capture.
        idle: milliseconds without segments after which a connection is finished and its state is removed.
        unpacked: folder with the decompressed content of gzip files; None if no file is compressed.
        keylog: secrets with which TLS is decrypted; None for none. The state store contains no secrets.
        secrets: folder with the TLS secrets of pcapng files; None for none.
    """

    def __init__(
        self,
        capture_id: str,
        idle: int = IDLE,
        unpacked: str | None = None,
        keylog: KeyLog | None = None,
        secrets: str | None = None,
    ) -> None:
        self.capture_id = capture_id
        self.idle = idle
        self.unpacked = unpacked
        self.keylog = keylog
        self.secrets = secrets

    def init(self, handle: StatefulProcessorHandle) -> None:
        if self.secrets is not None:
            known = KeyLog() if self.keylog is None else self.keylog
            add_stored(self.secrets, known)
            self.keylog = known if len(known) else self.keylog
        self.handle = handle
        self.state = handle.getValueState("following", "kept BINARY")

    def handleInputRows(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Row]:
        connection = bytes(key[0])
        following = self._stored() or ConnectionFollower(connection, self.capture_id, keylog=self.keylog)
        collected: Rows = defaultdict(list)
        self._process_rows(following, list(rows), collected)
        following.forget_secrets()
        kept = plain.dumps(following)
        self.state.update((kept,))
        for timer in list(self.handle.listTimers()):
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + self.idle)
        yield from connection_rows(collected, connection, provisional=False)
        as_if: Rows = defaultdict(list)
        self._decoded(kept).finish(as_if)
        yield from connection_rows(as_if, connection, provisional=True)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N803
        following = self._stored()
        self.state.clear()
        collected: Rows = defaultdict(list)
        if following is not None:
            following.finish(collected)
        yield from connection_rows(collected, bytes(key[0]), provisional=False)

    def _stored(self) -> ConnectionFollower | None:
        kept = self.state.get() if self.state.exists() else None  # Spark logs a warning for each get() without a value
        return self._decoded(bytes(kept[0])) if kept is not None else None

    def _decoded(self, kept: bytes) -> ConnectionFollower:
        following: ConnectionFollower = plain.loads(kept)
        following.use_secrets(self.keylog)
        return following

    def _process_rows(self, following: ConnectionFollower, rows: list[Row], collected: Rows) -> None:
        rows.sort(key=lambda row: [row[name] for name in segment_references.ORDER])
        paths: dict[str, int] = {row.path: n for n, row in reversed(list(enumerate(rows)))}
        numbers = {path: number for number, path in enumerate(paths)}
        columns = {
            field.name: pa.array([row[field.name] for row in rows], field.type)
            for field in segment_references.REFERENCES
            if field.name not in ("file", "path")
        }
        columns["file"] = pa.array([numbers[row.path] for row in rows], pa.int32())
        payloads = Payloads(list(numbers), self.unpacked)
        try:
            first_stage.follow_segments(following, pa.RecordBatch.from_pydict(columns), payloads, collected)
        finally:
            payloads.close()


def connection_rows(collected: Rows, key: bytes, *, provisional: bool) -> Iterator[Row]:
    """Yield bundles of a connection's rows as Spark rows with the schema CONNECTION_ROWS.

    Args:
        collected: lists of rows by kind. All rows are removed from the lists.
        key: bytes that identify the connection.
        provisional: True for rows that assume that an open connection ends now. They are replaced when the connection
            has new segments or ends.
    """
    complete = [bundle("frames", "", rows)] if (rows := collected.pop("frames", [])) else []
    of_partitions = (*collected.get("marks", ()), *collected.get("spans", ()))
    if ends := {(one.topic, one.partition) for one in of_partitions}:
        complete.append(bundle("ends", "", sorted(ends)))
    if ended := {one.transactional_id for one in collected.get("endings", ())}:
        complete.append(bundle("ended", "", sorted(ended)))
    if ids := topic_ids(collected):
        complete.append(bundle("ids", "", sorted(ids)))
    bundler = Bundler()
    complete += [*bundler.add(collected), *bundler.finish()]
    for one in complete:
        yield Row(key=key, provisional=provisional, **one._asdict())


def topic_ids(rows: Rows) -> set[tuple[str, int]]:
    """Return the topic ids in rows, each with the number of the bucket that contains the row.

    A topic id is the text ``id:`` followed by the topic id. Only group events and errors can contain a topic id.

    ``rows``: lists of rows by kind.
    """
    found = [(row["topic"], bundles.about_error_row(row)) for row in rows.get("errors", ())]
    for event in rows.get("events", ()):
        topics = {event.topic, *(split_partition(partition)[0] for partition in event.partitions or ())}
        found += [(topic, about_group(event.group_id)) for topic in topics]
    return {(topic, bucket_of(about)) for topic, about in found if topic is not None and topic.startswith("id:")}
