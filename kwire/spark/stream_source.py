"""The streaming reader of the data source ``kafka_pcap``, for the files of a rotating capture."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from kwire.capture.files.blocks import Problem
from kwire.capture.files.capture_file import each, first_time
from kwire.capture.files.file_systems import changed_at, is_address, size_of
from kwire.lazy_dataclass import dataclass
from kwire.spark.input_files import globbed
from kwire.spark.segment_references import Part, parts, references, remark_row
from kwire.spark.worker import collect_garbage_rarely

SETTLE = 60.0  # seconds
NEVER = float("inf")
MOST_ASIDE = 100  # late files and files without packets, of each, in one micro-batch
LATE = "the file is not read: files with later packets were read before"
DELETED = "the file was deleted before it was read"
GROWN = "the file has grown after it was read, and the rest is not read: use a longer --settle"
Place = tuple[int, str]  # first timestamp of a file, and its path without .gz: the order of files


@dataclass(frozen=True, slots=True)
class Unread(InputPartition):
    """A file of a stream that is not read, or not to its end.

    Attributes:
        file: number of the file, in reading order.
        path: path of the file.
        position: offset in the file up to which it was read.
        reason: why the rest is not read.
    """

    file: int
    path: str
    position: int = 0
    reason: str = LATE


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader for a streaming query: it reads the complete files of a rotating capture, ordered by first timestamp.

    An offset of the stream has the first timestamp of the last file that was read, the path of this file without
    ``.gz``, ``size``, ``calls``, ``late``, ``without_packets`` and ``grown``. The counter ``calls`` is increased when
    no file has arrived for ``idle`` seconds, because Spark runs a micro-batch only for a new offset. A file that is
    compressed later (``tcpdump -z gzip``) is not read again.

    ``size`` is the size of the last file. ``grown`` has the paths of files that have grown after they were read, each
    with the size up to which it was read: the micro-batch reports them. After a restart, only the last file is
    compared. The size -1 is unknown: of a compressed file, and of a file whose growth was reported.

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
        secrets: the option ``secrets`` of ``CaptureSource``.
    """

    def __init__(
        self,
        inputs: list[str],
        size: int,
        settle: float,
        most: int,
        idle: float = NEVER,
        unpacked: str | None = None,
        secrets: str | None = None,
    ) -> None:
        self.inputs = inputs
        self.size = size
        self.settle = settle
        self.most = most
        self.idle = idle
        self.unpacked = unpacked
        self.secrets = secrets
        self.times: dict[str, tuple[float, int]] = {}  # modification time and first timestamp of each file
        self.files: dict[str, tuple[int, float]] = {}  # size and modification time of each file of the last listing
        self.quiet: tuple[Place, float] | None = None  # last position, and the time at which the stream becomes idle
        self.last: Place | None = None  # last position to read, with availableNow
        self.sizes: dict[str, int] = {}  # size of each file when it was read, unless its growth was reported
        self.known: set[str] = set()  # paths without .gz of the files that were read, or are in an offset
        self.has_listed = False  # whether ``known`` has the files that an earlier run read

    def initialOffset(self) -> dict[str, Any]:
        return {"time_us": -1, "path": "", "size": -1, "calls": 0, "late": [], "without_packets": [], "grown": []}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        places, empty = self._listed()
        start = {**start, **self._grown(start, places), **self._aside(_place(start), places, empty)}
        fresh = [
            place for place in self._complete(places) if place > _place(start) and not (self.last and place > self.last)
        ]
        if isinstance(limit, ReadMaxFiles):
            fresh = fresh[: limit.max_files]
        calls = start.get("calls", 0)
        if fresh:
            self.known |= {path for _, path in fresh}
            time_us, path = fresh[-1]
            size = self.files[path][0] if places[fresh[-1]] == path else -1
            return {**start, "time_us": time_us, "path": path, "size": size, "calls": calls}
        if self.last is None and self._timers_are_due(start):
            return {**start, "calls": calls + 1}
        return start

    def _grown(self, start: Mapping[str, Any], places: Mapping[Place, str]) -> dict[str, Any]:
        """Return fields of the next offset: the files that have grown after they were read.

        The result is empty if there are no such files.

        Args:
            start: current offset of the stream.
            places: paths of the files that are not empty, by position.
        """
        path, size = start["path"], start.get("size", -1)
        if not self.has_listed and size >= 0:
            self.sizes.setdefault(path, size)
        listed = self.sizes.keys() & places.values()
        grown = sorted(one for one in listed if self.files[one][0] > self.sizes[one])[:MOST_ASIDE]
        fields = {"grown": [[one, self.sizes.pop(one)] for one in grown]}
        return ({"size": -1} if path in grown else {}) | fields if grown else {}

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
        changed = {path: self.files[path][1] for path in [*places.values(), *empty]}
        newest = max(changed.values(), default=0.0)
        settled = time.time() - self.settle
        new = [path for path in [*earlier, *empty] if path.removesuffix(".gz") not in self.known]
        late = [path for path in new if path in earlier and earlier[path][0]]  # its first timestamp is not 0
        ended = [
            path
            for path in new
            if path not in late and (changed[path] < newest or (self.last and changed[path] <= settled))
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
        late, without_packets, grown = (
            end.get(name, []) if end.get(name) != start.get(name) else []
            for name in ("late", "without_packets", "grown")
        )
        read = [*due, *without_packets]
        self.sizes |= {path: self.files[path][0] for path in due if not path.endswith(".gz")}
        partitions: list[InputPartition] = []
        for number, path in enumerate(read):
            try:
                partitions += [Part(number, split, self.unpacked) for split in parts(path, self.size)]
            except FileNotFoundError:
                partitions.append(Unread(number, path, reason=DELETED))
        partitions += [Unread(len(read) + number, path) for number, path in enumerate(late)]
        partitions += [Unread(len(read) + len(late) + n, path, size, GROWN) for n, (path, size) in enumerate(grown)]
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        collect_garbage_rarely()
        if isinstance(partition, Unread):
            problem = Problem(partition.path, partition.position, partition.reason)
            return iter([remark_row(partition.file, problem)])
        assert isinstance(partition, Part)
        return references(partition, secrets=self.secrets)

    def _complete(self, places: Mapping[Place, str]) -> list[Place]:
        complete = sorted(places)
        if complete and self.files[places[complete[-1]]][1] > time.time() - self.settle:
            complete.pop()
        return complete

    def _listed(self) -> tuple[dict[Place, str], list[str]]:
        """Return the paths of the files that are not empty, by first timestamp and path without ``.gz``; and the paths
        of the empty files.

        While a file is being compressed, a compressed and an uncompressed version exist. Only the uncompressed version
        is returned. A file that is deleted meanwhile is not returned. A file without packets has the first timestamp 0.
        """
        found = (path for one in self.inputs for path in globbed(one) if is_address(path) or os.path.exists(path))
        matches = each(found)
        uncompressed = {*matches}
        places, empty = dict[Place, str](), list[str]()
        self.files = {}
        for path in matches:
            plain = path.removesuffix(".gz")
            if plain != path and plain in uncompressed:
                continue
            try:
                size, changed = size_of(path), changed_at(path)
                first = self._first(path, changed) if size else 0
            except FileNotFoundError:
                continue
            self.files[path] = size, changed
            if size:
                places[first, plain] = path
            else:
                empty.append(path)
        return places, empty

    def _first(self, path: str, changed: float) -> int:
        """Return the first timestamp of a file, which is read again if the file has changed."""
        if path not in self.times or self.times[path][0] != changed:
            self.times[path] = changed, first_time(path)
        return self.times[path][1]


def after(inputs: Sequence[str], offset: Mapping[str, Any]) -> list[str]:
    """Return the paths of the files with packets that a stream has not read, ordered by first timestamp.

    Args:
        inputs: files, folders and glob patterns.
        offset: offset up to which the stream has read, see ``CaptureStream``.
    """
    places, _ = CaptureStream(list(inputs), 0, 0.0, 0)._listed()
    return [places[place] for place in sorted(places) if place > _place(offset)]


def _place(offset: Mapping[str, Any]) -> Place:
    return offset["time_us"], offset["path"]
