"""Columns of tables in the package kwire-native, and their conversion to Arrow.

The package stores numbers as numbers, so that a table needs no Python object for each number. It makes the buffers of
Arrow arrays from its columns, and from the slots of objects, also without such objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kwire.engines.chosen import DEFAULT
from kwire.engines.native import package


def new_columns(types: Sequence[str], slots: Sequence[str | None], cls: type | None = None) -> Any:
    """Return an empty table of the package; None if the native engine is not the default engine.

    For the arguments, see ``native_columns``.
    """
    return native_columns(types, slots, cls) if DEFAULT == "native" else None


def native_columns(types: Sequence[str], slots: Sequence[str | None], cls: type | None = None) -> Any:
    """Return an empty table of the package kwire-native, which must be installed.

    Args:
        types: types of the columns, such as ``long``.
        slots: for each column, the slot of ``cls`` that contains its value; None if the value comes from a tuple.
        cls: class of the objects from which rows are made; None if all values come from tuples.
    """
    return package().Columns(types, cls, slots)


def arrow_array(columns: Any, place: int, kind: Any) -> Any:
    """Return a column as a pyarrow.Array; None if the package cannot convert the column.

    It converts numbers, booleans and text, but no number that exceeds the type of the column, and no text that is not
    UTF-8.

    Args:
        columns: table of the package.
        place: number of the column.
        kind: pyarrow type of the column.
    """
    import pyarrow as pa

    made = columns.buffers(place)
    if made is None:
        return None
    nulls, buffers = made
    return pa.Array.from_buffers(
        kind, len(columns), [None if one is None else pa.py_buffer(one) for one in buffers], nulls
    )
