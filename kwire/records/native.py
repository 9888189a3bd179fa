"""The functions of the package ``kwire-native`` that read and write records.

They are used if the default engine is the native engine. They process usual records, and leave unusual records (such as
records with long varints) to Python. kwire-native and Python accept and reject the same records, with the same errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from kwire.engines.chosen import DEFAULT
from kwire.engines.native import package

SLOTS = ["offset", "timestamp", "key", "value", "headers"]


@cache
def records_of(into: Any, engine: str = DEFAULT) -> Any:
    """Return the native reader and writer for a class of records; None if Python reads and writes these records.

    Args:
        into: Record, or a subclass.
        engine: the engine in use; only "native" has such a reader and writer.
    """
    if engine != "native" or into.__setattr__ is not object.__setattr__:
        return None
    try:
        return package().Records(into, SLOTS)
    except TypeError:  # the class replaces a slot
        return None


@cache
def batches_of(batch: Any, record: Any, most: int, engine: str = DEFAULT) -> Any:
    """Return the native reader of batches; None if Python reads these batches.

    Args:
        batch: class of the batches.
        record: class of the records.
        most: number of records of the largest batch that is read at once.
        engine: the engine in use; only "native" has such a reader.
    """
    records = records_of(record, engine)
    if records is None:
        return None
    return package().Batches(batch, [field.name for field in fields(batch)], records, most)


def written_natively(
    of: type,
    records: Sequence[Any],
    deltas: list[int] | None,
    base_timestamp: int,
    batch: tuple[int, int, bytes] | None = None,
) -> bytes | None:
    """Return the encoded bytes of records; None if kwire-native cannot write them, so that Python must.

    Args:
        of: class of the records.
        records: the records of one batch, in order.
        deltas: offset of each record relative to the batch's base offset; None for 0, 1, 2 ...
        base_timestamp: timestamp in the batch header, in milliseconds since 1970.
        batch: base offset, leader epoch, and the part of the header that the checksum covers, to get the whole batch;
            None to get only the records.
    """
    native = records_of(of)
    if native is None or records.__class__ is not list:
        return None
    try:
        written: bytes | None = native.write(records, deltas, base_timestamp, batch)
    except OverflowError:  # a number of the header is out of range
        return None
    return written
