"""What a partition's directory holds, by its names, and what a segment holds, by its bytes. Opens no file itself.

Source: Kafka's UnifiedLog.parseTopicPartitionName, LogFileUtils, LogLoader, LogSegment.recover, FileLogInputStream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kwire.limits import MAX_FRAME
from kwire.records.batch import HEADER, MAGIC_AT, PREFIX, Batch, read_batch

PIECE = 1024 * 1024  # bytes that are read of a file at a time
MAX_BATCH = MAX_FRAME  # bytes of a batch: one that is larger came in no request, so its length is damaged
OFFSETS_IN_A_SEGMENT = 2**31  # indexes keep offsets as int32, from the one that is the name of the file

LOG = ".log"
DELETED, CLEANED, SWAP = ".deleted", ".cleaned", ".swap"


class Kind(Enum):
    """What a directory of a partition is there for; the value is the end of its name."""

    LIVE = ""
    DELETED = "-delete"  # the topic is gone, the files will be
    FUTURE = "-future"  # a copy on its way to this disk
    STRAY = "-stray"  # the broker is no replica of it any longer


class Directory(NamedTuple):
    """What the name of a partition's directory says."""

    topic: str
    partition: int
    kind: Kind = Kind.LIVE


_DIRECTORY = re.compile(r"(?P<topic>\S+)-(?P<partition>\d{1,10})", re.ASCII)
_SET_ASIDE = re.compile(rf"{_DIRECTORY.pattern}\.[^\s.]+(?P<kind>-delete|-future|-stray)", re.ASCII)
_FILE = re.compile(r"(?P<base>\d{20})(?P<rest>\..+)", re.ASCII)


def directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parsed_directory(name: str) -> Directory | None:
    """``billing-3``, ``billing-3.<id>-delete``; None if it is no partition's."""
    if found := _SET_ASIDE.fullmatch(name):
        return Directory(found["topic"], int(found["partition"]), Kind(found["kind"]))
    if found := _DIRECTORY.fullmatch(name):
        return Directory(found["topic"], int(found["partition"]))
    return None


def segment_name(base_offset: int, suffix: str = LOG) -> str:
    """Its file, or with another suffix (``.index``, ``.timeindex``, ``.log.swap``) what stands beside it."""
    return f"{base_offset:020}{suffix}"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a partition as a start of Kafka sees them. ``segments``, ``swaps``: base offset -> name, in order.

    ``swaps``: segments that compaction or a split had finished when the broker went down. They take the place of all
    segments that begin within their offsets; that takes a look into the last of them, then ``swapped``.
    ``dropped``: what such a start removes unread.
    """

    segments: dict[int, str] = field(default_factory=dict)
    swaps: dict[int, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)

    def swapped(self, end: int) -> Files:
        """With the swaps in place. ``end``: the offset behind the last record in them."""
        if not self.swaps:
            return self
        begin = min(self.swaps)
        replaced = [base for base in self.segments if begin <= base < end]
        kept = {base: name for base, name in self.segments.items() if base not in replaced}
        return Files(
            dict(sorted((kept | self.swaps).items())), {}, self.dropped + [self.segments[base] for base in replaced]
        )


def sorted_files(names: Iterable[str]) -> Files:
    """What is to be read of a directory that holds these files. Indexes and other files of a broker are left out."""
    logs: dict[str, dict[int, str]] = {LOG: {}, LOG + SWAP: {}}
    unfinished: list[int] = []  # segments that compaction had not finished: it begins anew
    dropped: list[str] = []
    for name in sorted(names):
        if (found := _FILE.fullmatch(name)) is None:
            continue
        base, rest = int(found["base"]), found["rest"]
        if rest in logs:
            logs[rest][base] = name
        elif rest.endswith(CLEANED):
            unfinished.append(base)
            dropped.append(name)
        elif rest.endswith(DELETED):
            dropped.append(name)
    # A swap behind an unfinished segment belongs to a split that did not end; what it is made of is still there.
    swaps: dict[int, str] = {}
    for base, name in logs[LOG + SWAP].items():
        if unfinished and base >= min(unfinished):
            dropped.append(name)
        else:
            swaps[base] = name
    return Files(logs[LOG], swaps, dropped)


class Reason(Enum):
    TORN = "torn"  # the file ends within the batch
    LENGTH = "length"
    MAGIC = "magic"
    CRC = "crc"
    OFFSET = "offset"  # not behind the batch before, or not of this segment


@dataclass(frozen=True, slots=True)
class Damage:
    """Where the whole batches of a segment end, and why. ``text``: for people.

    ``position``: byte of the segment; everything before it is whole. ``offset``: that of the next record expected.
    """

    position: int
    offset: int
    reason: Reason
    text: str


def read_segment(pieces: Iterable[bytes], base_offset: int) -> Iterator[Batch | Damage]:
    """The whole batches of a segment, in order; if something else follows, a Damage last.

    ``pieces``: the bytes of the file, from its beginning; no more than a batch and a piece are held at a time.
    ``base_offset``: the offset that is the name of the file. Positions are bytes of the file. Records are not opened.
    """
    end = base_offset + OFFSETS_IN_A_SEGMENT
    window = _Window(iter(pieces))
    while window.holds(1):
        if isinstance(found := _next_batch(window, base_offset, end), Damage):
            yield found
            return
        window.skip(len(found.data))
        base_offset = found.last_offset + 1
        yield found


def _next_batch(window: _Window, expected: int, end: int) -> Batch | Damage:
    def damage(reason: Reason, text: str) -> Damage:
        return Damage(window.position, expected, reason, text)

    if not window.holds(MAGIC_AT + 1):
        return damage(Reason.TORN, f"{window.left} bytes of a batch header of {HEADER.size}")
    size = PREFIX + int.from_bytes(window.data[window.at + 8 : window.at + PREFIX], "big", signed=True)
    magic = int.from_bytes(window.data[window.at + MAGIC_AT : window.at + MAGIC_AT + 1], "big", signed=True)
    # All magics have their length and their magic in the same places.
    if size <= MAGIC_AT or (magic == 2 and size < HEADER.size) or size > MAX_BATCH:
        return damage(Reason.LENGTH, f"a batch cannot have {size} bytes")
    if magic != 2:
        return damage(Reason.MAGIC, f"magic {magic}, not 2")
    if not window.holds(size):
        return damage(Reason.TORN, f"{window.left} bytes of a batch of {size}")
    batch = read_batch(window.data, window.at)
    batch.position = window.position
    if not batch.crc_is_right():
        return damage(Reason.CRC, f"crc {batch.crc:#010x} does not match the bytes")
    if not expected <= batch.base_offset <= batch.last_offset < end:
        told = f"offsets {batch.base_offset} to {batch.last_offset}"
        return damage(Reason.OFFSET, f"{told}, expected from {expected} on and below {end}")
    return batch


class _Window:
    """A part of a file that moves on: ``data`` from ``at`` on, which is byte ``position`` of the file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.data, self.at, self.position = b"", 0, 0
        self._pieces = pieces

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def holds(self, size: int) -> bool:
        """True if so many bytes are there, after reading on as far as that takes."""
        if self.left >= size:
            return True
        parts = [self.data[self.at :]]
        have = self.left
        while have < size and (piece := next(self._pieces, b"")):
            parts.append(piece)
            have += len(piece)
        self.data, self.at = b"".join(parts), 0
        return have >= size

    def skip(self, size: int) -> None:
        self.at += size
        self.position += size
