"""Columns and tables as data: type, unit and origin of each column, and the schemas for Spark and Arrow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import field
from operator import itemgetter
from typing import Any, overload

from kwire.analysis.native import arrow_array, new_columns
from kwire.lazy_dataclass import dataclass

Row = dict[str, Any]  # values by column; timestamps are integers: microseconds since 1970, UTC
Tables = Mapping[str, Sequence[Row]]  # rows by table name
MS = 1000  # microseconds

# Spark's type names, by column type.
SPARK = {
    "string": "STRING",
    "int": "INT",
    "long": "BIGINT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "timestamp": "TIMESTAMP",
    "list<string>": "ARRAY<STRING>",
    "map<int,long>": "MAP<INT,BIGINT>",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: column name.
        type: type of the values, a key of SPARK such as ``long``.
        how: text for docs/pipeline.md that describes how the values are derived.
        unit: unit of the numbers; "" for numbers without a unit, and for values that are not numbers.
    """

    name: str
    type: str
    how: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """The definition of a table.

    Attributes:
        name: table name.
        grain: text for docs/pipeline.md that describes what one row represents.
        columns: all columns, in order.
        order: names of the columns by which rows are sorted.
    """

    name: str
    grain: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]
    _empty: Row = field(init=False, repr=False, compare=False)  # a row with None in every column

    def __post_init__(self) -> None:
        object.__setattr__(self, "_empty", dict.fromkeys(column.name for column in self.columns))

    def row(self, **values: Any) -> Row:
        """Return a row of the table with these values, and None in all other columns.

        Raises: ValueError for a column that the table does not have.
        """
        row = {**self._empty, **values}
        if len(row) > len(self._empty):
            unknown = values.keys() - self._empty.keys()
            raise ValueError(
                f"table {self.name} has no column {', '.join(sorted(unknown))}; "
                f"its columns are {', '.join(self._empty)}"
            )
        return row

    def sorted(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows sorted by the columns in ``order``. In a column, None is before all other values."""
        kept = list(rows)
        try:
            return sorted(kept, key=itemgetter(*self.order))  # fails only if None is compared with a value
        except TypeError:
            for name in reversed(self.order):  # a stable sort by each column, the last column first
                empty = [row for row in kept if row[name] is None]
                kept = empty + sorted((row for row in kept if row[name] is not None), key=itemgetter(name))
            return kept


class ColumnRows(Sequence[Row]):
    """Rows that are created when they are read, and whose columns can be read without creating rows.

    A row that is read twice is created twice.
    """

    @abstractmethod
    def column(self, name: str) -> list[Any]:
        """Return the values of the column ``name``, one for each row, in the order of the rows."""

    @abstractmethod
    def row(self, number: int) -> Row:
        """Create a row. ``number``: its number, from 0 to ``len(self) - 1``."""

    def packed(self) -> Any:
        """Return the rows as a table of the package kwire-native; None if the native engine is not used."""
        return None

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self.row(number) for number in range(len(self))[index]]
        return self.row(range(len(self))[index])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{[*self]!r}"


class TupleRows(ColumnRows):
    """Rows of a table that are stored as tuples, which take a third of the memory of dicts.

    Args:
        table: the table.
        values: for each row, the values of all columns of the table.
    """

    def __init__(self, table: Table, values: Sequence[tuple[Any, ...]] = ()) -> None:
        self._table = table
        self._names = [column.name for column in table.columns]
        places = [self._names.index(name) for name in table.order]
        try:
            self._values = sorted(values, key=itemgetter(*places))
        except TypeError:  # None is compared with a value
            self._values = sorted(values, key=lambda row: [(row[n] is not None, row[n]) for n in places])

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Row]:
        names = self._names
        return (dict(zip(names, row, strict=True)) for row in self._values)

    def row(self, number: int) -> Row:
        return dict(zip(self._names, self._values[number], strict=True))

    def column(self, name: str) -> list[Any]:
        return list(map(itemgetter(self._names.index(name)), self._values))

    def packed(self) -> Any:
        columns = new_columns([column.type for column in self._table.columns], [None] * len(self._names))
        if columns is not None:
            columns.add_tuples(self._values)
        return columns

    def append_sorted(self, other: TupleRows) -> None:
        """Append the rows of another object with the same table. They must not be before the rows of this object."""
        self._values += other._values

    def where(self, name: str, value: object) -> TupleRows:
        """Return the rows with a value in the column ``name``."""
        place = self._names.index(name)
        some = copy(self)
        some._values = [row for row in self._values if row[place] == value]
        return some


class PackedRows(ColumnRows):
    """Rows of a table that the package kwire-native stores.

    Args:
        table: the table.
        columns: the rows, in any order. They are sorted.
    """

    def __init__(self, table: Table, columns: Any) -> None:
        self._names = [column.name for column in table.columns]
        self._columns = columns
        columns.sort([self._names.index(name) for name in table.order])

    def __len__(self) -> int:
        return len(self._columns)

    def row(self, number: int) -> Row:
        return dict(zip(self._names, self._columns.row(number), strict=True))

    def column(self, name: str) -> list[Any]:
        values: list[Any] = self._columns.column(self._names.index(name))
        return values

    def packed(self) -> Any:
        return self._columns


def column_of(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the values of a column, one for each row. Rows that do not exist yet are not created."""
    return rows.column(name) if isinstance(rows, ColumnRows) else [row[name] for row in rows]


def values_of(rows: Sequence[Row], *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns for each row, as a tuple. Rows that do not exist yet are not created."""
    return zip(*(column_of(rows, name) for name in names), strict=True)


def text(name: str, how: str) -> Column:
    return Column(name, "string", how)


def texts(name: str, how: str) -> Column:
    return Column(name, "list<string>", how)


def integer(name: str, how: str, unit: str = "") -> Column:
    return Column(name, "int", how, unit)


def long(name: str, how: str, unit: str = "") -> Column:
    return Column(name, "long", how, unit)


def millis(name: str, how: str) -> Column:
    return Column(name, "double", how, "ms")


def partition_millis(name: str, how: str) -> Column:
    return Column(name, "double", how, "partition-ms")


def flag(name: str, how: str) -> Column:
    return Column(name, "bool", how)


def moment(name: str, how: str) -> Column:
    return Column(name, "timestamp", how, "UTC, µs")


# Columns of several tables.
CAPTURE_ID = text("capture_id", "name of the capture, given by the caller")
CONNECTION = text("conn_id", "id of the connection; the same in every analysis of the capture")
GROUP = text("group_id", "group id of the request")
CLUSTER = text(
    "cluster",
    "cluster id in Metadata or DescribeCluster responses; `host:port` of a broker if no response contains a cluster id",
)
LIFE = integer(
    "life",
    "number of the group's life, from 1; a new life begins after the group was deleted, expired or lost its state",
    "count",
)
PROTOCOL = text("protocol", "`classic` (JoinGroup), `consumer` (KIP-848), `share` or `streams`")
MEMBER = text("member_id", "member id")
INSTANCE = text("instance_id", "`group.instance.id` of a static member; null for a dynamic member")
CLIENT = text("client_id", "client id of the request header")
GENERATION = integer("generation", "generation of a classic group; epoch of a KIP-848 group")


def spark_schema(table: Table) -> str:
    """Return the table's schema as text for Spark: column names in backquotes, each with Spark's name of the type."""
    return ", ".join(f"`{column.name}` {SPARK[column.type]}" for column in table.columns)


def arrow_schema(table: Table) -> Any:
    """Return the table's schema in pyarrow, as used for Parquet files."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int": pa.int32(),
        "long": pa.int64(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "list<string>": pa.list_(pa.string()),
        "map<int,long>": pa.map_(pa.int32(), pa.int64()),
    }
    return pa.schema([(column.name, types[column.type]) for column in table.columns])


def printable(value: Any) -> Any:
    r"""Return a value in which text can be encoded as UTF-8: each byte that is not UTF-8 is an escape such as
    ``\udc80``.

    A list is converted element by element. A value that is neither text nor a list is returned unchanged.
    """
    if isinstance(value, list):
        return [printable(one) for one in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def arrow_table(table: Table, rows: Iterable[Row]) -> Any:
    """Return rows as a pyarrow.Table.

    Text that cannot be encoded as UTF-8 is escaped by ``printable``. An integer that does not fit into its column, such
    as a lag of 2**63 records, is replaced by the nearest one that fits.
    """
    import pyarrow as pa

    kept = rows if isinstance(rows, Sequence) else list(rows)
    schema = arrow_schema(table)
    packed = kept.packed() if isinstance(kept, ColumnRows) else None
    columns = []
    for place, column in enumerate(table.columns):
        kind = schema.field(column.name).type
        array = None if packed is None else arrow_array(packed, place, kind)
        if array is not None:
            columns.append(array)
            continue
        values = column_of(kept, column.name)
        if column.type.startswith("map"):
            values = [None if value is None else sorted(value.items()) for value in values]
        try:
            columns.append(pa.array(values, kind))
        except UnicodeEncodeError:
            columns.append(pa.array(map(printable, values), kind))
        except (OverflowError, pa.ArrowInvalid):
            if not pa.types.is_integer(kind):
                raise
            most = (1 << kind.bit_width - 1) - 1
            fitting = [None if value is None else max(min(value, most), -most - 1) for value in values]
            columns.append(pa.array(fitting, kind))
    return pa.Table.from_arrays(columns, schema=schema)


def rows_of(table: Any) -> list[Row]:
    """Return the rows of a pyarrow.Table that ``arrow_table`` has created. Text that ``arrow_table`` escaped remains
    escaped.
    """
    import pyarrow as pa

    columns: dict[str, list[Any]] = {}
    for column, values in zip(table.schema, table.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            columns[column.name] = values.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
        elif pa.types.is_map(column.type):
            columns[column.name] = [None if value is None else dict(value) for value in values.to_pylist()]
        else:
            columns[column.name] = values.to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
