"""The data source ``spark.read.format("kafka_pcap").load(path)``: references to the TCP segments of captures.

A row contains the file position of the payload instead of the payload itself, so payload does not pass through Spark.
Rows of some IP fragments, of remote files (such as ``s3://...``) and of gzip files do contain the payload. With the
option ``unpacked``, a gzip file is decompressed to a second file, and the rows contain positions in the second file.
Large files are read in parts, one per task. A part begins at a packet record. The position of this record is found by
one pass over the record headers of the file, or it is guessed and verified later.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kwire.capture.files.capture_file import CaptureFile
from kwire.capture.files.file_systems import is_address, size_of
from kwire.capture.files.splits import Guesses
from kwire.lazy_dataclass import dataclass
from kwire.spark.input_files import files
from kwire.spark.segment_references import PACKED, REFERENCES, SPARK_TYPES, Part, parts, references, whole_file
from kwire.spark.session import context_of, session_on
from kwire.spark.stream_source import NEVER, SETTLE, CaptureStream
from kwire.spark.worker import collect_garbage_rarely

FORMAT = "kafka_pcap"
SPLIT = 64 * 1024 * 1024  # default bytes of a part
OPENING = 64 * 1024  # bytes that a task could read in the time in which it opens a file
PICKLER: Any = CPickleSerializer()
Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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
            return None if self.number else Part(self.file, whole_file(self.path))
        guesses = Guesses(self.path, self.size)
        found = guesses.part(self.number)
        if found is None:
            return None if self.number else Part(self.file, whole_file(self.path))
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
    - ``secrets``: folder in which the TLS secrets of pcapng files are stored.
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
        folders = self.options.get("unpacked"), self.options.get("secrets")
        return CaptureStream(self._inputs, self._size, settle, most, idle, *folders)

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
