"""The names of the files in a partition's directory, and the batches in a segment. The functions open no files.

Source: Kafka's UnifiedLog.parseTopicPartitionName, LogFileUtils, LogLoader, LogSegment.recover, FileLogInputStream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from enum import Enum
from typing import NamedTuple

from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_FRAME
from kwire.records.batch import HEADER, MAGIC_AT, PREFIX, Batch, read_batch
from mockbroker.topics.log_segments import OFFSETS_IN_A_SEGMENT

CHUNK = 1024 * 1024  # bytes read from a file at a time
MAX_BATCH = MAX_FRAME  # bytes of a batch: a larger one fits into no request, so its length is damaged

LOG = ".log"
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"


class Kind(Enum):
    """The kind of a partition's directory. Its value is the suffix of the directory's name.

    Attributes:
        LIVE: the directory of an existing partition.
        DELETED: the directory of a deleted topic; it will be removed.
        FUTURE: the directory of a replica that is being moved to this disk.
        STRAY: the directory of a partition that belongs to no topic of the cluster.
    """

    LIVE = ""
    DELETED = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"  # of a partition that this broker no longer hosts


class Directory(NamedTuple):
    """The parts of the name of a partition's directory: topic, partition index and kind."""

    topic: str
    partition: int
    kind: Kind = Kind.LIVE


_DIRECTORY = re.compile(r"(?P<topic>\S+)-(?P<partition>\d{1,10})", re.ASCII)
_NOT_LIVE = re.compile(rf"{_DIRECTORY.pattern}\.[^\s.]+(?P<kind>-delete|-future|-stray)", re.ASCII)
_FILE = re.compile(r"(?P<base>\d{20})(?P<rest>\..+)", re.ASCII)


def directory_name(topic: str, partition: int) -> str:
    """Return the name of the directory of an existing partition, such as ``billing-3``."""
    return f"{topic}-{partition}"


def parse_directory_name(name: str) -> Directory | None:
    """Return the parts of the name of a partition directory; None for any other name.

    Examples of names are ``billing-3`` and ``billing-3.<id>-delete``.
    """
    if match := _NOT_LIVE.fullmatch(name):
        return Directory(match["topic"], int(match["partition"]), Kind(match["kind"]))
    if match := _DIRECTORY.fullmatch(name):
        return Directory(match["topic"], int(match["partition"]))
    return None


def segment_name(base_offset: int, suffix: str = LOG) -> str:
    """Return the name of a segment file, or of a file that belongs to a segment, such as an index.

    Args:
        base_offset: base offset of the segment.
        suffix: suffix of the name, such as ``.log``, ``.index``, ``.timeindex`` or ``.log.swap``.
    """
    return f"{base_offset:020}{suffix}"


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of a partition's directory, classified as Kafka does at startup.

    Attributes:
        segments: base offset -> file name, in order.
        swaps: base offset -> name of a ``.swap`` file, which a finished compaction has written. The ``.swap`` files
            replace all segments whose base offset is in the range of the offsets in the ``.swap`` files. The end of the
            range is known only after the last ``.swap`` file was read. It is the argument of ``with_swaps``.
        dropped: names of the files to remove without reading them.
    """

    segments: dict[int, str] = field(default_factory=dict)
    swaps: dict[int, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)

    def with_swaps(self, end: int) -> SegmentFiles:
        """Return the files after the ``.swap`` files have replaced segments.

        ``end``: the offset after the last record of the ``.swap`` files.
        """
        if not self.swaps:
            return self
        begin = min(self.swaps)
        replaced = [base for base in self.segments if begin <= base < end]
        remaining = {base: name for base, name in self.segments.items() if base not in replaced}
        return SegmentFiles(
            dict(sorted((remaining | self.swaps).items())),
            {},
            self.dropped + [self.segments[base] for base in replaced],
        )


def classify_files(names: Iterable[str]) -> SegmentFiles:
    """Return the files of a partition's directory, classified by their names. Indexes and checkpoints are ignored."""
    logs: dict[str, dict[int, str]] = {LOG: {}, LOG + SWAP: {}}
    unfinished: list[int] = []  # base offsets of an interrupted compaction, which starts again from scratch
    dropped: list[str] = []
    for name in sorted(names):
        if (match := _FILE.fullmatch(name)) is None:
            continue
        base, rest = int(match["base"]), match["rest"]
        if rest in logs:
            logs[rest][base] = name
        elif rest.endswith(CLEANED):
            unfinished.append(base)
            dropped.append(name)
        elif rest.endswith(DELETED):
            dropped.append(name)
    # A swap after an unfinished segment belongs to an interrupted split, whose source segment still exists.
    swaps: dict[int, str] = {}
    for base, name in logs[LOG + SWAP].items():
        if unfinished and base >= min(unfinished):
            dropped.append(name)
        else:
            swaps[base] = name
    return SegmentFiles(logs[LOG], swaps, dropped)


class Reason(Enum):
    """The kind of damage in a segment.

    Attributes:
        TORN: the file ends within a batch.
        LENGTH: the length in a batch header is out of range.
        MAGIC: the format version (magic) in a batch header is not 2.
        CRC: the CRC in a batch header does not match the bytes of the batch.
        OFFSET: the offsets of a batch overlap the batch before, or are outside of the segment.
    """

    TORN = "torn"
    LENGTH = "length"
    MAGIC = "magic"
    CRC = "crc"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True)
class Damage:
    """The description of the first damage in a segment.

    Attributes:
        position: position in the segment file, in bytes, at which the last valid batch ends.
        offset: the offset after the last valid record.
        reason: kind of the damage.
        text: description for messages.
    """

    position: int
    offset: int
    reason: Reason
    text: str


def read_segment(chunks: Iterable[bytes], base_offset: int) -> Iterator[Batch | Damage]:
    """Yield the valid batches of a segment in order. If invalid bytes follow, yield a Damage at the end.

    Records are not decoded.

    Args:
        chunks: the bytes of the file from its beginning; at most one batch and one chunk are held in memory.
        base_offset: base offset of the segment.
    """
    end = base_offset + OFFSETS_IN_A_SEGMENT
    window = _Window(iter(chunks))
    while window.fill(1):
        if isinstance(batch := _next_batch(window, base_offset, end), Damage):
            yield batch
            return
        window.skip(len(batch.data))
        base_offset = batch.last_offset + 1
        yield batch


def _next_batch(window: _Window, expected: int, end: int) -> Batch | Damage:
    def damage(reason: Reason, text: str) -> Damage:
        return Damage(window.position, expected, reason, text)

    if not window.fill(MAGIC_AT + 1):
        return damage(Reason.TORN, f"{window.available} bytes of a batch header of {HEADER.size}")
    size = PREFIX + int.from_bytes(window.data[window.at + 8 : window.at + PREFIX], "big", signed=True)
    magic = int.from_bytes(window.data[window.at + MAGIC_AT : window.at + MAGIC_AT + 1], "big", signed=True)
    # Every magic has its length and its magic byte at the same positions.
    if size <= MAGIC_AT or (magic == 2 and size < HEADER.size) or size > MAX_BATCH:
        return damage(Reason.LENGTH, f"batch size {size} is out of range ({HEADER.size}-{MAX_BATCH} bytes)")
    if magic != 2:
        return damage(Reason.MAGIC, f"magic {magic} is not supported, expected 2")
    if not window.fill(size):
        return damage(Reason.TORN, f"{window.available} bytes of a batch of {size}")
    batch = read_batch(window.data, window.at)
    batch.position = window.position
    if not batch.crc_is_right():
        return damage(Reason.CRC, f"crc {batch.crc:#010x} does not match the bytes")
    if not expected <= batch.base_offset <= batch.last_offset < end:
        offsets = f"offsets {batch.base_offset} to {batch.last_offset}"
        return damage(Reason.OFFSET, f"{offsets} are out of range ({expected}-{end - 1})")
    return batch


class _Window:
    """The bytes of a file that are in memory now; the file is read in chunks.

    Attributes:
        data: bytes in memory.
        at: index in ``data`` of the next byte to process.
        position: position in the file of the next byte to process.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.data, self.at, self.position = b"", 0, 0
        self._chunks = chunks

    @property
    def available(self) -> int:
        return len(self.data) - self.at

    def fill(self, size: int) -> bool:
        """Read until at least ``size`` bytes are in memory; return False if the file ends earlier."""
        if self.available >= size:
            return True
        parts = [self.data[self.at :]]
        available = self.available
        while available < size and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            available += len(chunk)
        self.data, self.at = b"".join(parts), 0
        return available >= size

    def skip(self, size: int) -> None:
        self.at += size
        self.position += size
