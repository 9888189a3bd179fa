"""The functions of the package ``kwire-native`` that read, write, compress and decompress records.

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
from kwire.records.limits import FREE_DECOMPRESSED, RECORDS_AT_ONCE

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
def batches_of(batch: Any, record: Any, engine: str = DEFAULT) -> Any:
    """Return the native reader of batches; None if Python reads these batches.

    Args:
        batch: class of the batches.
        record: class of the records.
        engine: the engine in use; only "native" has such a reader.
    """
    records = records_of(record, engine)
    if records is None:
        return None
    names = [field.name for field in fields(batch)]
    return package().Batches(batch, names, records, RECORDS_AT_ONCE, FREE_DECOMPRESSED)


def codecs(engine: str = DEFAULT) -> Any:
    """Return the object with the native functions for compressed records; None if Python does all of the work.

    - ``decompress(codec, data, limit)`` returns the decompressed bytes. The result is None for data that Python must
      decompress: data of an unusual form, invalid data, and data whose decompressed size exceeds ``limit`` bytes.
    - ``zstd_frame(data)`` returns the compressed bytes, which are the same as Python's. The result is None for data
      that Python must compress.
    """
    return package() if engine == "native" else None


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
    except (OverflowError, TypeError):  # a number of the header is out of range, or not an integer
        return None
    return written
