"""Capture files, read in blocks of records: pcap and pcapng, plain or compressed with gzip, and frame logs.

A partition of a topic with a recording is read like a frame log.

Memory is limited by the block size, even if lengths in a file are wrong. Bytes that are not a valid record are skipped
up to the next valid records, and reported as a Problem. Offsets count bytes of the file; in a gzip file they count
bytes of the decompressed content.
"""

from __future__ import annotations

import errno
import os
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from kwire.capture.files import topic
from kwire.capture.files.blocks import CUT, Block, Damage, Passed, Problem, Split
from kwire.capture.files.file_systems import is_address, listed, open_at, size_of
from kwire.capture.files.framelog import LoggedFrame, lines, logged
from kwire.capture.files.gzipped import GZIP, opened
from kwire.capture.files.pcap import HEADER, MAGICS, Pcap, whole
from kwire.capture.files.pcapng import PCAPNG, Pcapng
from kwire.capture.limits import BLOCK, MAX_DAMAGES
from kwire.capture.tls.keylog import KeyLog
from kwire.lazy_dataclass import dataclass
from kwire.topic_address import is_partition, is_topic

SUFFIXES = (".pcap", ".pcapng", ".cap", ".dmp", ".jsonl", ".ndjson")  # of files read from a folder; also with .gz
STDIN = "-"  # path of a capture that arrives on stdin
PASSED = "; skipped "
NO_PIPE = "a pipe can be read only as stdin: redirect it to stdin, and use - instead of its path"
NO_STREAM = "stdin is not pcap or pcapng: decompress gzip with zcat, and read frame logs as files"
GIVEN_UP = f"stopped after {MAX_DAMAGES} damaged places"


def find(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the capture files that paths refer to, ordered by the time of their first packet.

    Raises: OSError if a file or a folder cannot be read.

    ``paths``: files, folders, and addresses; the address of a file may be a pattern.
    """
    files = each(paths)
    return sorted(files, key=first_time) if len(files) > 1 else files


def each(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the capture files that paths refer to, in the order of the paths; the files of a folder are ordered by
    name. Each partition of a topic is a file. A file with several paths, such as a symbolic link to it, is returned
    once.

    Raises: OSError if a file or a folder cannot be read, or for a pipe.

    ``paths``: files, folders and addresses. ``-`` (stdin) is returned unchanged.
    """
    files: list[str] = []
    for path in paths:
        if path == STDIN:
            files.append(STDIN)
            continue
        if is_topic(str(path)):
            files += topic.partitions(str(path))
            continue
        if is_partition(str(path)):
            files.append(str(path))
            continue
        if is_address(str(path)):
            files += listed(str(path), _is_capture)
            continue
        local = Path(path)
        if local.is_dir():
            inside = [path for path in sorted(local.rglob("*")) if path.is_file() and _is_capture(path.name)]
            files += [str(path) for path in inside]
        else:
            if stat.S_ISFIFO(local.stat().st_mode):  # files are opened several times, which a pipe does not permit
                raise OSError(errno.ESPIPE, NO_PIPE, str(path))
            files.append(str(local))
    return _without_repeats(files)


def _without_repeats(files: Iterable[str]) -> list[str]:
    """Return the paths of different files: the first path of each file, or the first that is no symbolic link."""
    found: dict[str, str] = {}
    for path in files:
        file = path if path == STDIN or is_address(path) else os.path.realpath(path)
        if file not in found or (os.path.islink(found[file]) and not os.path.islink(path)):
            found[file] = path
    return list(found.values())


def _is_capture(name: str) -> bool:
    plain = name.lower().removesuffix(".gz")
    return plain.endswith(SUFFIXES) or any(f"{suffix}" in plain for suffix in (".pcap", ".pcapng"))


def no_traffic(paths: Iterable[str], files: Collection[str], ports: Collection[int] = ()) -> str:
    """Return the error message for a capture that contains no Kafka frames.

    Args:
        paths: paths on the command line.
        files: capture files that were found in the paths.
        ports: ports of brokers on the command line; empty for all.
    """
    if not files:
        return f"{', '.join(paths)}: no capture files (names ending in .pcap, .pcapng, .cap, .dmp, .jsonl, ...)"
    if ports:
        return f"no Kafka traffic with a broker at port {', '.join(map(str, ports))} in the captures"
    return "no Kafka traffic in the captures"


def first_time(path: str) -> int:
    """Return the time of the first packet or frame in a file, in microseconds since 1970; 0 for a file without
    packets.
    """
    file = CaptureFile(path, block=65_536)
    if file.is_log:
        return next((frame.time_us for frame in file.frames()), 0)
    for block in file.blocks():
        if len(block.times):
            return int(block.times[0])
    return 0


@dataclass(slots=True)
class CaptureFile:
    """A reader of one capture file.

    Attributes:
        path: path or address.
        block: bytes per read.
        problems: damage found so far.
        last_us: time of the last packet or frame so far, in microseconds since 1970; None before the first.
        keylog: key log to which the TLS secrets in a pcapng file are added.
        stream: stream from which the capture is read, instead of the file at ``path``; None to read the file. A stream
            can be read only once, and each read returns the bytes that have arrived.
        reached: the rest of the file after the requested part; None until the part was read completely.
    """

    path: str
    block: int = BLOCK
    problems: list[Problem] = field(default_factory=list)
    last_us: int | None = None
    stream: Any = None
    keylog: KeyLog = field(default_factory=KeyLog)
    reached: Split | None = field(default=None, init=False)
    _passed: tuple[int, str, int] | None = None  # the last skipped range: start, reason, end

    @property
    def size(self) -> int:
        """Size in bytes; 0 for a partition."""
        return 0 if is_partition(self.path) else size_of(self.path)

    @property
    def is_packed(self) -> bool:
        if self.stream is not None:
            return False
        with open_at(self.path) as raw:
            return raw.read(2) == GZIP

    @property
    def is_log(self) -> bool:
        """Whether the file is a frame log, whose first character is ``{``, or a partition."""
        if self.stream is not None:
            return False
        if is_partition(self.path):
            return True
        try:
            with open_at(self.path) as raw:
                return bool(opened(raw).read(512).removeprefix(BOM_UTF8).lstrip().startswith(b"{"))
        except (Damage, OSError):
            return False  # reading it as a capture reports the reason

    def frames(self) -> Iterator[LoggedFrame]:
        """Yield the frames of a frame log or of a partition.

        Invalid lines and records are skipped and reported in ``problems``. A read error is reported, too, and ends the
        iteration.
        """
        try:
            yield from self._records_of_topic() if is_partition(self.path) else self._lines()
        except Damage as damage:
            self._report(damage.position, damage.reason)

    def _lines(self) -> Iterator[LoggedFrame]:
        with open_at(self.path) as raw:
            at = 0
            try:
                for line in lines(opened(raw), self.block):
                    text = line if at else line.removeprefix(BOM_UTF8)
                    frame = self._frame(at + len(line), logged, text, at) if text.strip() else None
                    if frame is not None:
                        yield frame
                    at += len(line)
            except OSError as error:
                self._report(at, f"read error: {error.strerror or error}")

    def _records_of_topic(self) -> Iterator[LoggedFrame]:
        at = 0
        try:
            for at, value, headers in topic.records(self.path):
                frame = self._frame(at + 1, topic.logged_record, value, headers, at)
                if frame is not None:
                    yield frame
        except OSError as error:
            self._report(at, f"read error: {error.strerror or error}")

    def _frame(self, end: int, decode: Callable[..., LoggedFrame], *record: Any) -> LoggedFrame | None:
        """Return the frame in a line or a record; None if it is invalid.

        Args:
            end: position after the line or the record.
            decode: function that returns the frame.
            record: arguments of ``decode``.

        Raises: Damage after too many invalid lines or records.
        """
        try:
            frame = decode(*record)
        except Damage as damage:
            self._report(damage.position, damage.reason)
            if len(self.problems) > MAX_DAMAGES:
                raise Damage(end, GIVEN_UP) from damage
            return None
        self.last_us = frame.time_us
        return frame

    def blocks(self, split: Split | None = None) -> Iterator[Block]:
        """Yield the records of the file in blocks; with ``split``, only the records that begin in this part.

        Invalid bytes are skipped and reported in ``problems``. A read error is reported, too, and ends the iteration.
        """
        try:
            if self.stream is not None:
                yield from self._streamed()
                return
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
            self._report(damage.position, damage.reason)
        except OSError as error:
            self._report(0, f"read error: {error.strerror or error}")

    def _streamed(self) -> Iterator[Block]:
        """Yield the records of a stream as they arrive. Raises: Damage if the stream is not a pcap or pcapng."""
        head = b""
        while len(head) < HEADER and (more := self.stream.read(HEADER - len(head))):
            head += more
        if head.startswith((GZIP, b"{")):
            raise Damage(0, NO_STREAM)
        split = self._whole(head)
        yield from self._records(_Continued(head[split.start :], self.stream), split)

    def _whole(self, head: bytes) -> Split:
        """Return a Split that contains the whole file.

        ``head``: first bytes of the file. Raises: Damage if the file is not a capture.
        """
        if head[:4] == PCAPNG:
            return Split(self.path, 0, None, "<", (), True, self.is_packed)
        if head[:4] not in MAGICS:
            reason = f"not a capture (pcap, pcapng or frame log): first bytes {head[:8].hex(' ')}"
            raise Damage(0, reason if head else "the file is empty")
        if len(head) < HEADER:
            raise Damage(len(head), f"the file has {len(head)} bytes, below the {HEADER} bytes of a pcap header")
        return whole(self.path, head, self.is_packed)

    def _records(self, source: Any, split: Split) -> Iterator[Block]:
        """Yield the blocks of records in a part of the file. At the end of the part, set ``reached``.

        Args:
            source: the opened file or stream, positioned at ``split.start``.
            split: the part of the file.

        Raises: Damage at an error that ends the file, or after too many skipped ranges.
        """
        walk = Pcapng(split, self.keylog.add) if split.pcapng else Pcap(split)
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
                    if self.stream is not None:
                        final = not more
                    else:
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
                walk.damaged += self._report_skipped(passed)
                if walk.damaged > MAX_DAMAGES:
                    raise Damage(base + used, GIVEN_UP)
            base += used
            data = data[used:]
            size = max(self.block, BLOCK if walk.lost else 0, 0 if used else 2 * len(data))
        self.reached = walk.then(base)
        if broken:
            raise broken

    def _report_skipped(self, passed: Passed) -> bool:
        """Add skipped bytes to ``problems``, and return True.

        If the skipped bytes only extend the damage that was reported last, extend the last problem and return False.
        """
        position, reason, size = passed.lost.position, passed.lost.reason, passed.size
        is_same = self._passed is not None and self._passed[1:] == (reason, position)
        if is_same and self._passed:
            size += position - self._passed[0]
            position = self._passed[0]
            self.problems.pop()
        self._passed = (position, reason, position + size)
        if not reason.startswith(CUT) or passed.goes_on:
            reason += f"{PASSED}{size} bytes and {'continued' if passed.goes_on else 'found no further record'}"
        self._report(position, reason)
        return not is_same

    def _report(self, position: int, reason: str) -> None:
        self.problems.append(Problem(self.path, position, reason, self.last_us))


class _Continued:
    """A stream that starts with bytes that were already read. ``head``: the bytes that were read; ``stream``: the rest
    of the stream.
    """

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head, self._stream = head, stream

    def read(self, size: int) -> bytes:
        head, self._head = self._head, b""
        return head or self._stream.read(size) or b""
