"""What one step of the pipeline hands to the next: bundles of rows of one kind, each with where they should meet.

To Spark a bundle is some bytes, so that it moves them as they are, and has few rows to move. What is counted is added
up before. Nothing here knows of Spark.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
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

Rows = dict[str, list[Any]]  # rows by their kind
MET = ("marks", "sizes", "endings")  # rows for the groups that they concern, whatever connections they come from
COUNTED = ("clients", "api_usage")  # tables whose rows are sums, wherever connections went
WHOLE = ("connections", "errors", "problems")  # rows of connections; what all say tells the cluster of some
EACH = ("frames", "connections", "problems")  # rows that each come of one connection
MANY = 20_000  # counts that a task keeps
BUCKETS = 32  # of groups, minutes and tables that count: each has its own files in a stream
TOLD = (
    "names",
    "commits",
    "producers",
    "wanted",
    "sayings",
    "damage",
    "skipped",
    "remarks",
    "unread",
    "written",
    "size",
)  # for the driver


def about_group(name: str) -> str:
    """Where the events of a group meet. (Two groups may meet there, if a name is not UTF-8.)"""
    return str(printable(f"group {name}"))


def bucket_of(about: str) -> int:
    """Where it belongs; Spark's ``crc32`` says the same."""
    return zlib.crc32(about.encode()) % BUCKETS


def bucket_mark(bucket: int) -> str:
    """What is in the names of its files."""
    return f"k{bucket:02}"


class Bundle(NamedTuple):
    """``about``: what meets at one place; ``rows``: a list, as ``plain`` writes it."""

    kind: str
    about: str
    rows: bytes


SPARK = "kind STRING, about STRING, rows BINARY"
ARROW = pa.schema([("kind", pa.string()), ("about", pa.string()), ("rows", pa.binary())])


def bundle(kind: str, about: str, rows: Sequence[Any]) -> Bundle:
    """Rows as a bundle."""
    return Bundle(kind, about, plain.dumps(rows))


def unbundle(data: bytes) -> list[Any]:
    """The rows of a bundle."""
    found: list[Any] = plain.loads(data)
    return found


def batch(found: Sequence[Bundle]) -> pa.RecordBatch:
    """Bundles as Spark takes them."""
    columns = [pa.array(column, kind.type) for column, kind in zip(zip(*found, strict=True), ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def bundles_of(made: pa.RecordBatch) -> Iterator[Bundle]:
    """The bundles out of what Spark gives."""
    for values in zip(*(made.column(name).to_pylist() for name in Bundle._fields), strict=True):
        yield Bundle._make(values)


class Bundler:
    """Puts the rows that a task finds into bundles. Of names and of what is committed, each is told once."""

    def __init__(self) -> None:
        self.counts: dict[str, Counts] = {name: Counts(name) for name in COUNTED}
        self._told: set[tuple[Any, ...]] = set()
        self._size = 0

    def bundle_rows(self, found: Rows) -> Iterator[Bundle]:
        """What is handed on of these rows, which are taken out."""
        made = list(self._taken(found))
        found.clear()
        self._size += sum(len(one.rows) for one in made)
        yield from made

    def finish(self) -> Iterator[Bundle]:
        """What was kept until the end, and the bytes that were handed on."""
        for name, counts in self.counts.items():
            if counts:
                yield bundle(name, name, counts.taken())
        yield bundle("size", "", [self._size])

    def _taken(self, found: Rows) -> Iterator[Bundle]:
        for name, counts in self.counts.items():
            counts.add(found.get(name, []))
            if len(counts) > MANY:
                yield bundle(name, name, counts.taken())
        for name in WHOLE:
            if rows := found.get(name):
                yield bundle(name, name, rows)
        happened = found.get("events", [])
        yield from _by("events", map(_event_values, happened), lambda values: about_group(values[_OF_GROUP]))
        yield from _by("subscribed", found.get("subscribed", []), lambda one: about_group(one.group_id))
        yield from _by("waits", found.get("waits", []), lambda wait: f"minute {wait[0]}")
        if marks := found.get("marks"):
            yield bundle_of_marks("", marks)
        if endings := found.get("endings"):
            yield bundle_of_endings("", endings)
        producers = [(event.group_id, event.transactional_id) for event in happened if event.transactional_id]
        commits = [(event.group_id, event.topic, event.partition) for event in happened if event.topic]
        for kind, rows in (
            ("names", found.get("names", [])),
            ("commits", commits),
            ("producers", producers),
            ("wanted", found.get("wanted", [])),
        ):
            if fresh := {(kind, *row) for row in rows} - self._told:
                self._told |= fresh
                yield bundle(kind, "", [row[1:] for row in fresh])
        for kind in ("sizes", "sayings", "damage", "skipped", "remarks", "unread"):
            if rows := found.get(kind):
                yield bundle(kind, "", rows)


def bundle_of_marks(about: str, marks: Iterable[Watermark]) -> Bundle:
    """Ends of partitions."""
    return bundle("marks", about, list(map(_mark_values, marks)))


def bundle_of_endings(about: str, endings: Iterable[Ending]) -> Bundle:
    """What ended transactions."""
    return bundle("endings", about, list(map(_ending_values, endings)))


def _by(kind: str, rows: Iterable[Any], key: Callable[[Any], str]) -> Iterator[Bundle]:
    apart: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        apart[key(row)].append(row)
    for about, some in apart.items():
        yield bundle(kind, about, some)


class Counts:
    """Rows of a table that counts, added up: first and last times, and sums of what is a count."""

    def __init__(self, name: str) -> None:
        columns = TABLES[name].columns
        self.sums = [column.name for column in columns if column.type == "long"]
        self.keys = [column.name for column in columns if column.name not in ("first_ts", "last_ts", *self.sums)]
        self._rows: dict[tuple[Any, ...], Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        for row in rows:
            key = tuple(row[name] for name in self.keys)
            known = self._rows.get(key)
            if known is None:
                self._rows[key] = dict(row)
                continue
            for name in self.sums:
                known[name] += row[name]
            known["first_ts"] = min(known["first_ts"], row["first_ts"])
            known["last_ts"] = max(known["last_ts"], row["last_ts"])

    def taken(self) -> list[Row]:
        """The sums, which begin anew."""
        taken, self._rows = self._rows, {}
        return list(taken.values())


_FIELDS = tuple(GroupEvent.__slots__)
_OF_GROUP = _FIELDS.index("group_id")
_event_values, _mark_values, _ending_values = (
    attrgetter(*_FIELDS),
    attrgetter(*Watermark.__slots__),
    attrgetter(*Ending.__slots__),
)  # tuples are written in half the time


def events_of(rows: Iterable[tuple[Any, ...]]) -> Iterator[GroupEvent]:
    """Events of a group."""
    return (GroupEvent(**dict(zip(_FIELDS, row, strict=True))) for row in rows)


def marks_of(rows: Sequence[tuple[Any, ...]]) -> Iterator[Watermark]:
    """Ends of partitions."""
    return (Watermark(*row) for row in rows)


def endings_of(rows: Sequence[tuple[Any, ...]]) -> Iterator[Ending]:
    """What ended transactions."""
    return (Ending(*row) for row in rows)
