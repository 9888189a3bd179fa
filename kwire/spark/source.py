"""``spark.read.format("kafka_pcap").load(path)``: the TCP segments of captures, as references to their payload.

A row has no payload but says where in the file it is, so that none goes through Spark. In a gzip'd file nothing can be
read by its place: what is in it is put into a file of its own, if there is a folder for that. Else its payload is in
the row, as that of some fragments of packets is. Large files are read in parts, found exactly by one pass over the
headers of their records, or guessed and proven.
"""

from __future__ import annotations

import glob
import itertools
import json
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

from kwire.capture.files.blocks import Problem, Skipped, Split
from kwire.capture.files.capture_file import CaptureFile, each, find, first_time
from kwire.capture.files.file_systems import changed_at, is_address, size_of
from kwire.capture.files.splits import guessed
from kwire.capture.tcp.packets import read_segments, splits
from kwire.capture.tcp.segments import Segments
from kwire.spark.following import Spool, log_key

FORMAT = "kafka_pcap"
SPLIT = 64 * 1024 * 1024  # bytes of a part, if nothing else is asked for
LEAST_SPLIT = 4 * 1024 * 1024  # where a job makes them smaller, so that all cores have some
SETTLE = 60.0  # seconds
NEVER = float("inf")
Place = tuple[int, str]  # first time in a file, and its path without .gz: the order of files
REFERENCES = pa.schema(
    [
        ("connection", pa.binary()),  # both ends, the lower first; empty in rows about the file
        ("path", pa.string()),
        ("file", pa.int32()),  # number of the file, in the order in which they are read
        ("position", pa.int64()),  # of the packet's record in it
        ("number", pa.int32()),  # of the segment in the part of the file; of packets where ``skipped`` is not null
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
        ("skipped", pa.string()),  # why packets were passed over
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
    """Part of a file, the file's number, the folder for what is unpacked, if there is one; whether it is a ``guess``,
    and the next part if so. ``carried``: payload is in the rows, and not read again where it lies.
    """

    file: int
    split: Split
    unpacked: str | None = None
    guess: bool = False
    then: Split | None = None
    carried: bool = False


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(CaptureSource)


def files(inputs: Sequence[str]) -> list[str]:
    """The captures meant by paths, folders and patterns, in the order in which they are read. Raises: OSError."""
    return find(dict.fromkeys(path for given in inputs for path in _globbed(given) or [given]))


def _globbed(given: str) -> list[str]:
    """The paths of a pattern. An address stays as it is: what it means is looked up where it is."""
    return [given] if is_address(given) else sorted(glob.glob(given))


class CaptureSource(DataSource):
    """Options: ``path``, or ``inputs`` as JSON: files, folders, patterns. Or ``files`` as JSON: paths in their order.

    ``splitSize``: in bytes. ``unpacked``: a folder for what is in gzip'd files, see ``Payloads``. ``guess``: as JSON,
    the paths of files whose parts are guessed; a row with the problem NOT_PROVEN says that they are wrong.

    In a stream also ``settle``: seconds after which a file that does not grow is complete though no newer one is there;
    ``maxFilesPerTrigger``; ``idle``: seconds without a file after which an empty batch tells timers the time.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ", ".join(f"{field.name} {SPARK_TYPES[field.type]}" for field in REFERENCES)

    def reader(self, schema: StructType) -> CaptureReader:  # noqa: ARG002
        paths = json.loads(self.options["files"]) if "files" in self.options else files(self._inputs)
        guess = json.loads(self.options.get("guess", "[]"))
        return CaptureReader(paths, self._size, self.options.get("unpacked"), guess)

    def streamReader(self, schema: StructType) -> CaptureStream:  # noqa: ARG002 - Spark's name
        settle = float(self.options.get("settle", SETTLE))
        most, idle = int(self.options.get("maxFilesPerTrigger", 0)), float(self.options.get("idle", NEVER))
        return CaptureStream(self._inputs, self._size, settle, most, idle, self.options.get("unpacked"))

    @property
    def _inputs(self) -> list[str]:
        found: list[str] = json.loads(self.options["inputs"]) if "inputs" in self.options else [self.options["path"]]
        return found

    @property
    def _size(self) -> int:
        return int(self.options.get("splitSize", SPLIT))


class CaptureReader(DataSourceReader):
    def __init__(self, paths: list[str], size: int, unpacked: str | None = None, guess: Sequence[str] = ()) -> None:
        self.paths = paths
        self.size = size
        self.unpacked = unpacked
        self.guess = frozenset(guess)

    def partitions(self) -> Sequence[Part]:
        return [part for number, path in enumerate(self.paths) for part in self._parts(number, path)]

    def _parts(self, number: int, path: str) -> list[Part]:
        found = guessed(path, self.size) if path in self.guess else []
        far = is_address(path)  # where each read is a request, and connections have many short pieces in a file
        if len(found) > 1:
            pairs = zip(found, [*found[1:], None], strict=True)
            return [Part(number, split, self.unpacked, True, then, far) for split, then in pairs]
        return [Part(number, split, self.unpacked, carried=far) for split in found or parts(path, self.size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return references(partition)


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Files that a rotating capture has completed, in the order of their first packets.

    An offset is the place of a file in that order: its first time, and its path; ``calls`` counts the times that no
    file came for ``idle`` seconds. A file that is gzip'd afterwards (``tcpdump -z gzip``) keeps its place.
    """

    def __init__(
        self,
        inputs: list[str],
        size: int,
        settle: float,
        most: int,
        idle: float = NEVER,
        unpacked: str | None = None,
    ) -> None:
        self.inputs = inputs
        self.size = size
        self.settle = settle
        self.most = most
        self.idle = idle
        self.unpacked = unpacked
        self.times: dict[str, tuple[float, int]] = {}  # when a file was written last, and its first time
        self.quiet: tuple[Place, float] | None = None  # since which place, and when that is too long
        self.last: Place | None = None  # beyond which nothing is read, if only what is there now should be

    def initialOffset(self) -> dict[str, Any]:
        return {"time_us": -1, "path": "", "calls": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        fresh = [place for place in self._complete() if place > _place(start) and not (self.last and place > self.last)]
        if isinstance(limit, ReadMaxFiles):
            fresh = fresh[: limit.max_files]
        calls = start.get("calls", 0)
        if fresh:
            return {"time_us": fresh[-1][0], "path": fresh[-1][1], "calls": calls}
        if self.last is None and self._is_quiet(start):
            return {**start, "calls": calls + 1}
        return start

    def _is_quiet(self, start: dict[str, Any]) -> bool:
        """Whether timers that began with the last batch, which is over now, are due; once after each file."""
        now = time.time()
        if self.quiet is None or self.quiet[0] != _place(start):
            self.quiet = _place(start), now + self.idle
        due = now >= self.quiet[1]
        if due:
            self.quiet = _place(start), NEVER
        return due

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self.most) if self.most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.last = max(self._complete(), default=(-1, ""))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Part]:
        places = self._places()
        wanted = [places[place] for place in sorted(places) if _place(start) < place <= _place(end)]
        return [
            Part(number, split, self.unpacked) for number, path in enumerate(wanted) for split in parts(path, self.size)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return references(partition)

    def _complete(self) -> list[Place]:
        places = self._places()
        found = sorted(places)
        if found and changed_at(places[found[-1]]) > time.time() - self.settle:
            found.pop()
        return found

    def _places(self) -> dict[Place, str]:
        """The files that are there. One that is being gzip'd is there twice: the plain one counts."""
        given = [path for one in self.inputs for path in _globbed(one)]
        paths = [path for path in dict.fromkeys(each(given)) if size_of(path)]
        return {(self._first(path), path.removesuffix(".gz")): path for path in sorted(paths, reverse=True)}

    def _first(self, path: str) -> int:
        changed = changed_at(path)
        if path not in self.times or self.times[path][0] != changed:
            self.times[path] = changed, first_time(path)
        return self.times[path][1]


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
    is_spooled = part.split.packed and part.unpacked and not part.carried
    spool = Spool(part.unpacked, part.split.path) if is_spooled and part.unpacked else None
    for found in read_segments(part.split, guess=part.guess, then=part.then):
        if spool and isinstance(found, Segments):
            spool.add(found.data, found.base)
        if not isinstance(found, Segments):
            yield _remark(part, found)
        elif len(found):
            yield _batch(part, found, number)
            number += len(found)
    if spool:
        spool.close()


def _batch(part: Part, found: Segments, number: int) -> pa.RecordBatch:
    count = len(found)
    keys = pa.array([struct.pack(">QQHQQH", *key) for key in found.keys], pa.binary())
    if part.carried or (part.split.packed and not part.unpacked):
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
                "skipped": None,
            }
            for frame in some
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=REFERENCES)
    if not file.is_log:
        for _ in file.blocks():
            pass
    for problem in file.problems:
        yield _remark(part, problem)


def _remark(part: Part, found: Problem | Skipped) -> pa.RecordBatch:
    """A row about the file."""
    row: dict[str, Any] = dict.fromkeys(REFERENCES.names)
    row |= {"connection": b"", "path": found.file, "file": part.file, "position": 0, "number": 0}
    if isinstance(found, Skipped):
        row |= {"number": found.packets, "skipped": found.reason}
    else:
        row |= {"position": found.position, "time_us": found.time_us, "problem": found.reason}
    return pa.RecordBatch.from_pylist([row], schema=REFERENCES)
