"""Capture files in blocks of records: pcap, pcapng, gzip of them, and frame logs.

Memory is bounded by the size of a block, whatever a file says. What cannot be a record is passed over, up to where
records follow each other again, and a Problem tells of it. Offsets count from the start of the file, or of what is in
it if it is gzip'd.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kwire.capture.files.blocks import CUT, Block, Damage, Passed, Problem, Split
from kwire.capture.files.file_systems import is_address, listed, open_at, size_of
from kwire.capture.files.framelog import LoggedFrame, lines, logged
from kwire.capture.files.gzipped import GZIP, opened
from kwire.capture.files.pcap import HEADER, MAGICS, Pcap, whole
from kwire.capture.files.pcapng import PCAPNG, Pcapng
from kwire.capture.limits import BLOCK, MAX_DAMAGES

SUFFIXES = (".pcap", ".pcapng", ".cap", ".dmp", ".jsonl", ".ndjson")  # of files taken out of a folder; also with .gz
PASSED = "; passed over "
GIVEN_UP = f"given up behind {MAX_DAMAGES} damaged places"


def find(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files meant by files and folders, in the order of the first time in them; an address may also be a pattern.

    Raises: OSError.
    """
    found = each(paths)
    return sorted(found, key=first_time) if len(found) > 1 else found


def each(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The same, as they are named. Raises: OSError."""
    found: list[str] = []
    for path in paths:
        if is_address(str(path)):
            found += listed(str(path), _is_capture)
            continue
        given = Path(path)
        if given.is_dir():
            inside = [path for path in sorted(given.rglob("*")) if path.is_file() and _is_capture(path.name)]
            found += [str(path) for path in inside]
        else:
            given.stat()
            found.append(str(given))
    return found


def _is_capture(name: str) -> bool:
    plain = name.lower().removesuffix(".gz")
    return plain.endswith(SUFFIXES) or any(f"{suffix}" in plain for suffix in (".pcap", ".pcapng"))


def no_traffic(paths: Iterable[str], files: Collection[str], ports: Collection[int] = ()) -> str:
    """Why there is no frame in a capture."""
    if not files:
        return f"{', '.join(paths)}: no capture file in it (their names end in .pcap, .pcapng, .cap, .dmp, .jsonl, ...)"
    if ports:
        return f"no Kafka traffic with a broker at port {', '.join(map(str, ports))} in it"
    return "no Kafka traffic in it"


def first_time(path: str) -> int:
    """The time of the first packet or frame in a file, in microseconds; 0 if there is none."""
    file = CaptureFile(path, block=65_536)
    if file.is_log:
        return next((frame.time_us for frame in file.frames()), 0)
    for block in file.blocks():
        if len(block.times):
            return int(block.times[0])
    return 0


@dataclass(slots=True)
class CaptureFile:
    """One file. ``problems`` says, as far as it was read, what is wrong with it; ``reached`` what is left of it behind
    the part that was read to its end."""

    path: str
    block: int = BLOCK
    problems: list[Problem] = field(default_factory=list)
    last_us: int | None = None
    reached: Split | None = field(default=None, init=False)
    _passed: tuple[int, str, int] | None = None  # what was passed over last: from where, why, up to where

    @property
    def size(self) -> int:
        return size_of(self.path)

    @property
    def is_packed(self) -> bool:
        with open_at(self.path) as raw:
            return raw.read(2) == GZIP

    @property
    def is_log(self) -> bool:
        """True for a frame log: its first byte that is no space opens an object."""
        try:
            with open_at(self.path) as raw:
                return bool(opened(raw).read(512).lstrip().startswith(b"{"))
        except (Damage, OSError):
            return False  # read as a capture, it tells why

    def frames(self) -> Iterator[LoggedFrame]:
        """The frames of a frame log; a line that is none is passed over."""
        with open_at(self.path) as raw:
            at = 0
            try:
                for line in lines(opened(raw), self.block):
                    found = self._frame(line, at) if line.strip() else None
                    if found is not None:
                        self.last_us = found.time_us
                        yield found
                    at += len(line)
            except Damage as damage:
                self._tell(damage.position, damage.reason)
            except OSError as error:
                self._tell(at, f"cannot be read: {error.strerror or error}")

    def _frame(self, line: bytes, at: int) -> LoggedFrame | None:
        """The frame of a line. Raises: Damage, if there are too many that are none."""
        try:
            return logged(line, at)
        except Damage as damage:
            self._tell(damage.position, damage.reason)
            if len(self.problems) > MAX_DAMAGES:
                raise Damage(at + len(line), GIVEN_UP) from damage
            return None

    def blocks(self, split: Split | None = None) -> Iterator[Block]:
        """The records, a block at a time; with a split those that begin in it. What cannot be one is passed over."""
        try:
            with open_at(self.path) as raw:
                source = opened(raw)
                if split is None:
                    split = self._whole(source.read(HEADER))
                raw.seek(0)
                if split.packed:
                    source = opened(raw)
                    skip = split.start
                    while skip:
                        skip -= len(source.read(skip)) or skip
                else:
                    raw.seek(split.start)
                    source = raw
                yield from self._records(source, split)
        except Damage as damage:
            self._tell(damage.position, damage.reason)
        except OSError as error:
            self._tell(0, f"cannot be read: {error.strerror or error}")

    def _whole(self, head: bytes) -> Split:
        """All of a file with these first bytes. Raises: Damage."""
        if head[:4] == PCAPNG:
            return Split(self.path, 0, None, "<", (), True, self.is_packed)
        if head[:4] not in MAGICS:
            raise Damage(0, f"not a capture: it begins with {head[:8].hex(' ')}" if head else "an empty file")
        if len(head) < HEADER:
            raise Damage(len(head), "the file ends inside its header")
        return whole(self.path, head, self.is_packed)

    def _records(self, source: Any, split: Split) -> Iterator[Block]:
        """Raises: Damage, if the source ends with it or too much else was passed over."""
        walk = Pcapng(split) if split.pcapng else Pcap(split)
        if split.time_us > 0:
            self.last_us = split.time_us
        data, base, size, final, enough = b"", split.start, self.block, False, False
        broken: Damage | None = None
        if split.stop is not None:
            size = min(size, split.stop - split.start + 65_536)
        while not walk.done and (data or not final):
            if not final and not enough:
                more = rest = b""
                try:
                    more = source.read(size)
                    rest = source.read(size - len(more)) if len(more) < size else b""
                    final = len(more) < size and not rest
                except Damage as damage:
                    broken, final = damage, True
                data = b"".join((data, more, rest)) if data or rest else more
            if walk.lost is None:
                block, used = walk.block(data, base, final)
                passed, enough = None, walk.lost is not None
            else:
                block, used, passed = walk.again(data, base, final)
                enough = passed is not None
            if block is not None:
                self.last_us = int(block.times[-1])
                yield block
            if passed is not None and not (broken and not passed.goes_on and passed.lost.reason.startswith(CUT)):
                walk.damaged += self._pass(passed)
                if walk.damaged > MAX_DAMAGES:
                    raise Damage(base + used, GIVEN_UP)
            base += used
            data = data[used:]
            size = max(self.block, BLOCK if walk.lost else 0, 0 if used else 2 * len(data))
        self.reached = walk.then(base)
        if broken:
            raise broken

    def _pass(self, passed: Passed) -> bool:
        """Tell of bytes that were passed over; False if it is the same again, right behind the last time."""
        position, reason, size = passed.lost.position, passed.lost.reason, passed.size
        is_same = self._passed is not None and self._passed[1:] == (reason, position)
        if is_same and self._passed:
            size += position - self._passed[0]
            position = self._passed[0]
            self.problems.pop()
        self._passed = (position, reason, position + size)
        if not reason.startswith(CUT) or passed.goes_on:
            reason += f"{PASSED}{size} bytes and {'went on' if passed.goes_on else 'found nothing behind it'}"
        self._tell(position, reason)
        return not is_same

    def _tell(self, position: int, reason: str) -> None:
        self.problems.append(Problem(self.path, position, reason, self.last_us))
