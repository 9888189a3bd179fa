"""``spark.read.format("kafka_pcap").load(path)``: the TCP segments of captures, as references to their payload.

A row has no payload but says where in the file it is, so that none goes through Spark. Only where payload cannot be
read by its place, in a gzip'd file and in some fragments of packets, is it in the row. Large files are read in parts,
found exactly by one pass over the headers of their records.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kwire.capture.files import CaptureFile, find, first_time
from kwire.capture.packets import Segments, read_segments, splits
from kwire.capture.records import Problem, Split
from kwire.spark.following import log_key

FORMAT = "kafka_pcap"
SPLIT = 64 * 1024 * 1024  # bytes of a part, if nothing else is asked for
SETTLE = 60.0  # seconds
Place = tuple[int, str]  # first time in a file, and its path: the order of files
REFERENCES = pa.schema(
    [
        ("connection", pa.binary()),  # both ends, the lower first; empty where ``problem`` is not null
        ("path", pa.string()),
        ("file", pa.int32()),  # number of the file, in the order in which they are read
        ("position", pa.int64()),  # of the packet's record in it
        ("number", pa.int32()),  # of the segment in the part of the file: tells those of one packet apart
        ("upward", pa.bool_()),  # sent by the lower end
        ("time_us", pa.int64()),
        ("start", pa.int64()),  # of the payload in the file
        ("captured", pa.int32()),  # bytes of it that are there
        ("size", pa.int32()),  # bytes that were sent
        ("seq", pa.int64()),
        ("ack", pa.int64()),
        ("flags", pa.int16()),
        ("payload", pa.binary()),  # null where ``start`` says where it is
        ("problem", pa.string()),  # what is wrong with the file
    ]
)
SPARK_TYPES = {
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.string(): "STRING",
}
ORDER = ("file", "position", "number")  # of the segments of a connection


@dataclass
class Part(InputPartition):
    """Part of a file, and the file's number."""

    file: int
    split: Split


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(CaptureSource)


def files(inputs: Sequence[str]) -> list[str]:
    """The captures meant by paths, folders and patterns, in the order in which they are read. Raises: OSError."""
    paths: list[str] = []
    for given in inputs:
        paths += sorted(glob.glob(given)) or [given]
    return find(list(dict.fromkeys(paths)))


class CaptureSource(DataSource):
    """Options: ``path``, or ``paths`` as JSON; ``splitSize`` in bytes. In a stream also ``settle``, the seconds after
    which a file that does not grow is complete though no newer one is there, and ``maxFilesPerTrigger``.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ", ".join(f"{field.name} {SPARK_TYPES[field.type]}" for field in REFERENCES)

    def reader(self, schema: StructType) -> CaptureReader:  # noqa: ARG002
        return CaptureReader(self._inputs, self._size)

    def streamReader(self, schema: StructType) -> CaptureStream:  # noqa: ARG002 - Spark's name
        settle = float(self.options.get("settle", SETTLE))
        return CaptureStream(self._inputs, self._size, settle, int(self.options.get("maxFilesPerTrigger", 0)))

    @property
    def _inputs(self) -> list[str]:
        found: list[str] = json.loads(self.options["paths"]) if "paths" in self.options else [self.options["path"]]
        return found

    @property
    def _size(self) -> int:
        return int(self.options.get("splitSize", SPLIT))


class CaptureReader(DataSourceReader):
    def __init__(self, inputs: list[str], size: int) -> None:
        self.inputs = inputs
        self.size = size

    def partitions(self) -> Sequence[Part]:
        return [
            Part(number, split) for number, path in enumerate(files(self.inputs)) for split in parts(path, self.size)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return references(partition)


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Files that a rotating capture has completed, in the order of their first packets.

    An offset is the place of a file in that order: its first time, and its path.
    """

    def __init__(self, inputs: list[str], size: int, settle: float, most: int) -> None:
        self.inputs = inputs
        self.size = size
        self.settle = settle
        self.most = most
        self.last: Place | None = None  # beyond which nothing is read, if only what is there now should be

    def initialOffset(self) -> dict[str, Any]:
        return {"time_us": -1, "path": ""}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        fresh = [place for place in self._complete() if place > _place(start) and not (self.last and place > self.last)]
        if isinstance(limit, ReadMaxFiles):
            fresh = fresh[: limit.max_files]
        return {"time_us": fresh[-1][0], "path": fresh[-1][1]} if fresh else start

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self.most) if self.most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.last = max(self._complete(), default=(-1, ""))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Part]:
        wanted = [place for place in self._places() if _place(start) < place <= _place(end)]
        return [Part(number, split) for number, (_, path) in enumerate(wanted) for split in parts(path, self.size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return references(partition)

    def _complete(self) -> list[Place]:
        places = self._places()
        settled = time.time() - self.settle
        if places and os.path.getmtime(places[-1][1]) > settled:
            places.pop()
        return places

    def _places(self) -> list[Place]:
        paths = [path for given in self.inputs for path in sorted(glob.glob(given))]
        return sorted((first_time(path), path) for path in (find(paths) if paths else []) if os.path.getsize(path))


def _place(offset: dict[str, Any]) -> Place:
    return offset["time_us"], offset["path"]


def parts(path: str, size: int) -> list[Split]:
    """A capture in parts of about ``size`` bytes; what is smaller, or gzip'd, is one, and is not gone through."""
    file = CaptureFile(path, block=65_536)
    if file.is_log:
        return [_unread(path)]
    if file.size > size and not file.is_packed:
        return splits(path, size)
    return [block.whole for block in itertools.islice(file.blocks(), 1)] or [_unread(path)]


def _unread(path: str) -> Split:
    """All of a file of which is not known how it is read: a frame log, or what is no capture."""
    return Split(path, 0, None, "", (), pcapng=False)


def references(part: Part) -> Iterator[pa.RecordBatch]:
    """The segments of a part, a batch for each block."""
    if not part.split.order:
        yield from _logged(part)
        return
    number = 0
    for found in read_segments(part.split):
        if isinstance(found, Problem):
            yield _problem(part, found)
        elif len(found):
            yield _batch(part, found, number)
            number += len(found)


def _batch(part: Part, found: Segments, number: int) -> pa.RecordBatch:
    count = len(found)
    keys = pa.array([struct.pack(">QQHQQH", *key) for key in found.keys], pa.binary())
    if part.split.packed:
        payload = pa.array([found.payload(n) for n in range(count)], pa.binary())
    elif found.spare:
        payload = pa.array([found.spare.get(start) for start in found.start.tolist()], pa.binary())
    else:
        payload = pa.nulls(count, pa.binary())
    columns = [
        keys.take(pa.array(found.flow)),
        pa.array([part.split.path]).take(pa.array(np.zeros(count, np.int8))),
        pa.array(np.full(count, part.file, np.int32)),
        pa.array(found.position),
        pa.array(np.arange(number, number + count, dtype=np.int32)),
        pa.array(found.upward),
        pa.array(found.time_us),
        pa.array(found.start),
        pa.array(found.captured.astype(np.int32)),
        pa.array(found.size.astype(np.int32)),
        pa.array(found.seq.astype(np.int64)),
        pa.array(found.ack.astype(np.int64)),
        pa.array(found.flags.astype(np.int16)),
        payload,
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REFERENCES)


def _logged(part: Part) -> Iterator[pa.RecordBatch]:
    """The frames of a frame log, each a row with its bytes; of what is no capture, why."""
    file = CaptureFile(part.split.path)
    frames = file.frames() if file.is_log else iter(())
    number = itertools.count()
    while some := list(itertools.islice(frames, 1_000)):
        rows = [
            {
                "connection": log_key(frame.connection, frame.client, frame.broker),
                "path": part.split.path,
                "file": part.file,
                "position": frame.position,
                "number": next(number),
                "upward": frame.to_broker,
                "time_us": frame.time_us,
                "start": frame.position,
                "captured": len(frame.frame),
                "size": len(frame.frame),
                "seq": 0,
                "ack": 0,
                "flags": 0,
                "payload": frame.frame,
                "problem": None,
            }
            for frame in some
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=REFERENCES)
    if not file.is_log:
        for _ in file.blocks():
            pass
    for problem in file.problems:
        yield _problem(part, problem)


def _problem(part: Part, problem: Problem) -> pa.RecordBatch:
    row: dict[str, Any] = dict.fromkeys(REFERENCES.names)
    row |= {"connection": b"", "path": problem.file, "file": part.file, "position": problem.position, "number": 0}
    row["problem"] = problem.reason
    return pa.RecordBatch.from_pylist([row], schema=REFERENCES)
