"""Rows of the data source ``kafka_pcap`` that each have up to MOST segments of a connection, for the batch job.

Such a row has its segments as bytes in the column ``packed``. Spark sorts and shuffles 1/MOST of the rows, and the
segments become Python objects without an Arrow column for each field.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from kwire.capture.calls.conversation import Row as Segment
from kwire.capture.tcp.segments import Segments, pack_key

MOST = 64  # segments of a row
FIELD = pa.field("packed", pa.binary())
LAYOUT = np.dtype(
    {
        "names": Segment._fields,
        "formats": ["?", "<i8", "<i8", "<i8", "<i4", "<i4", "<u4", "<u4", "<i2"],
    }
)


def pack(segments: Segments, columns: pa.Schema, file: int, path: str, number: int) -> pa.RecordBatch:
    """Return rows with up to MOST segments each. The fields of single segments are null in these rows.

    Args:
        segments: segments whose payload is in the file.
        columns: columns of the rows, of which the last is FIELD.
        file: number of the file.
        path: path of the file.
        number: number of the first segment in the part of the file.
    """
    order = np.lexsort((segments.position, segments.flow))  # stable, so by connection, position and number
    flow = segments.flow[order]
    every = np.empty(len(order), LAYOUT)
    for name in Segment._fields:
        every[name] = getattr(segments, name)[order]
    bounds = [0, *(np.flatnonzero(np.diff(flow)) + 1).tolist(), len(order)]
    firsts = np.array([n for begin, end in pairwise(bounds) for n in range(begin, end, MOST)])
    offsets = np.append(firsts, len(order)).astype(np.int32) * LAYOUT.itemsize
    keys = pa.array([pack_key(key) for key in segments.keys], pa.binary())
    count = len(firsts)
    values = {
        "connection": keys.take(pa.array(flow[firsts])),
        "path": pa.repeat(path, count),
        "file": pa.array(np.full(count, file, np.int32)),
        "position": pa.array(every["position"][firsts]),
        "number": pa.array((number + order[firsts]).astype(np.int32)),
        FIELD.name: pa.Array.from_buffers(
            FIELD.type, count, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(every.tobytes())]
        ),
    }
    arrays = [values[column.name] if column.name in values else pa.nulls(count, column.type) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def is_packed(rows: pa.RecordBatch) -> list[bool]:
    """Return for each row whether it has packed segments."""
    if FIELD.name not in rows.schema.names:
        return [False] * len(rows)
    packed: list[bool] = rows.column(FIELD.name).is_valid().to_pylist()
    return packed


def unpack(rows: pa.RecordBatch) -> tuple[list[int], dict[str, list[Any]]]:
    """Return the segments of packed rows: the list of their file numbers, and a list of values for each field name.

    ``rows``: rows that all are packed.
    """
    packed = [np.frombuffer(one, LAYOUT) for one in rows.column(FIELD.name).to_pylist()]
    every = np.concatenate(packed)
    files = np.repeat(rows.column("file").to_numpy(), [len(one) for one in packed]).tolist()
    return files, {name: every[name].tolist() for name in Segment._fields}
