"""Bundles: rows of one kind that a pipeline stage sends to the next stage, with the key by which Spark groups them.

For Spark, the rows of a bundle are opaque bytes, so Spark moves few rows and converts no values. Counts are summed
before they are bundled. This module does not depend on Spark.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
MET = ("marks", "sizes", "endings", "spans")  # kinds of rows to send to the groups concerned, from any connection
COUNTED = ("clients", "api_usage")  # tables whose rows are sums over connections
EACH = ("frames", "connections", "problems")  # rows that come from one connection each, and meet no others
MANY = 20_000  # counts that a task keeps in memory
SLICE = 16 * 1024 * 1024  # bytes of the events in one slice of a large group
MOST_SLICES = 256  # slices of a group, as each of them has all events that are about no partition
SHARES = 64  # shares into which the rows of a count table are divided, each of which can be summed alone
BUCKETS = 32  # buckets of groups, minutes and count tables; in a stream each bucket has separate files
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
    "size",
)  # for the driver


def about_group(name: str) -> str:
    """Return the key by which Spark groups the events of a consumer group.

    Consumer groups whose ids are not UTF-8 may share a key.
    """
    return str(printable(f"group {name}"))


def about_slice(about: str, number: int) -> str:
    """Return the key by which Spark groups the events of one slice of a large group.

    Args:
        about: key of the group.
        number: number of the slice, from 0.
    """
    return f"slice {number} of {about}"


def group_of_slice(about: str) -> tuple[str, bool]:
    """Return the key of the group of a slice, and whether it is the first slice. ``about``: key of the slice."""
    begin, _, group = about.partition(" of ")
    return group, begin == "slice 0"


def about_client(client_id: str | None, host: str) -> str:
    """Return the key by which Spark groups the calls and connections of a client."""
    return str(printable(f"client {client_id} {host}"))


def about_transactions(transactional_id: str) -> str:
    """Return the key by which Spark groups the steps of transactions of one transactional id."""
    return str(printable(f"transactions {transactional_id}"))


def about_minute(minute: int, broker: str) -> str:
    """Return the key by which Spark groups the latencies of a broker in one minute. ``minute``: start of the minute in
    microseconds.
    """
    return str(printable(f"minute {minute} {broker}"))


def about_share(name: str, *key: Any) -> str:
    """Return the key by which Spark groups the rows of a count table: one of SHARES.

    Args:
        name: name of the table.
        key: values that are equal in all rows that are summed.
    """
    return f"{name} {zlib.crc32(repr(key).encode()) % SHARES}"


def mark_of(about: str) -> str:
    """Return the file mark at the beginning of a key, up to the first space."""
    return about.partition(" ")[0]


def bucket_of(about: str) -> int:
    """Return the bucket of a key: ``crc32`` of the key, as Spark computes it, modulo BUCKETS."""
    return zlib.crc32(about.encode()) % BUCKETS


def bucket_mark(bucket: int) -> str:
    """Return the text that marks the files of a bucket, as a part of their names."""
    return f"k{bucket:02}"


class Bundle(NamedTuple):
    """A group of rows of one kind that a stage of the pipeline sends to the next stage.

    Attributes:
        kind: kind of the rows.
        about: key by which Spark groups the bundles.
        rows: list of rows, encoded by ``plain``.
    """

    kind: str
    about: str
    rows: bytes


SPARK = "kind STRING, about STRING, rows BINARY"
ARROW = pa.schema([("kind", pa.string()), ("about", pa.string()), ("rows", pa.binary())])


def bundle(kind: str, about: str, rows: Sequence[Any]) -> Bundle:
    """Return rows as a bundle.

    Args:
        kind: kind of the rows.
        about: key by which Spark groups the bundles.
        rows: the rows.

    Raises: plain.PlainError if a row has a value that cannot be encoded.
    """
    return Bundle(kind, about, plain.dumps(rows))


def unbundle(data: bytes) -> list[Any]:
    """Decode the rows of a bundle. ``data``: the field ``rows`` of the bundle. Raises: plain.PlainError."""
    rows: list[Any] = plain.loads(data)
    return rows


def batch(bundles: Sequence[Bundle]) -> pa.RecordBatch:
    """Return bundles as an Arrow batch."""
    columns = [pa.array(column, kind.type) for column, kind in zip(zip(*bundles, strict=True), ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def bundles_of(record_batch: pa.RecordBatch) -> Iterator[Bundle]:
    """Yield the bundles of an Arrow batch."""
    for values in zip(*(record_batch.column(name).to_pylist() for name in Bundle._fields), strict=True):
        yield Bundle._make(values)


class Bundler:
    """A collector that combines the rows of one task into bundles.

    Each topic name, and each partition with commits, is emitted only once.

    Args:
        slice_size: bytes of the events in one slice of a large group.
    """

    def __init__(self, slice_size: int = SLICE) -> None:
        self._least = slice_size // MOST_SLICES  # bytes of the events of a group in one task that are reported
        self._by_group: Counter[str] = Counter()
        self.counts: dict[str, Counts] = {name: Counts(name) for name in COUNTED}
        self._told: set[tuple[Any, ...]] = set()
        self._size = 0

    def add(self, rows: Rows) -> Iterator[Bundle]:
        """Yield bundles of rows, and clear ``rows``.

        Rows of count tables are only summed; ``finish`` yields the sums.
        """
        complete = list(self._bundles(rows))
        rows.clear()
        self._size += sum(len(one.rows) for one in complete)
        for one in complete:
            if one.kind == "events":
                self._by_group[one.about] += len(one.rows)
        yield from complete

    def finish(self) -> Iterator[Bundle]:
        """Yield the bundles of the counts. Then yield two byte counts as bundles: the bytes of all rows so far, and of
        the events of large groups.
        """
        for name, counts in self.counts.items():
            if counts:
                yield from _shares(name, counts)
        yield bundle("size", "", [self._size])
        if large := [item for item in self._by_group.items() if item[1] >= self._least]:
            yield bundle("large", "", large)

    def _bundles(self, by_kind: Rows) -> Iterator[Bundle]:
        for name, counts in self.counts.items():
            counts.add(by_kind.get(name, []))
            if len(counts) > MANY:
                yield from _shares(name, counts)
        for name in ("connections", "problems"):
            if rows := by_kind.get(name):
                yield bundle(name, f"{name} {rows[0]['conn_id']}", rows)
        yield from _by("errors", by_kind.get("errors", []), lambda row: about_share("errors", *map(row.get, _OF_ERROR)))
        events = by_kind.get("events", [])
        yield from _by("events", map(_event_values, events), lambda values: about_group(values[_OF_GROUP]))
        yield from _by("subscribed", by_kind.get("subscribed", []), lambda one: about_group(one.group_id))
        yield from _by("waits", by_kind.get("waits", []), lambda wait: about_minute(wait[0], wait[3]))
        for kind in ("tallies", "connected"):
            yield from _by(kind, by_kind.get(kind, []), lambda one: about_client(one.client_id, one.host))
        yield from _by("steps", by_kind.get("steps", []), lambda one: about_transactions(one.transactional_id))
        if spans := by_kind.get("spans"):
            yield bundle("spans", "", spans)
        if marks := by_kind.get("marks"):
            yield bundle_of_marks("", marks)
        if endings := by_kind.get("endings"):
            yield bundle_of_endings("", endings)
        producers = [(event.group_id, event.transactional_id) for event in events if event.transactional_id]
        commits = [(event.group_id, event.topic, event.partition) for event in events if event.topic]
        for kind, rows in (
            ("names", by_kind.get("names", [])),
            ("commits", commits),
            ("producers", producers),
            ("wanted", by_kind.get("wanted", [])),
        ):
            if fresh := {(kind, *row) for row in rows} - self._told:
                self._told |= fresh
                yield bundle(kind, "", [row[1:] for row in fresh])
        for kind in ("sizes", "statements", "damage", "skipped", "remarks", "unread"):
            if rows := by_kind.get(kind):
                yield bundle(kind, "", rows)


def _shares(name: str, counts: Counts) -> Iterator[Bundle]:
    """Yield the bundles of the sums of a count table, and reset them."""
    return _by(name, counts.drain(), lambda row: about_share(name, row["client_id"]))


def bundle_of_marks(about: str, marks: Iterable[Watermark]) -> Bundle:
    """Return high watermarks of partitions as a bundle. ``about``: key by which Spark groups the bundles."""
    return bundle("marks", about, list(map(_mark_values, marks)))


def bundle_of_endings(about: str, endings: Iterable[Ending]) -> Bundle:
    """Return ends of transactions as a bundle. ``about``: key by which Spark groups the bundles."""
    return bundle("endings", about, list(map(_ending_values, endings)))


def _by(kind: str, rows: Iterable[Any], key: Callable[[Any], str]) -> Iterator[Bundle]:
    apart: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        apart[key(row)].append(row)
    for about, some in apart.items():
        yield bundle(kind, about, some)


class Counts:
    """The sums of the rows of a count table, such as ``api_usage``.

    Rows with the same key are combined into one row, which has the sum of their counts, the earliest first time and the
    latest last time.
    """

    def __init__(self, name: str) -> None:
        columns = TABLES[name].columns
        self.sums = [column.name for column in columns if column.type == "long"]
        self.keys = [column.name for column in columns if column.name not in ("first_ts", "last_ts", *self.sums)]
        self._rows: dict[tuple[Any, ...], Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows to the sums."""
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
        """Return the sums as rows, and reset them."""
        rows, self._rows = self._rows, {}
        return list(rows.values())


# Columns of errors that are known before topic names and clusters.
_OF_ERROR = ("api_name", "error_code", "client_id", "group_id", "partition")
_FIELDS = tuple(GroupEvent.__slots__)
_OF_GROUP = _FIELDS.index("group_id")
_event_values, _mark_values, _ending_values = (
    attrgetter(*_FIELDS),
    attrgetter(*Watermark.__slots__),
    attrgetter(*Ending.__slots__),
)  # tuples are encoded in half the time


def bundle_of_slice(about: str, events: Iterable[GroupEvent]) -> Bundle:
    """Return events of a slice of a large group as a bundle. ``about``: key of the slice."""
    return bundle("sliced", about, list(map(_event_values, events)))


def events_of(rows: Iterable[tuple[Any, ...]]) -> Iterator[GroupEvent]:
    """Yield the events of one group id, decoded from the rows of a bundle."""
    return (GroupEvent(**dict(zip(_FIELDS, row, strict=True))) for row in rows)


def marks_of(rows: Sequence[tuple[Any, ...]]) -> Iterator[Watermark]:
    """Yield the high watermarks of partitions, decoded from the rows of a bundle."""
    return (Watermark(*row) for row in rows)


def endings_of(rows: Sequence[tuple[Any, ...]]) -> Iterator[Ending]:
    """Yield the ends of transactions, decoded from the rows of a bundle."""
    return (Ending(*row) for row in rows)
