"""Bundles: encoded rows that a stage of the pipeline sends to the next stage.

A bundle has the key by which Spark groups it. Its rows are opaque bytes for Spark, so Spark moves few rows and converts
no values. Counts are summed before they are bundled. This module does not depend on Spark.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from kwire.analysis.columns import Row, printable
from kwire.analysis.events import GroupEvent
from kwire.analysis.tables import TABLES
from kwire.analysis.topics import Watermark
from kwire.analysis.transactions import Ending
from kwire.spark import plain

Rows = dict[str, list[Any]]  # rows by kind
FOR_GROUPS = ("marks", "sizes", "endings", "spans")  # kinds of rows of connections that are sent to groups
COUNTED = ("clients", "api_usage")  # tables whose rows are sums over connections
OF_SLICES = ("calls", "folds")  # kinds of rows about slices of connections; the second stage does not get them
PER_CONNECTION = ("frames", "connections", "problems")  # kinds of rows that need no rows of other connections
OF_TABLES = frozenset(
    {*FOR_GROUPS, *COUNTED, "events", "subscribed", "tallies", "connected", "steps", "waits", "errors"}
)
MANY = 20_000  # counts that a task keeps in memory
SLICE = 16 * 1024 * 1024  # bytes of the events in one slice of a large group
MOST_SLICES = 256  # slices of a group, as each of them has all events that are about no partition
SHARES = 64  # shares into which the rows of a count table are divided, each of which can be summed alone
STREAM_ONLY = ("ends", "ended")  # only in a stream: partitions with end offsets or fetches, ids of ended transactions
OPEN, CURRENT = "open", "k"  # mark of the files with rows of open connections; first letter of those of buckets
BUCKETS = 32  # in a stream each bucket of groups, clients, minutes and count tables has separate files
OF_CALLERS = 8  # the first buckets, which have only clients and transactional ids
CALLERS = ("client ", "transactions ")  # prefixes of the keys in these buckets
SUMMARY_KINDS = (
    "names",
    "commits",
    "producers",
    "wanted",
    "statements",
    "damage",
    "skipped",
    "remarks",
    "unread",
    "written",
    "large",
    "slices",
    "ids",
    "size",
)  # for the driver

OF_CONNECTIONS = OF_TABLES.union(  # kinds of rows of calls and connections, besides the frames
    OF_SLICES,
    ("connections", "problems", "names", "wanted", "statements", "damage", "skipped", "remarks", "unread", "slices"),
)


def unknown_kind(kind: str) -> ValueError:
    """Return the error for rows that a stage of the pipeline does not process, so that they are not lost silently."""
    return ValueError(f"rows of kind {kind} would be lost: this stage of the pipeline does not process them")


def check_kinds(kinds: Iterable[str], known: Collection[str]) -> None:
    """Check that a stage of the pipeline processes rows of these kinds.

    Args:
        kinds: kinds of rows.
        known: the kinds that the stage processes.

    Raises: ValueError for a kind that is not in ``known``.
    """
    for kind in kinds:
        if kind not in known:
            raise unknown_kind(kind)


def about_group(name: str) -> str:
    """Return the key by which Spark groups the events of a consumer group.

    Consumer groups whose ids are not UTF-8 may share a key.

    Args:
        name: group id.
    """
    return str(printable(f"group {name}"))


def about_slice(about: str, number: int) -> str:
    """Return the key by which Spark groups the events of one slice of a large consumer group.

    A slice is a part of the group's events that one task processes; ``analysis.groups.slices`` describes slices.

    Args:
        about: key of the consumer group, from ``about_group``.
        number: number of the slice, from 0.
    """
    return f"slice {number} of {about}"


def group_of_slice(about: str) -> tuple[str, bool]:
    """Return the key of the consumer group whose events are in a slice, and whether the slice is the first one.

    ``about``: key of the slice, from ``about_slice``.
    """
    begin, _, group = about.partition(" of ")
    return group, begin == "slice 0"


def about_calls(conn_id: str, number: int) -> str:
    """Return the key by which Spark groups the calls of one slice of a connection.

    A slice consists of consecutive calls that one task decodes. Only connections with very many calls are divided.

    Args:
        conn_id: id of the connection.
        number: number of the slice, from 1.
    """
    return f"calls {number} of {conn_id}"


def about_client(client_id: str | None, host: str) -> str:
    """Return the key by which Spark groups the calls and connections of a client.

    Args:
        client_id: client id of the request headers; None if they have none.
        host: host of the client.
    """
    return str(printable(f"client {client_id} {host}"))


def about_transactions(transactional_id: str) -> str:
    """Return the key by which Spark groups the calls of the transactional producers with a transactional id."""
    return str(printable(f"transactions {transactional_id}"))


def about_minute(minute: int, broker: str) -> str:
    """Return the key by which Spark groups the latencies of a broker in one minute.

    Args:
        minute: start of the minute in microseconds since 1970.
        broker: ``host:port`` of the broker.
    """
    return str(printable(f"minute {minute} {broker}"))


def about_share(name: str, *key: Any) -> str:
    """Return the key by which Spark groups the rows of one part of a count table.

    A count table has rows that are sums over connections. Each count table is divided into SHARES parts, and each part
    is summed by one task.

    Args:
        name: name of the count table, such as ``api_usage``.
        key: values of a row that select the part. Rows that are added to the same sum must have the same values.
    """
    return f"{name} {zlib.crc32(repr(key).encode()) % SHARES}"


def about_error_row(row: Row) -> str:
    """Return the key by which Spark groups a row of the table ``errors``.

    The key does not depend on the topic, because the name of a topic id may not be known yet.
    """
    return about_share("errors", *map(row.get, _OF_ERROR))


def mark_of(about: str) -> str:
    """Return the first word of a key.

    In the streaming job, the first word of a connection's key is the file mark of the rows: a text in the names of the
    files to which the rows are written.
    """
    return about.partition(" ")[0]


def bucket_of(about: str) -> int:
    """Return the bucket of a key.

    The streaming job writes each bucket to separate files, so that it can replace the files of one bucket. The first
    OF_CALLERS buckets have the keys of clients and transactional ids, because these buckets are rebuilt when they have
    grown. ``updates.bucket_column`` computes the same value with Spark.
    """
    number = zlib.crc32(about.encode())
    return number % OF_CALLERS if about.startswith(CALLERS) else OF_CALLERS + number % (BUCKETS - OF_CALLERS)


def bucket_mark(bucket: int) -> str:
    """Return the text, such as ``k07``, that the names of all files of a bucket contain."""
    return f"{CURRENT}{bucket:02}"


class Bundle(NamedTuple):
    """Rows of one kind that a stage of the pipeline sends to the next stage.

    Attributes:
        kind: kind of the rows: the name of a table, or a name for rows that are not in a table, such as ``events``.
        about: key by which Spark groups the bundles.
        rows: list of rows, encoded by ``plain``; the list itself if the bundle stays in its task.
    """

    kind: str
    about: str
    rows: bytes | list[Any]


SPARK = "kind STRING, about STRING, rows BINARY"
ARROW = pa.schema([("kind", pa.string()), ("about", pa.string()), ("rows", pa.binary())])


def bundle(kind: str, about: str, rows: Sequence[Any]) -> Bundle:
    """Encode rows as a bundle.

    Args:
        kind: kind of the rows, see ``Bundle``.
        about: key by which Spark groups the bundles.
        rows: objects of the types that ``plain`` encodes.

    Raises: plain.PlainError if a row has a value that cannot be encoded.
    """
    return Bundle(kind, about, plain.dumps(rows))


def unbundle(data: bytes | list[Any]) -> list[Any]:
    """Return the decoded rows of a bundle. ``data``: the field ``rows`` of the bundle.

    Raises: plain.PlainError for bytes that are not a result of ``bundle``.
    """
    rows: list[Any] = plain.loads(data) if isinstance(data, bytes) else data
    return rows


def batch(bundles: Sequence[Bundle]) -> pa.RecordBatch:
    """Return bundles as an Arrow batch with the schema ARROW: one row per bundle."""
    columns = [pa.array(column, kind.type) for column, kind in zip(zip(*bundles, strict=True), ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def bundles_of(record_batch: pa.RecordBatch) -> Iterator[Bundle]:
    """Yield the bundles of an Arrow batch with the schema ARROW."""
    for values in zip(*(record_batch.column(name).to_pylist() for name in Bundle._fields), strict=True):
        yield Bundle._make(values)


class Bundler:
    """A collector that combines the rows of one Spark task into bundles.

    Data that many calls repeat are in the bundles only once: topic names, partitions and transactional ids in offset
    commits of a consumer group, and topics to which a replayed group subscribes.

    Args:
        slice_size: bytes of the events in one slice of a large consumer group. The collector uses the size to decide
            which groups it reports as large.
        encodes: False for bundles that stay in this task: their rows are not encoded, and the sizes that ``finish``
            reports have no meaning.
    """

    def __init__(self, slice_size: int = SLICE, *, encodes: bool = True) -> None:
        self._bundle: Callable[[str, str, list[Any]], Bundle] = bundle if encodes else Bundle
        self._encodes = encodes
        self._least = slice_size // MOST_SLICES  # bytes of the events of a group in one task that are reported
        self._by_group: Counter[str] = Counter()
        self.counts: dict[str, Counts] = {name: Counts(name) for name in COUNTED}
        self._sent: set[tuple[Any, ...]] = set()
        self._size = 0

    def add(self, rows: Rows) -> Iterator[Bundle]:
        """Yield bundles of rows, and remove all rows from ``rows``.

        Rows of count tables are added to sums. The sums of a table are yielded when there are more than MANY of them;
        ``finish`` yields the remaining sums.

        Args:
            rows: lists of rows by kind, see ``Bundle``.

        Raises: ValueError for a kind that is not in OF_CONNECTIONS.
        """
        check_kinds(rows, OF_CONNECTIONS)
        complete = list(self._bundles(rows))
        rows.clear()
        self._size += sum(len(one.rows) for one in complete if one.kind not in OF_SLICES)
        for one in complete:
            if one.kind == "events":
                self._by_group[one.about] += len(one.rows)
        yield from complete

    def finish(self) -> Iterator[Bundle]:
        """Yield the remaining bundles: the sums of the count tables, and the sizes of the earlier bundles.

        The bundle of the kind ``size`` has the number of bytes in the bundles that ``add`` has yielded, without bundles
        of the kinds ``calls`` and ``folds``. The bundle of the kind ``large`` has the number of bytes of the events of
        each consumer group that may be large. Without such a group, no bundle of the kind ``large`` is yielded.
        """
        for name, counts in self.counts.items():
            if counts:
                yield from self._shares(name, counts)
        yield self._bundle("size", "", [self._size])
        if large := [item for item in self._by_group.items() if item[1] >= self._least]:
            yield self._bundle("large", "", large)

    def _bundles(self, by_kind: Rows) -> Iterator[Bundle]:
        for name, counts in self.counts.items():
            counts.add(by_kind.get(name, []))
            if len(counts) > MANY:
                yield from self._shares(name, counts)
        for name in ("connections", "problems"):
            if rows := by_kind.get(name):
                yield self._bundle(name, f"{name} {rows[0]['conn_id']}", rows)
        yield from self._by("errors", by_kind.get("errors", []), about_error_row)
        events = by_kind.get("events", [])
        if self._encodes:
            yield from self._by("events", map(_event_values, events), lambda values: about_group(values[OF_GROUP]))
        else:
            yield from self._by("events", events, lambda event: about_group(event.group_id))
        yield from self._by("subscribed", by_kind.get("subscribed", []), lambda one: about_group(one.group_id))
        yield from self._by("waits", by_kind.get("waits", []), lambda wait: about_minute(wait[0], wait[3]))
        for kind in ("tallies", "connected"):
            yield from self._by(kind, by_kind.get(kind, []), lambda one: about_client(one.client_id, one.host))
        yield from self._by("steps", by_kind.get("steps", []), lambda one: about_transactions(one.transactional_id))
        yield from self._by("calls", by_kind.get("calls", []), lambda row: about_calls(*row[:2]))
        yield from self._by("folds", by_kind.get("folds", []), lambda row: f"folds {row[0]}")
        if spans := by_kind.get("spans"):
            yield self._bundle("spans", "", spans)
        if marks := by_kind.get("marks"):
            yield self._bundle("marks", "", list(map(_mark_values, marks)))
        if endings := by_kind.get("endings"):
            yield self._bundle("endings", "", list(map(_ending_values, endings)))
        producers = [(event.group_id, event.transactional_id) for event in events if event.transactional_id]
        commits = [(event.group_id, event.topic, event.partition) for event in events if event.topic]
        for kind, rows in (
            ("names", by_kind.get("names", [])),
            ("commits", commits),
            ("producers", producers),
            ("wanted", by_kind.get("wanted", [])),
        ):
            if fresh := {(kind, *row) for row in rows} - self._sent:
                self._sent |= fresh
                yield self._bundle(kind, "", [row[1:] for row in fresh])
        for kind in ("sizes", "statements", "damage", "skipped", "remarks", "unread", "slices"):
            if rows := by_kind.get(kind):
                yield self._bundle(kind, "", rows)

    def _shares(self, name: str, counts: Counts) -> Iterator[Bundle]:
        """Yield the sums of a count table as bundles, and reset the sums.

        Args:
            name: name of the count table, such as ``api_usage``.
            counts: sums of the table.
        """
        return self._by(name, counts.drain(), lambda row: about_share(name, row["client_id"]))

    def _by(self, kind: str, rows: Iterable[Any], key: Callable[[Any], str]) -> Iterator[Bundle]:
        apart: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
            apart[key(row)].append(row)
        for about, some in apart.items():
            yield self._bundle(kind, about, some)


def bundle_of_marks(about: str, marks: Iterable[Watermark]) -> Bundle:
    """Encode high watermarks of partitions as a bundle of the kind ``marks``.

    Args:
        about: key by which Spark groups the bundles.
        marks: high watermarks from responses.
    """
    return bundle("marks", about, list(map(_mark_values, marks)))


def bundle_of_endings(about: str, endings: Iterable[Ending]) -> Bundle:
    """Encode ends of transactions as a bundle of the kind ``endings``.

    Args:
        about: key by which Spark groups the bundles.
        endings: calls that ended, or may have ended, a transaction.
    """
    return bundle("endings", about, list(map(_ending_values, endings)))


class Counts:
    """A collector that sums the rows of a count table, such as ``api_usage``.

    The key of a row consists of all columns except the count and the two times. Rows with the same key are combined
    into one row. This row has the sum of their counts, the earliest first time and the latest last time.

    Args:
        name: name of the count table.

    Attributes:
        sums: names of the columns that are summed.
        keys: names of the columns that identify a row.
    """

    def __init__(self, name: str) -> None:
        columns = TABLES[name].columns
        self.sums = [column.name for column in columns if column.type == "long"]
        self.keys = [column.name for column in columns if column.name not in ("first_ts", "last_ts", *self.sums)]
        self._rows: dict[tuple[Any, ...], Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows of the count table to the sums."""
        for row in rows:
            key = tuple(row[name] for name in self.keys)
            total = self._rows.get(key)
            if total is None:
                self._rows[key] = dict(row)
                continue
            for name in self.sums:
                total[name] += row[name]
            total["first_ts"] = min(total["first_ts"], row["first_ts"])
            total["last_ts"] = max(total["last_ts"], row["last_ts"])

    def drain(self) -> list[Row]:
        """Return the sums as rows of the count table, and reset the sums."""
        rows, self._rows = self._rows, {}
        return list(rows.values())


# Columns of errors that are known before topic names and clusters.
_OF_ERROR = ("api_name", "error_code", "client_id", "group_id", "partition")
_FIELDS = tuple(GroupEvent.__slots__)
OF_GROUP = _FIELDS.index("group_id")
_event_values, _mark_values, _ending_values = (
    attrgetter(*_FIELDS),
    attrgetter(*Watermark.__slots__),
    attrgetter(*Ending.__slots__),
)  # tuples are encoded in half the time


def bundle_of_slice(about: str, events: Iterable[GroupEvent]) -> Bundle:
    """Encode events of one slice of a large consumer group as a bundle of the kind ``sliced``.

    Args:
        about: key of the slice, from ``about_slice``.
        events: events of the consumer group.
    """
    return bundle("sliced", about, list(map(_event_values, events)))


def events_of(rows: Iterable[tuple[Any, ...] | GroupEvent]) -> Iterator[GroupEvent]:
    """Yield group events from the decoded rows of a bundle of the kind ``events`` or ``sliced``.

    ``rows``: rows of a bundle that was encoded, or events of a bundle that has stayed in its task.
    """
    return (row if isinstance(row, GroupEvent) else GroupEvent(**dict(zip(_FIELDS, row, strict=True))) for row in rows)


def marks_of(rows: Sequence[tuple[Any, ...]]) -> Iterator[Watermark]:
    """Yield high watermarks of partitions from the decoded rows of a bundle of the kind ``marks``."""
    return (Watermark(*row) for row in rows)


def endings_of(rows: Sequence[tuple[Any, ...]]) -> Iterator[Ending]:
    """Yield ends of transactions from the decoded rows of a bundle of the kind ``endings``."""
    return (Ending(*row) for row in rows)
