"""Conversion of decoded calls to rows, for one connection or for a slice of its calls.

The calls of a connection with very many calls are divided into slices of consecutive calls. Different tasks decode and
convert the slices. Each task also returns a ``CallFold`` for its slice: counts and states that need the rest of the
connection. One task merges the folds of a connection, in order of the slices. This module does not depend on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from kwire.analysis import extract, topics, transactions, unread, usage
from kwire.analysis.clusters import statement_of
from kwire.analysis.events import GroupEvent
from kwire.analysis.findings.observations import Observer
from kwire.analysis.frames import connection_row, frame_row, problem_row
from kwire.capture.calls.bodies import BodyReader
from kwire.capture.calls.model import Call, Connection
from kwire.spark.bundles import COUNTED, Rows

SLICE_CALLS = 20_000  # calls in one slice of a connection
SLICE_BYTES = 16 * 1024 * 1024  # bytes of the frames in one slice, which may have one call more
_values = attrgetter(*Call.__slots__)


@dataclass(slots=True)
class CallFold:
    """A converter of calls to rows, which keeps all results that are incomplete before the last call.

    It processes the calls of one connection, or of one slice of a connection. A slice consists of consecutive calls.

    Attributes:
        capture_id: name of the capture.
        is_first: True for a whole connection or its first slice; False for a later slice.
        counts: counts for the tables ``clients``, ``api_usage`` and ``errors``.
        statements: cluster ids and broker addresses in the responses so far, without times. A response with a cluster
            id and addresses that are already in this set adds no row.
        watch: periods in which calls may be missing.
        observer: collector of the data that detectors need: call counts, transactions, and fetched partitions.
    """

    capture_id: str
    is_first: bool = True
    counts: usage.Usage = field(default_factory=lambda: usage.Usage({}))
    statements: set[Any] = field(default_factory=set)
    watch: unread.Watch = field(init=False)
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        self.watch = unread.Watch(is_first=self.is_first)
        self.observer = Observer(is_first=self.is_first)

    def add(self, call: Call, rows: Rows) -> Sequence[GroupEvent]:
        """Add the rows of the next call to ``rows``; return the group events of the call.

        Args:
            call: complete call.
            rows: lists of rows by kind, as a ``defaultdict(list)``.
        """
        refused = usage.refusals(call)
        rows["frames"].append(frame_row(call, self.capture_id, refused))
        rows["names"] += topics.topic_names(call).items()
        rows["marks"] += topics.watermarks(call)
        rows["endings"] += transactions.endings(call)
        events = extract.events_of(call)
        rows["events"] += events
        self.watch.note(call, events)
        self.observer.note(call, refused)
        rows["steps"] += self.observer.steps(call)
        statement = statement_of(call)
        if statement is not None and statement.content not in self.statements:
            self.statements.add(statement.content)
            rows["statements"].append(statement)
        self.counts.add(call, refused)
        return events

    def drain(self, rows: Rows) -> None:
        """Move the latencies and call counts of all calls since the previous ``drain`` to ``rows``."""
        rows["waits"] += self.counts.drain_waits()
        rows["tallies"] += self.observer.drain()

    def merge(self, later: CallFold, rows: Rows) -> None:
        """Add the results of the next slice of the connection to this object.

        Rows that depend on both slices are added to ``rows``.

        Args:
            later: results of the next slice, after ``later.drain``. The caller must not use ``later`` again.
            rows: lists of rows by kind.
        """
        self.counts.merge(later.counts)
        self.statements |= later.statements
        self.watch.merge(later.watch)
        rows["steps"] += self.observer.merge(later.observer)

    def finish(self, connection: Connection, rows: Rows) -> None:
        """Add the remaining rows to ``rows``. The connection must have ended, and all its slices must be merged."""
        rows["connections"].append(connection_row(connection, self.capture_id))
        if (remark := connection.remark) is not None:
            rows["problems"].append(problem_row(connection, self.capture_id))
            rows["remarks"].append(remark[0])
        rows["unread"] += self.watch.finish(connection)
        whole, steps, spans = self.observer.finish(connection)
        rows["connected"] += [] if whole is None else [whole]
        rows["steps"] += steps
        rows["spans"] += spans
        software = {"software_name": connection.software_name, "software_version": connection.software_version}
        rows["errors"] += self.counts.refused(self.capture_id)
        counted = self.counts.rows(self.capture_id, {})
        for name in COUNTED:
            rows[name] += [row | software for row in counted[name]]


@dataclass(slots=True)
class Slicer:
    """A converter that divides the calls of one connection into slices, which different tasks decode.

    Slice 0 has the first calls of the connection. They are decoded before the division begins, and are not counted in
    the attributes.

    Attributes:
        size: maximum number of calls in a slice.
        number: number of the current slice, from 1.
        calls: number of calls in the current slice so far.
        count: number of calls in all slices so far.
        held: bytes of the frames in the current slice so far.
        bytes: bytes of the frames in all slices so far.
    """

    size: int
    number: int = 1
    calls: int = 0
    count: int = 0
    held: int = 0
    bytes: int = 0

    def row(self, call: Call) -> tuple[str, int, int, tuple[Any, ...]]:
        """Return the row of the kind ``calls`` for the next call, and begin a new slice if the current one is full.

        Returns: connection id, number of the slice, number of the call in all slices (from 1), and the values of the
            attributes of the call.
        """
        if self.calls >= self.size or self.held >= SLICE_BYTES:
            self.number, self.calls, self.held = self.number + 1, 0, 0
        self.calls, self.count = self.calls + 1, self.count + 1
        frames = (call.request_size or 0) + (call.response_size or 0)
        self.held, self.bytes = self.held + frames, self.bytes + frames
        return call.connection, self.number, self.count, _values(call)


def call_of(values: Sequence[Any], reader: BodyReader) -> Call:
    """Return the call of a row of the kind ``calls``, with decoded bodies.

    Args:
        values: values of the call's attributes, which are the last element of the row.
        reader: decoder of the request body and the response body.
    """
    call = Call(**dict(zip(Call.__slots__, values, strict=True)))
    reader.decode(call)
    return call
