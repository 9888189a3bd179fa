"""The results of reading capture files: blocks of records, parts of files, and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kwire.counted import counted
from kwire.lazy_dataclass import dataclass
from kwire.topic_address import SCHEME

US = 1_000_000
CUT_RECORD = "the file ends inside a record"
CUT_BLOCK = "the file ends inside a block"
CUT = (CUT_RECORD, CUT_BLOCK)  # beginnings of the reasons of truncated files

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Problem:
    """A damaged position in a file, or in a partition of a topic.

    Attributes:
        file: path of the file, or address of the partition.
        position: byte offset of the damage, or offset of the record.
        reason: kind of damage, as text.
        time_us: time of the last record before the damage, in microseconds since 1970; None without such a record.
    """

    file: str
    position: int
    reason: str
    time_us: int | None = None

    def __str__(self) -> str:
        unit = "offset" if self.file.startswith(SCHEME) else "byte"
        return f"{self.file} at {unit} {self.position}: {self.reason}"


# Why packets were skipped.
NOT_IP, NOT_TCP, UNKNOWN_LINK = "not_ip", "not_tcp", "unknown_link"
CUT_HEADERS, BAD_HEADERS, NO_FIRST_FRAGMENT = "cut_headers", "bad_headers", "no_first_fragment"
SNAPLEN = "snaplen"  # not skipped, but truncated
HINTS = {"one_sided": "capture both directions", "tls": "see --keylog"}  # by reason of incompletely decoded connections
RING_FULL = "ring_full"  # not skipped, but lost before they could be read
SKIP_REASONS = {
    NOT_IP: "not IP",
    NOT_TCP: "not TCP",
    UNKNOWN_LINK: "unknown link type",
    CUT_HEADERS: "truncated headers",
    BAD_HEADERS: "invalid lengths in headers",
    NO_FIRST_FRAGMENT: "fragments without a first fragment",
}
LOST = "lost because they arrived faster than they were read, so calls are incomplete or missing"
WHOLE = "truncated by the snap length, so calls are incomplete or missing: capture whole packets (tcpdump -s 0)"


@dataclass(frozen=True, slots=True)
class Skipped:
    """The packets of a file that were skipped, truncated or lost for one reason.

    Attributes:
        file: path of the file.
        packets: number of packets.
        reason: SNAPLEN for truncated packets, RING_FULL for lost packets, or a key of SKIP_REASONS for skipped packets.
    """

    file: str
    packets: int
    reason: str

    @property
    def note(self) -> str:
        """The number of packets and the reason, as text."""
        packets = "packet" if self.packets == 1 else "packets"
        if self.is_damage:
            return f"{self.packets} {packets} {WHOLE if self.reason == SNAPLEN else LOST}"
        return f"{self.packets} {packets} skipped: {SKIP_REASONS[self.reason]}"

    @property
    def is_damage(self) -> bool:
        """Whether the packets were truncated or lost."""
        return self.reason in (SNAPLEN, RING_FULL)

    def __str__(self) -> str:
        return f"{self.file}: {self.note}"


def damage(problems: Iterable[Problem], skipped: Iterable[Skipped]) -> list[Problem | Skipped]:
    """Return the problems that count as damage, sorted by file: damaged positions, and files with truncated or lost
    packets.
    """
    items: list[Problem | Skipped] = [*problems, *(one for one in skipped if one.is_damage)]
    return sorted(items, key=lambda one: (one.file, one.position if isinstance(one, Problem) else inf, one.reason))


def notes(skipped: Iterable[Skipped], remarks: Mapping[str, int]) -> list[str]:
    """Return lines of text about skipped packets and about connections that were not decoded completely.

    Args:
        skipped: skipped packets; truncated and lost packets are ignored, because ``damage`` returns them.
        remarks: number of connections that were not decoded completely, by reason.
    """
    by_file = sorted(skipped, key=lambda one: (one.file, one.reason))
    lines = [str(one) for one in by_file if not one.is_damage]
    for reason, count in sorted(remarks.items()):
        hint = f" ({HINTS[reason]})" if reason in HINTS else ""
        lines.append(f"{counted(count, 'connection')} not decoded completely: {reason}{hint}")
    return lines


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a capture, as an Interface Description Block describes it.

    Attributes:
        link: link type.
        ticks: resolution of times, in clock ticks per second (option if_tsresol).
        shift: seconds to add to times (option if_tsoffset).
        snaplen: snap length, in bytes; 0 for none.
    """

    link: int
    ticks: int = US
    shift: int = 0
    snaplen: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file: the records that begin at ``start`` or later, and before ``stop``.

    Attributes:
        path: path of the file.
        start: byte offset of the first record.
        stop: byte offset of the next part; None for the end of the file.
        order: byte order at ``start``: ``<`` or ``>``, as in the module ``struct``.
        interfaces: interfaces known at ``start``.
        pcapng: True for pcapng, False for pcap.
        packed: True if the file is compressed with gzip.
        damaged: number of damaged positions before ``start``.
        time_us: time of the packet before ``start``, in microseconds since 1970; only for pcapng.
    """

    path: str
    start: int
    stop: int | None
    order: str
    interfaces: tuple[Interface, ...]
    pcapng: bool
    packed: bool = False
    damaged: int = 0
    time_us: int = 0


@dataclass(slots=True)
class Block:
    """Consecutive records of a capture file in memory. Each array has one element for each record.

    Attributes:
        path: path of the file.
        base: position of ``data`` in the file.
        data: bytes of the file that contain the records.
        records: offset of each record in ``data``.
        starts: offset of each packet in ``data``.
        sizes: captured bytes of each packet.
        originals: bytes of each packet on the wire.
        times: time of each packet, in microseconds since 1970.
        links: link type of each packet.
        whole: the file, or the requested part of it.
        then: the part of the file after these records; None if no part may begin there.
    """

    path: str
    base: int
    data: bytes
    records: Ints
    starts: Ints
    sizes: Ints
    originals: Ints
    times: Ints
    links: Ints
    whole: Split  # the file, or the requested part of it
    then: Split | None  # the part after these records, if one may begin there


class Damage(Exception):
    """The error for damage that ends the reading of a file. It contains the position and the reason.

    Args:
        position: position in the decompressed content of the file at which the reading ends.
        reason: description of the damage.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position, self.reason = position, reason


@dataclass(frozen=True, slots=True)
class Lost:
    """A position at which a valid record should begin, with the reason why the record is invalid.

    Attributes:
        position: byte offset in the file.
        reason: the reason, as text.
    """

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class Passed:
    """Bytes that were skipped because of damage.

    Attributes:
        lost: position and reason of the damage.
        size: number of skipped bytes.
        goes_on: True if valid records follow the skipped bytes; False if the damage extends to the end of the data.
    """

    lost: Lost
    size: int
    goes_on: bool


def words(data: bytes, kind: str, offsets: Ints) -> NDArray[Any]:
    """Return an array of the integers at the given byte offsets.

    Args:
        data: captured bytes.
        kind: numpy type of the integers, such as ``<u4``.
        offsets: offsets of the integers in ``data``.
    """
    width = int(kind[-1])
    return np.ndarray((max(len(data) - width + 1, 0),), kind, data, strides=(1,))[offsets]
