"""The conversion of decoded calls to rows, for one connection or for a slice of its calls.

The calls of a connection with very many calls are cut into slices, which different tasks decode and convert. The folds
of the slices are then merged, in order, into the fold of the whole connection. This module does not depend on Spark.
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
    """The accumulated results of one connection, or of one slice of its calls.

    They are the results that are known only after the last call.

    Attributes:
        capture_id: name of the capture.
        is_first: True for a whole connection or its first slice; False for a later slice.
        counts: counts for the tables ``clients``, ``api_usage`` and ``errors``.
        statements: cluster ids and broker addresses in responses, without times. A repeated one adds no row.
        watch: periods in which calls may be missing.
        observer: collector of the observations from which detectors derive findings.
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
        """Add the rows of the next call to ``rows``; return its group events."""
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
        """Move latencies and counts of the last calls, which need no merge, to ``rows``."""
        rows["waits"] += self.counts.drain_waits()
        rows["tallies"] += self.observer.drain()

    def merge(self, later: CallFold, rows: Rows) -> None:
        """Add the results of the slice that follows, which must be drained; add rows that depend on both to ``rows``.

        ``later`` must not be used again.
        """
        self.counts.merge(later.counts)
        self.statements |= later.statements
        self.watch.merge(later.watch)
        rows["steps"] += self.observer.merge(later.observer)

    def finish(self, connection: Connection, rows: Rows) -> None:
        """Add the remaining rows of a connection that has ended to ``rows``."""
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
    """The division of the calls of one connection into slices.

    Attributes:
        size: number of calls in a slice.
        number: number of the current slice, from 1; slice 0 are the calls before the first one that is sliced.
        calls: calls in the current slice.
        count: calls in all slices.
        held: bytes of the frames in the current slice.
        bytes: bytes of the frames in all slices.
    """

    size: int
    number: int = 1
    calls: int = 0
    count: int = 0
    held: int = 0
    bytes: int = 0

    def row(self, call: Call) -> tuple[str, int, int, tuple[Any, ...]]:
        """Return the row of the kind ``calls`` for the next call: connection id, slice, place of the call, values."""
        if self.calls >= self.size or self.held >= SLICE_BYTES:
            self.number, self.calls, self.held = self.number + 1, 0, 0
        self.calls, self.count = self.calls + 1, self.count + 1
        frames = (call.request_size or 0) + (call.response_size or 0)
        self.held, self.bytes = self.held + frames, self.bytes + frames
        return call.connection, self.number, self.count, _values(call)


def call_of(values: Sequence[Any], reader: BodyReader) -> Call:
    """Return the call with the values of a row of the kind ``calls``. ``reader`` decodes its bodies."""
    call = Call(**dict(zip(Call.__slots__, values, strict=True)))
    reader.decode(call)
    return call
