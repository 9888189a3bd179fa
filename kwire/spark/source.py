"""The data source ``spark.read.format("kafka_pcap").load(path)``: references to the TCP segments of captures.

A row contains the file position of the payload instead of the payload itself, so payload does not pass through Spark.
Rows of some IP fragments, of remote files (such as ``s3://...``) and of gzip files do contain the payload. With the
option ``unpacked``, a gzip file is decompressed to a second file, and the rows contain positions in the second file.
Large files are read in parts, one per task. A part begins at a packet record. The position of this record is found by
one pass over the record headers of the file, or it is guessed and verified later.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark import SparkContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kwire.capture.files.blocks import Problem, Skipped, Split
from kwire.capture.files.capture_file import CaptureFile, each, find, first_time
from kwire.capture.files.file_systems import below, changed_at, file_system, is_address, size_of
from kwire.capture.files.framelog import LoggedFrame
from kwire.capture.files.splits import NOT_PROVEN, Guesses
from kwire.capture.tcp.packets import read_segments, splits
from kwire.capture.tcp.segments import Segments, pack_key
from kwire.capture.tls.keylog import KeyLog
from kwire.lazy_dataclass import dataclass
from kwire.spark import packing
from kwire.spark.following import Spool, log_key
from kwire.spark.session import context_of, session_on
from kwire.spark.tls_secrets import store
from kwire.spark.worker import collect_garbage_rarely

FORMAT = "kafka_pcap"
SPLIT = 64 * 1024 * 1024  # default bytes of a part
OPENING = 64 * 1024  # bytes that a task could read in the time in which it opens a file
SETTLE = 60.0  # seconds
NEVER = float("inf")
MOST_ASIDE = 100  # late files and files without packets, of each, in one micro-batch
LATE = "the file is not read: files with later packets were read before"
PICKLER: Any = CPickleSerializer()
Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Place = tuple[int, str]  # first timestamp of a file, and its path without .gz: the order of files
REFERENCES = pa.schema(
    [
        ("connection", pa.binary()),  # both endpoints, the lower first; empty in rows about the file
        ("path", pa.string()),
        ("file", pa.int32()),  # number of the file, in reading order
        ("position", pa.int64()),  # of the packet's record in the file
        (
            "number",
            pa.int32(),
        ),  # number of the segment in the part; number of packets where ``skipped`` is not null
        ("upward", pa.bool_()),  # sent by the lower endpoint
        ("time_us", pa.int64()),
        ("start", pa.int64()),  # of the payload in the file
        ("captured", pa.int32()),  # captured bytes of the payload
        ("size", pa.int32()),  # bytes of the payload that were sent
        ("seq", pa.int64()),
        ("ack", pa.int64()),
        ("flags", pa.int16()),
        ("payload", pa.binary()),  # null where ``start`` has its position
        ("problem", pa.string()),  # damage of the file
        ("skipped", pa.string()),  # why packets were skipped
    ]
)
PACKED = REFERENCES.append(packing.FIELD)  # columns with packed segments
SPARK_TYPES = {
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.string(): "STRING",
}
ORDER = ("file", "position", "number")  # order of the segments of a connection


@dataclass
class Part(InputPartition):
    """A part of a capture file that one task reads.

    Attributes:
        file: number of the file, in reading order.
        split: byte range of the part.
        unpacked: folder for decompressed content; None to put the content of a gzip file into the rows.
        guess: True if the start of the part is guessed.
        then: next part of the file, whose start is guessed: the task verifies that this part ends there. None if there
            is no next part, or its start is exact.
        carried: True if rows contain the payload instead of its position, as for remote files.
    """

    file: int
    split: Split
    unpacked: str | None = None
    guess: bool = False
    then: Split | None = None
    carried: bool = False


@dataclass(frozen=True, slots=True)
class Late(InputPartition):
    """A file of a stream that is not read, because files with later packets were read before.

    Attributes:
        file: number of the file, in reading order.
        path: path of the file.
    """

    file: int
    path: str


@dataclass(frozen=True, slots=True)
class Range:
    """A byte range of a capture file, in which a task finds the part to read.

    A part begins at the first packet record in the range. The driver only computes ranges and opens no file.

    Attributes:
        file: number of the file, in reading order.
        path: path of the file.
        size: bytes of each range of the file.
        number: number of the range in the file, from 0.
        unpacked: folder for decompressed content; None to put the content of a gzip file into the rows.
    """

    file: int
    path: str
    size: int
    number: int
    unpacked: str | None = None

    def part(self) -> Part | None:
        """Return the part of the file that begins in this range; None if no part begins in it."""
        far = is_address(self.path)  # each read is a request there, and connections have many short pieces in a file
        if CaptureFile(self.path).is_log:
            return None if self.number else Part(self.file, _whole_file(self.path))
        guesses = Guesses(self.path, self.size)
        found = guesses.part(self.number)
        if found is None:
            return None if self.number else Part(self.file, _whole_file(self.path))
        split, then = found
        is_guess = then is not None or self.number > 0
        return Part(self.file, split, self.unpacked, is_guess, then, far)


@dataclass
class Ranges(InputPartition):
    """The input of one task.

    Attributes:
        ranges: one byte range of a large file, or one range with all bytes for each of several small files.
    """

    ranges: tuple[Range, ...]


def register(spark: SparkSession) -> None:
    """Register the data source ``kafka_pcap`` with a Spark session."""
    spark.dataSource.register(CaptureSource)


def files(inputs: Sequence[str]) -> list[str]:
    """Return the capture files that paths, folders and glob patterns select, ordered by time of the first packet.

    Raises: OSError if a file or a folder cannot be read.
    """
    return find(path for pattern in inputs for path in _globbed(pattern) or [pattern])


def without_files(inputs: Sequence[str]) -> list[str]:
    """Return the paths, folders and glob patterns that select no capture file now. Addresses are not checked."""
    return [one for one in inputs if not is_address(one) and not each(_globbed(one))]


def _globbed(pattern: str) -> list[str]:
    """Return the paths that match a glob pattern; empty if no path matches.

    The path of a file or folder is no pattern: a shell that expands ``*`` may return a name such as ``a[1].pcap``. A
    pattern with an address, such as ``s3://...``, is returned unchanged: the remote file system resolves the pattern.
    """
    return [pattern] if is_address(pattern) or os.path.exists(pattern) else sorted(glob.glob(pattern))


class CaptureSource(DataSource):
    """The Spark data source ``kafka_pcap``, which reads captures.

    One of two options selects the files:

    - ``path``: a path.
    - ``inputs``: JSON list of files, folders and patterns.

    Further options:

    - ``splitSize``: bytes of a part of a file, which one task reads.
    - ``unpacked``: folder for the content of gzip files, see ``Payloads``.

    Options of a stream:

    - ``settle``: seconds without growth after which the newest file is complete.
    - ``maxFilesPerTrigger``: maximum number of files per micro-batch.
    - ``idle``: seconds without a new file after which an empty micro-batch is run, so that Spark's timers advance.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _spark_schema(REFERENCES)

    def reader(self, schema: StructType) -> CaptureReader:  # noqa: ARG002
        return CaptureReader(files(self._inputs), self._size, self.options.get("unpacked"))

    def streamReader(self, schema: StructType) -> CaptureStream:  # noqa: ARG002 - Spark's name
        settle = float(self.options.get("settle", SETTLE))
        most, idle = int(self.options.get("maxFilesPerTrigger", 0)), float(self.options.get("idle", NEVER))
        return CaptureStream(self._inputs, self._size, settle, most, idle, self.options.get("unpacked"))

    @property
    def _inputs(self) -> list[str]:
        if "inputs" in self.options:
            inputs: list[str] = json.loads(self.options["inputs"])
            return inputs
        if "path" not in self.options:
            raise ValueError(f"{FORMAT} has no captures: pass a path to load(), or set the option inputs")
        return [self.options["path"]]

    @property
    def _size(self) -> int:
        return int(self.options.get("splitSize", SPLIT))


def scan(spark: SparkSession, reader: CaptureReader) -> DataFrame:
    """Return the rows of captures as a DataFrame, with one Spark partition for each input of the reader.

    A query of the data source has the same rows. To plan such a query, Spark starts more Python processes, one after
    the other; this function starts none.

    Args:
        spark: session that runs the query.
        reader: reader of the captures.
    """
    inputs = list(map(PICKLER.dumps, reader.partitions()))  # bytes, because each task gets the inputs of all tasks
    numbers = spark.range(0, len(inputs), 1, len(inputs))
    return numbers.mapInArrow(partial(_scan, reader, inputs), _spark_schema(reader.columns))


def _scan(
    reader: CaptureReader, inputs: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    numbers = [number for batch in batches for number in batch.column(0).to_pylist()]  # Spark ends a worker with input
    return (one for number in numbers for one in reader.read(PICKLER.loads(inputs[number])))


def convert_in_one_task(
    spark: SparkSession | SparkContext, reader: CaptureReader, convert: Step, schema: str
) -> list[pa.RecordBatch]:
    """Convert the rows of captures with one task, and return the converted rows.

    The task is a task of an RDD. A query takes 1.4 CPU seconds more in a new session, for the classes with which Spark
    plans it. Sessions of Spark Connect have no RDDs: the task is a query.

    Args:
        spark: session or context that runs the task.
        reader: reader of the captures.
        convert: function that converts the rows of all inputs together.
        schema: Spark schema of the converted rows.
    """
    step = partial(_convert, reader, convert)
    context = context_of(spark)
    if context is not None:
        return context.parallelize([0], 1).mapPartitions(step).collect()
    query = session_on(spark).range(0, 1, 1, 1).mapInArrow(step, schema)
    converted: list[pa.RecordBatch] = query.toArrow().to_batches()
    return converted


def _convert(reader: CaptureReader, convert: Step, rows: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    list(rows)  # Spark ends a worker with input
    return convert(one for part in reader.partitions() for one in reader.read(part))


def _spark_schema(columns: pa.Schema) -> str:
    return ", ".join(f"{field.name} {SPARK_TYPES[field.type]}" for field in columns)


class CaptureReader(DataSourceReader):
    """A reader of captures in a batch query, by ``scan`` or by the data source ``kafka_pcap``.

    Args:
        paths: paths of the files, in reading order.
        size: bytes of a part of a file, which one task reads.
        unpacked: the option ``unpacked`` of ``CaptureSource``.
        guess: files that several tasks may read, each from a guessed position of a packet record. One task reads each
            remaining file. A row with the problem NOT_PROVEN reports a wrong guess. None to divide all files at exact
            positions, for which the driver reads the record headers of large files.
        wrong: folder in which tasks report wrong guesses: a task writes an empty file whose name is the file number.
            None to report none.
        secrets: folder in which tasks store the TLS secrets of pcapng files, see ``tls_secrets``. None to store none.
        packed: True for a column ``packed``, and for rows that have several segments in it, see ``packing``.
    """

    def __init__(
        self,
        paths: list[str],
        size: int,
        unpacked: str | None = None,
        guess: Sequence[str] | None = None,
        wrong: str | None = None,
        secrets: str | None = None,
        *,
        packed: bool = False,
    ) -> None:
        self.paths = paths
        self.size = size
        self.unpacked = unpacked
        self.guess = None if guess is None else frozenset(guess)
        self.wrong = wrong
        self.secrets = secrets
        self.packed = packed

    @property
    def columns(self) -> pa.Schema:
        """The columns of the rows."""
        return PACKED if self.packed else REFERENCES

    def partitions(self) -> Sequence[Part | Ranges]:
        if self.guess is not None:
            return list(self._ranges(self.guess))
        return [
            Part(number, split, self.unpacked, carried=is_address(path))
            for number, path in enumerate(self.paths)
            for split in parts(path, self.size)
        ]

    def _ranges(self, guess: Collection[str]) -> Iterator[Ranges]:
        """Yield the input of each task: a range of a large file, or several small files together. No file is opened.

        ``guess``: files that are divided into ranges. A file that is not in this collection is one range.
        """
        small: list[Range] = []
        together = 0
        for number, path in enumerate(self.paths):
            size, range_size = size_of(path), self.size if path in guess else sys.maxsize
            ranges = [Range(number, path, range_size, n, self.unpacked) for n in range(max(-(-size // range_size), 1))]
            if len(ranges) > 1:
                yield from (Ranges((one,)) for one in ranges)
                continue
            if small and together + max(size, OPENING) > self.size:
                yield Ranges(tuple(small))
                small, together = [], 0
            small += ranges
            together += max(size, OPENING)
        if small:
            yield Ranges(tuple(small))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        collect_garbage_rarely()
        found = (one.part() for one in partition.ranges) if isinstance(partition, Ranges) else (partition,)
        for part in found:
            if part is not None:
                assert isinstance(part, Part)
                yield from references(part, self.wrong, self.secrets, packed=self.packed)


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader for a streaming query: it reads the complete files of a rotating capture, ordered by first timestamp.

    An offset of the stream has five fields: the first timestamp of the last file that was read, the path of this file
    without ``.gz``, ``calls``, ``late`` and ``without_packets``. The counter ``calls`` is increased when no file has
    arrived for ``idle`` seconds, because Spark runs a micro-batch only for a new offset. A file that is compressed
    later (``tcpdump -z gzip``) is not read again.

    Files that arrive late, after a file with later packets was read, are not read. ``late`` has the paths of such
    files, and the micro-batch that ends with the offset reports them. ``without_packets`` has the paths of files
    without packets, such as empty files; the micro-batch reports their damage. Such files that arrived while no query
    was running are not noticed.

    Args:
        inputs: files, folders and glob patterns.
        size: bytes of a part of a file, which one task reads.
        settle: seconds without change after which the newest file is complete.
        most: maximum number of files per micro-batch; 0 for no limit.
        idle: seconds without a new file after which an empty micro-batch is run.
        unpacked: the option ``unpacked`` of ``CaptureSource``.
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
        self.times: dict[str, tuple[float, int]] = {}  # modification time and first timestamp of each file
        self.quiet: tuple[Place, float] | None = None  # last position, and the time at which the stream becomes idle
        self.last: Place | None = None  # last position to read, with availableNow
        self.known: set[str] = set()  # paths without .gz of the files that were read, or are in an offset
        self.has_listed = False  # whether ``known`` has the files that an earlier run read

    def initialOffset(self) -> dict[str, Any]:
        return {"time_us": -1, "path": "", "calls": 0, "late": [], "without_packets": []}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        places, empty = self._listed()
        start = {**start, **self._aside(_place(start), places, empty)}
        fresh = [
            place for place in self._complete(places) if place > _place(start) and not (self.last and place > self.last)
        ]
        if isinstance(limit, ReadMaxFiles):
            fresh = fresh[: limit.max_files]
        calls = start.get("calls", 0)
        if fresh:
            self.known |= {path for _, path in fresh}
            return {**start, "time_us": fresh[-1][0], "path": fresh[-1][1], "calls": calls}
        if self.last is None and self._timers_are_due(start):
            return {**start, "calls": calls + 1}
        return start

    def _aside(self, start: Place, places: Mapping[Place, str], empty: Sequence[str]) -> dict[str, list[str]]:
        """Return fields of the next offset: the newly noticed files that are late or have no packets.

        The result is empty if there are no such files. A file without packets that may still grow is ignored.

        Args:
            start: position of the last file that was read.
            places: paths of the files that are not empty, by position.
            empty: paths of the empty files.
        """
        earlier = {path: place for place, path in places.items() if place <= start}
        if not self.has_listed:
            self.known |= {path.removesuffix(".gz") for path in [*earlier, *(empty if start[1] else ())]}
            self.has_listed = True
        newest = max(map(changed_at, [*places.values(), *empty]), default=0.0)
        settled = time.time() - self.settle
        new = [path for path in [*earlier, *empty] if path.removesuffix(".gz") not in self.known]
        late = [path for path in new if path in earlier and earlier[path][0]]  # its first timestamp is not 0
        ended = [
            path
            for path in new
            if path not in late and (changed_at(path) < newest or (self.last and changed_at(path) <= settled))
        ]
        fields = {"late": late[:MOST_ASIDE], "without_packets": ended[:MOST_ASIDE]}
        self.known |= {path.removesuffix(".gz") for paths in fields.values() for path in paths}
        return fields if late or ended else {}

    def _timers_are_due(self, start: dict[str, Any]) -> bool:
        """Return whether an empty micro-batch must be run so that Spark's timers advance.

        This is so if no file has arrived for ``idle`` seconds. The result is True at most once after each file.

        Args:
            start: current offset of the stream.
        """
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
        places, _ = self._listed()
        self.last = max(self._complete(places), default=(-1, ""))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        places, _ = self._listed()
        due = [places[place] for place in sorted(places) if _place(start) < place <= _place(end)]
        late, without_packets = (
            end.get(name, []) if end.get(name) != start.get(name) else [] for name in ("late", "without_packets")
        )
        read = [*due, *without_packets]
        partitions: list[InputPartition] = [
            Part(number, split, self.unpacked) for number, path in enumerate(read) for split in parts(path, self.size)
        ]
        partitions += [Late(len(read) + number, path) for number, path in enumerate(late)]
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        collect_garbage_rarely()
        if isinstance(partition, Late):
            return iter([_remark(partition, Problem(partition.path, 0, LATE))])
        assert isinstance(partition, Part)
        return references(partition)

    def _complete(self, places: Mapping[Place, str]) -> list[Place]:
        complete = sorted(places)
        if complete and changed_at(places[complete[-1]]) > time.time() - self.settle:
            complete.pop()
        return complete

    def _listed(self) -> tuple[dict[Place, str], list[str]]:
        """Return the paths of the files that are not empty, by first timestamp and path without ``.gz``; and the paths
        of the empty files.

        While a file is being compressed, a compressed and an uncompressed version exist. Only the uncompressed version
        is returned. A file without packets has the first timestamp 0.
        """
        matches = each(path for one in self.inputs for path in _globbed(one))
        empty = [path for path in matches if not size_of(path)]
        paths = sorted({*matches} - {*empty}, reverse=True)
        return {(self._first(path), path.removesuffix(".gz")): path for path in paths}, empty

    def _first(self, path: str) -> int:
        changed = changed_at(path)
        if path not in self.times or self.times[path][0] != changed:
            self.times[path] = changed, first_time(path)
        return self.times[path][1]


def _place(offset: dict[str, Any]) -> Place:
    return offset["time_us"], offset["path"]


def parts(path: str, size: int) -> list[Split]:
    """Divide a capture file into parts of about ``size`` bytes, which begin at exact positions of packet records.

    Small files, gzip files and frame logs are one part. The function reads all record headers of a larger file.
    """
    file = CaptureFile(path, block=65_536)
    if file.is_log:
        return [_whole_file(path)]
    if file.size > size and not file.is_packed:
        return splits(path, size)
    return [block.whole for block in itertools.islice(file.blocks(), 1)] or [_whole_file(path)]


def _whole_file(path: str) -> Split:
    """Return one part with all bytes of a file that is a frame log, or that is not a capture."""
    return Split(path, 0, None, "", (), pcapng=False)


def references(
    part: Part, wrong: str | None = None, secrets: str | None = None, *, packed: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches with the columns REFERENCES: references to the TCP segments in a part of a file.

    Damage and skipped packets are batches of one row. For a frame log, the batches contain the frames themselves.

    Args:
        part: part of a capture file, or a whole frame log.
        wrong: folder in which a wrong guess of the start of a part is reported: by an empty file whose name is the file
            number. None for no report.
        secrets: folder in which the TLS secrets of a pcapng file are stored. None to store none.
        packed: True for the columns PACKED. Rows with payload are not packed.
    """
    if packed:
        for batch in _references(part, wrong, secrets, packed=True):
            yield batch if len(batch.schema) == len(PACKED) else _widened(batch)
    else:
        yield from _references(part, wrong, secrets, packed=False)


def _widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, pa.nulls(len(batch), packing.FIELD.type)], schema=PACKED)


def _references(part: Part, wrong: str | None, secrets: str | None, *, packed: bool) -> Iterator[pa.RecordBatch]:
    if not part.split.order:
        yield from _frames_of_log(part)
        return
    number = 0
    is_spooled = part.split.packed and part.unpacked and not part.carried
    spool = Spool(part.unpacked, part.split.path) if is_spooled and part.unpacked else None
    keylog = KeyLog()
    for segments in read_segments(part.split, guess=part.guess, then=part.then, keylog=keylog):
        if spool and isinstance(segments, Segments):
            spool.add(segments.data, segments.base)
        if wrong and isinstance(segments, Problem) and segments.reason == NOT_PROVEN:
            _write_empty(wrong, str(part.file))
        if not isinstance(segments, Segments):
            yield _remark(part, segments)
        elif len(segments):
            if packed and not segments.spare and not _carries_payload(part):
                yield packing.pack(segments, PACKED, part.file, part.split.path, number)
            else:
                yield _batch(part, segments, number)
            number += len(segments)
    if spool:
        spool.close()
    if secrets and len(keylog):
        store(keylog, secrets)


def _write_empty(folder: str, name: str) -> None:
    files, inside = file_system(below(folder, name))
    files.create_dir(inside.rpartition("/")[0], recursive=True)
    files.open_output_stream(inside).close()


def wrongly_guessed(folder: str) -> list[int]:
    """Return the numbers of the files for which tasks have reported a wrong guess, in ascending order.

    ``folder``: the option ``wrong`` of the data source. If the folder does not exist, the list is empty.
    """
    files, inside = file_system(folder)
    found = files.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    return sorted(int(info.base_name) for info in found)


def _carries_payload(part: Part) -> bool:
    return part.carried or (part.split.packed and not part.unpacked)


def _batch(part: Part, segments: Segments, number: int) -> pa.RecordBatch:
    count = len(segments)
    keys = pa.array([pack_key(key) for key in segments.keys], pa.binary())
    if _carries_payload(part):
        payload = pa.array([segments.payload(n) for n in range(count)], pa.binary())
    elif segments.spare:
        payload = pa.array([segments.spare.get(start) for start in segments.start.tolist()], pa.binary())
    else:
        payload = pa.nulls(count, pa.binary())
    columns = [
        keys.take(pa.array(segments.flow)),
        pa.array([part.split.path]).take(pa.array(np.zeros(count, np.int8))),
        pa.array(np.full(count, part.file, np.int32)),
        pa.array(segments.position),
        pa.array(np.arange(number, number + count, dtype=np.int32)),
        pa.array(segments.upward),
        pa.array(segments.time_us),
        pa.array(segments.start),
        pa.array(segments.captured.astype(np.int32)),
        pa.array(segments.size.astype(np.int32)),
        pa.array(segments.seq.astype(np.int64)),
        pa.array(segments.ack.astype(np.int64)),
        pa.array(segments.flags.astype(np.int16)),
        payload,
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=REFERENCES)


def logged_row(frame: LoggedFrame, path: str, file: int, number: int) -> dict[str, Any]:
    """Return the row of a frame in a frame log or a topic, including its bytes.

    Args:
        frame: the frame.
        path: path of the file, or address of the partition.
        file: number of the file in the list of paths, or of the partition.
        number: number of the row in its task, which orders rows at one position.
    """
    return {
        "connection": log_key(frame.connection, frame.client, frame.broker),
        "path": path,
        "file": file,
        "position": frame.position,
        "number": number,
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


def _frames_of_log(part: Part) -> Iterator[pa.RecordBatch]:
    """Yield the frames of a frame log, including their bytes.

    For a file that is not a capture, yield one row with the problem.
    """
    file = CaptureFile(part.split.path)
    frames = file.frames() if file.is_log else iter(())
    number = itertools.count()
    while some := list(itertools.islice(frames, 1_000)):
        rows = [logged_row(frame, part.split.path, part.file, next(number)) for frame in some]
        yield pa.RecordBatch.from_pylist(rows, schema=REFERENCES)
    if not file.is_log:
        for _ in file.blocks():
            pass
    for problem in file.problems:
        yield _remark(part, problem)


def _remark(part: Part | Late, remark: Problem | Skipped) -> pa.RecordBatch:
    """Return a batch with one row, which reports a damaged position of a file or the number of skipped packets."""
    row: dict[str, Any] = dict.fromkeys(REFERENCES.names)
    row |= {"connection": b"", "path": remark.file, "file": part.file, "position": 0, "number": 0}
    if isinstance(remark, Skipped):
        row |= {"number": remark.packets, "skipped": remark.reason}
    else:
        row |= {"position": remark.position, "time_us": remark.time_us, "problem": remark.reason}
    return pa.RecordBatch.from_pylist([row], schema=REFERENCES)
