"""What the readers of capture files hand on: records in blocks, parts of files, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

US = 1_000_000
CUT = "the file ends inside a record"

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a file, and where. ``time_us``: of the last record before, if there was one."""

    file: str
    position: int
    reason: str
    time_us: int | None = None

    def __str__(self) -> str:
        return f"{self.file} at byte {self.position}: {self.reason}"


# Why packets were passed over.
NOT_IP, NOT_TCP, UNKNOWN_LINK = "not_ip", "not_tcp", "unknown_link"
CUT_HEADERS, BAD_HEADERS, NO_FIRST_FRAGMENT = "cut_headers", "bad_headers", "no_first_fragment"
SNAPLEN = "snaplen"  # not passed over, but not all of them is there
PASSED_OVER = {
    NOT_IP: "not IP",
    NOT_TCP: "not TCP",
    UNKNOWN_LINK: "of a link type that is not known",
    CUT_HEADERS: "cut before the end of their headers",
    BAD_HEADERS: "the lengths in their headers cannot be",
    NO_FIRST_FRAGMENT: "fragments of packets whose first was not seen",
}
WHOLE = "cut by the snap length of the capture, calls are incomplete or missing: capture whole packets (tcpdump -s 0)"


@dataclass(frozen=True, slots=True)
class Skipped:
    """Packets of a file that were not looked at, or not all of them; ``reason``: a key of PASSED_OVER, or SNAPLEN."""

    file: str
    packets: int
    reason: str

    @property
    def note(self) -> str:
        """How many, and why, in words."""
        packets = "packet" if self.packets == 1 else "packets"
        if self.is_damage:
            return f"{self.packets} {packets} {WHOLE}"
        return f"{self.packets} {packets} passed over: {PASSED_OVER[self.reason]}"

    @property
    def is_damage(self) -> bool:
        """Whether what was captured is not all that was asked for."""
        return self.reason == SNAPLEN

    def __str__(self) -> str:
        return f"{self.file}: {self.note}"


def damage(problems: Iterable[Problem], skipped: Iterable[Skipped]) -> list[Problem | Skipped]:
    """What is damaged, by file: places in it, and that its packets were cut."""
    found: list[Problem | Skipped] = [*problems, *(one for one in skipped if one.is_damage)]
    return sorted(found, key=lambda one: (one.file, one.position if isinstance(one, Problem) else inf, one.reason))


def notes(skipped: Iterable[Skipped], remarks: Mapping[str, int]) -> list[str]:
    """What was passed over, a line each. ``remarks``: by the reason, connections of which not all could be read."""
    by_file = sorted(skipped, key=lambda one: (one.file, one.reason))
    told = [str(one) for one in by_file if not one.is_damage]
    for reason, count in sorted(remarks.items()):
        told.append(f"{count} {'connection' if count == 1 else 'connections'} not read in full: {reason}")
    return told


@dataclass(frozen=True, slots=True)
class Interface:
    """Of a capture: link type, ticks per second, seconds to add, bytes kept of a packet (0: all)."""

    link: int
    ticks: int = US
    shift: int = 0
    snaplen: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file: the records that begin from ``start`` up to ``stop``; ``order`` and ``interfaces`` as they are
    there, ``stop`` None for the end of the file."""

    path: str
    start: int
    stop: int | None
    order: str
    interfaces: tuple[Interface, ...]
    pcapng: bool
    packed: bool = False
    damaged: int = 0  # places before it that were
    time_us: int = 0  # of the packet before it, in a pcapng


@dataclass(slots=True)
class Block:
    """Records in one piece of memory. ``base``: where ``data`` begins in the file; the rest is one entry a record.

    ``records`` is where each begins in ``data``, ``starts`` where its packet does; ``sizes`` is what was captured,
    ``originals`` what was on the wire; ``times`` are microseconds.
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
    whole: Split  # of the file, or the part that was asked for
    then: Split | None  # from behind these records on, if a part of the file may begin there


class Damage(Exception):
    """Ends a file: what is wrong, and at which byte."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position, self.reason = position, reason


@dataclass(frozen=True, slots=True)
class Lost:
    """A place in the file at which no record is, and why not."""

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class Passed:
    """How many bytes were passed over for that; whether records follow."""

    lost: Lost
    size: int
    goes_on: bool


def words(data: bytes, kind: str, offsets: Ints) -> NDArray[Any]:
    """Integers that begin at any bytes."""
    width = int(kind[-1])
    return np.ndarray((len(data) - width + 1,), kind, data, strides=(1,))[offsets]
