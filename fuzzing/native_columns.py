"""The fuzz target ``columns``: tables of kwire-native have the rows and the Arrow columns of tables in Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import pyarrow as pa
from native_pieces import Pieces

from kwire.analysis.columns import SPARK, Column, ColumnRows, PackedRows, Table, TupleRows, arrow_schema
from kwire.analysis.native import arrow_array, native_columns

TYPES = tuple(SPARK)
MOST = 6  # columns of a table
SLOTS = ("one", "two", "three", "four")
OBJECTS, AT_ONCE, WRONG, OTHER = 1, 2, 4, 8  # flags of an input
ORDERED, SLOT = 8, 16  # flags of a column
UNUSUAL = 0xC0  # from this byte on, a cell has a value of another type
SIZES = (1, 2, 4, 8, 9)  # of an integer, in bytes
Row = tuple[Any, ...]


EVERY = Table("every", "", tuple(Column(kind, kind, "") for kind in TYPES), ())
ARROW = dict(zip(TYPES, arrow_schema(EVERY).types, strict=True))


class Source:
    """An object that rows come from."""

    __slots__ = SLOTS


class Other:
    """An object of another class with the same slots."""

    __slots__ = SLOTS


def columns(data: bytes) -> None:
    """Check that a native table has the rows, columns and Arrow arrays of a table in Python, and rejects the same rows.

    ``data``: flags, the number of columns, a byte for each column, and the cells (see ``cell``), row by row. Flags: 1
    if rows come from objects, 2 if all objects are added at once, with the tuple of the first one, 4 if a row is wrong
    (bits 4 to 7: its number), 8 if the class of the object or tuple is wrong, and not the length of the tuple. The byte
    of a column: its type (bits 0 to 2), 8 if rows are sorted by it, 16 if its value comes from a slot.
    """
    pieces = Pieces(data)
    flags, count = pieces.take(2)
    heads = pieces.take(1 + count % MOST)
    types = tuple(TYPES[head & 7] for head in heads)
    table = table_of(types, [place for place, head in enumerate(heads) if head & ORDERED])
    free = iter(SLOTS if flags & OBJECTS else ())
    slots = [next(free, None) if head & SLOT else None for head in heads]
    made = native_columns(types, slots, Source if flags & OBJECTS else None)
    rows: list[Row] = []
    while pieces.rest:
        rows.append(tuple(cell(pieces, kind) for kind in types))
    values = add(made, slots, rows, flags)
    assert len(made) == len(values), (len(made), len(values))
    expected: ColumnRows | None = None
    found: ColumnRows | None = None
    if table.order:
        with suppress(TypeError):  # values that cannot be compared
            expected = TupleRows(table, values)
        with suppress(TypeError):
            found = PackedRows(table, made)
        assert (found is None) == (expected is None), (values, found, expected)
    if found is None:
        assert repr([made.row(number) for number in range(len(made))]) == repr(values), values
    else:
        assert repr(found) == repr(expected), (found, expected)
    for place, kind in enumerate(types):
        column = [row[place] for row in values] if expected is None else expected.column(str(place))
        assert repr(made.column(place)) == repr(column), (made.column(place), column)
        check_array(made, place, column, kind)


def table_of(types: Sequence[str], order: Sequence[int]) -> Table:
    """Return the definition of a table.

    Args:
        types: types of the columns, whose names are their numbers.
        order: numbers of the columns by which rows are sorted.
    """
    return Table("t", "", tuple(map(column_of, range(len(types)), types)), tuple(map(str, order)))


@cache
def column_of(place: int, kind: str) -> Column:
    """Return the definition of a column. ``place``: its number. ``kind``: its type."""
    return Column(str(place), kind, "")


def cell(pieces: Pieces, kind: str) -> Any:
    """Return the next cell of an input: a byte that is 0 for None, and the content of the value.

    ``kind``: type of the column. The value has this type if the byte is less than UNUSUAL.
    """
    (head,) = pieces.take(1)
    if not head:
        return None
    if head >= UNUSUAL:
        kind = TYPES[:5][head % 5]
    match kind:
        case "int" | "long" | "timestamp":
            return int.from_bytes(pieces.take(SIZES[head % len(SIZES)]), "big", signed=True)
        case "string":
            return pieces.take(head % 16).decode("utf-8", "surrogateescape")
        case "bool":
            return bool(head & 1)
        case "double":
            return float(head - 100) if head & 1 else struct.unpack(">d", pieces.take(8))[0]
        case "list<string>":
            return [pieces.take(head >> 2 & 7).decode("utf-8", "surrogateescape") for _ in range(head & 3)]
        case _:
            return dict(enumerate(pieces.take(head % 4)))


def add(made: Any, slots: Sequence[str | None], rows: Sequence[Row], flags: int) -> list[Row]:
    """Add rows to a native table, until one of them is rejected; return the rows that must be in the table.

    Args:
        made: the table.
        slots: slot of each column; None if its value comes from a tuple.
        rows: values of the rows.
        flags: first byte of the input.
    """
    wrong = min(flags >> 4, len(rows)) if flags & WRONG else len(rows)
    given = [tuple(value for value, slot in zip(row, slots, strict=True) if slot is None) for row in rows]
    if flags & OBJECTS and flags & AT_ONCE:
        rows, given = [_with(row, given[0], slots) for row in rows], given[:1] * len(rows)
        wrong = wrong if flags & OTHER or wrong == len(rows) else 0
    tuples: list[Any] = [*rows]
    objects = [_object(Source, row, slots) for row in rows]
    is_wrong = wrong < len(rows)
    if is_wrong and flags & OTHER:
        tuples[wrong], objects[wrong] = [*rows[wrong]], _object(Other, rows[wrong], slots)
    elif is_wrong:
        tuples[wrong], given[wrong] = (*rows[wrong], None), (*given[wrong], None)
    is_rejected = False
    try:
        if not flags & OBJECTS:
            made.add_tuples(tuples)
        elif flags & AT_ONCE:
            made.add_all(objects, given[0] if given else ())
        else:
            for one, other in zip(objects, given, strict=True):
                made.add(one, other)
    except TypeError:
        is_rejected = True
    assert is_rejected == is_wrong, (rows, wrong, flags)
    return [*rows[:wrong]]


def _object(kind: type, row: Row, slots: Sequence[str | None]) -> Any:
    """Return an object with the values of a row that come from slots."""
    made = kind()
    for name in SLOTS:
        setattr(made, name, None)
    for value, slot in zip(row, slots, strict=True):
        if slot is not None:
            setattr(made, slot, value)
    return made


def _with(row: Row, given: Row, slots: Sequence[str | None]) -> Row:
    """Return a row in which the values that come from a tuple are those of another tuple."""
    others = iter(given)
    return tuple(next(others) if slot is None else value for value, slot in zip(row, slots, strict=True))


def check_array(made: Any, place: int, values: list[Any], kind: str) -> None:
    """Check that a native column becomes the Arrow array of Python, or that it is left to Python for a known reason.

    Args:
        made: the native table.
        place: number of the column.
        values: its values.
        kind: type of the column.
    """
    array = arrow_array(made, place, ARROW[kind])
    assert (array is None) == is_left(kind, values), (kind, values, array)
    if array is not None:
        array.validate(full=True)
        expected = pa.array(values, ARROW[kind])
        assert array.equals(expected), (kind, values, array, expected)
        assert array.null_count == expected.null_count == values.count(None), (array.null_count, values)


def is_left(kind: str, values: list[Any]) -> bool:
    """Return whether the conversion of a column is left to Python, because of its type or one of its values."""
    some = [value for value in values if value is not None]
    match kind:
        case "int" | "long" | "timestamp":
            most = 1 << (31 if kind == "int" else 63)
            return not all(type(value) is int and -most <= value < most for value in some)
        case "string":
            return not all(map(_is_utf8, some))
        case "bool":
            return not all(type(value) is bool for value in some)
        case _:
            return True


def _is_utf8(value: Any) -> bool:
    """Return whether a value is a text that can be encoded as UTF-8."""
    return type(value) is str and not any("\ud800" <= letter < "\ue000" for letter in value)
