"""The segments of one connection, one after the other, into rows: what a task of Spark does, in batches and in streams.

Payload is not handed over but read from the file when a conversation wants it, so what nobody looks into is not read.
Nothing here knows of Spark.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from uuid import uuid4

from kwire.analysis import extract, topics, transactions, unread, usage
from kwire.analysis.clusters import saying_of
from kwire.analysis.events import GroupEvent
from kwire.analysis.frames import connection_row, frame_row, problem_row
from kwire.analysis.what_if import evidence
from kwire.capture.calls.conversation import Conversation, Row
from kwire.capture.calls.model import Call
from kwire.capture.files.file_systems import below, file_system, open_at
from kwire.capture.files.gzipped import GZIP
from kwire.capture.tcp.segments import SYN, unpack_key
from kwire.spark.bundles import COUNTED, Rows

AT_ONCE = 262_144  # bytes read at a time, of the packets of one connection
FOREIGN = 8  # of what is read at once, one part in so many may be packets of other connections
OPEN_FILES = 16
SEALED = 36  # bytes of the key of a TCP connection; a key of another length names a connection of a frame log


def log_key(connection: str, client: str, broker: str) -> bytes:
    """The key of a connection in a frame log."""
    return json.dumps([connection, client, broker]).encode().ljust(SEALED + 1)


def unpacked_at(folder: str, path: str) -> str:
    """Where what is in a gzip'd file is, unpacked."""
    return below(folder, hashlib.sha256(path.encode()).hexdigest())


class Spool:
    """Writes what is in a gzip'd file; it is in its place once it is whole, whoever else did the same."""

    def __init__(self, folder: str, path: str) -> None:
        self.files, self._place = file_system(unpacked_at(folder, path))
        self._draft = f"{self._place}.{uuid4().hex}"
        self.files.create_dir(self._place.rpartition("/")[0], recursive=True)
        self._stream = self.files.open_output_stream(self._draft)
        self._size = 0

    def add(self, data: bytes, base: int) -> None:
        """Bytes from ``base`` on, of which some may have been there before. What is skipped is zeros."""
        if base > self._size:
            self._stream.write(bytes(base - self._size))
            self._size = base
        more = memoryview(data)[self._size - base :]
        self._stream.write(more)
        self._size += len(more)

    def close(self) -> None:
        self._stream.close()
        self.files.move(self._draft, self._place)


def reaches(files: Sequence[int], positions: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """For each segment of a connection, up to where the file may be read with it: the end of a segment.

    What lies between are headers, and packets of other connections where these are few. So all connections together
    read each byte of a file once, and one part in FOREIGN of it again. ``positions``: of their records in the file.
    """
    found = [0] * len(starts)
    first, begin, end, foreign = 0, 0, 0, 0
    for n, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        position = min(positions[n], start)
        gap = position - end
        goes_on = n > 0 and files[n] == files[n - 1] and gap >= 0 and start + size - begin <= AT_ONCE
        if goes_on and (foreign + gap) * FOREIGN <= end - begin:
            foreign += gap
        else:
            found[first:n] = [end] * (n - first)
            first, begin, foreign = n, start, 0
        end = start + size
    found[first:] = [end] * (len(found) - first)
    return found


class Payloads:
    """Bytes of files by their place; as a ``Sliced`` those of the file that ``of`` chose last.

    ``unpacked``: the folder of what is in those that are gzip'd.
    """

    def __init__(self, paths: Sequence[str], unpacked: str | None = None) -> None:
        self.paths = paths
        self.unpacked = unpacked
        self._open: OrderedDict[int, BinaryIO] = OrderedDict()
        self._file = -1
        self._begin, self._data = 0, b""
        self._until = 0

    def of(self, file: int, until: int = 0) -> Payloads:
        """Those of the file with this number; what is read next may be read up to ``until``, see ``reaches``."""
        self._until = until
        if file != self._file:
            if file not in self._open:
                if len(self._open) >= OPEN_FILES:
                    self._open.popitem(last=False)[1].close()
                self._open[file] = self._opened(self.paths[file])
            self._open.move_to_end(file)
            self._file = file
            self._begin, self._data = 0, b""
        return self

    def _opened(self, path: str) -> BinaryIO:
        raw = open_at(path, exact=True)
        if self.unpacked and raw.read(2) == GZIP:
            raw.close()
            raw = open_at(unpacked_at(self.unpacked, path), exact=True)
        return raw

    def __getitem__(self, part: slice) -> bytes:
        start, stop = part.start, part.stop
        begin = start - self._begin
        if begin < 0 or stop - self._begin > len(self._data):
            raw = self._open[self._file]
            raw.seek(start)
            self._data = raw.read(max(stop, self._until) - start)
            self._begin, begin = start, 0
        return self._data[begin : begin + stop - start]

    def close(self) -> None:
        """Close the files."""
        while self._open:
            self._open.popitem()[1].close()
        self._file = -1


@dataclass(slots=True)
class Following:
    """What goes on between two ends: one connection after the other. It can be pickled between two segments."""

    key: bytes
    capture_id: str
    conversation: Conversation | None = None
    counts: usage.Usage = field(default_factory=lambda: usage.Usage({}))
    said: set[Any] = field(default_factory=set)  # what the connection told of its cluster
    watch: unread.Watch = field(default_factory=unread.Watch)

    def segment(self, row: Row, source: Any, base: int, path: str, found: Rows) -> None:
        """The next segment; its payload begins at ``row.start - base`` of ``source``."""
        conversation = self.conversation
        if conversation is None or ((row.flags & SYN or conversation.done) and conversation.is_another(row)):
            self.finish(found)
            conversation = self.conversation = Conversation(unpack_key(self.key), row)
        conversation.segment(row, source, base, path)

    def frame(self, to_broker: bool, frame: bytes, time_us: int, path: str, position: int) -> None:
        """The next frame, out of a frame log."""
        if self.conversation is None:
            name, client, broker = json.loads(self.key)
            self.conversation = Conversation.logged(name, client, broker, time_us)
        self.conversation.frame(to_broker, frame, time_us, path, position)

    def collect_complete(self, found: Rows) -> None:
        """Rows of what is complete by now."""
        if self.conversation is None:
            return
        for call in self.conversation.taken():
            refused = usage.refusals(call)
            found["frames"].append(frame_row(call, self.capture_id, refused))
            found["names"] += topics.topic_names(call).items()
            found["marks"] += topics.watermarks(call)
            found["endings"] += transactions.endings(call)
            happened = extract.events_of(call)
            found["events"] += happened
            self.watch.note(call, happened)
            self.notice(call, happened, found)
            saying = saying_of(call)
            if saying is not None and saying.content not in self.said:
                self.said.add(saying.content)
                found["sayings"].append(saying)
            self.counts.add(call, refused)
        found["waits"] += self.counts.take_waits()

    def notice(self, call: Call, happened: Sequence[GroupEvent], found: Rows) -> None:
        """What else is wanted of a call. ``happened``: its events."""

    def finish(self, found: Rows) -> None:
        """No more comes of the connection."""
        if self.conversation is None:
            return
        connection = self.conversation.finish()
        self.collect_complete(found)
        found["connections"].append(connection_row(connection, self.capture_id))
        if (remark := connection.remark) is not None:
            found["problems"].append(problem_row(connection, self.capture_id))
            found["remarks"].append(remark[0])
        found["unread"] += self.watch.finish(connection)
        software = {"software_name": connection.software_name, "software_version": connection.software_version}
        found["errors"] += self.counts.refused(self.capture_id)
        counted = self.counts.rows(self.capture_id, {})
        for name in COUNTED:
            found[name] += [row | software for row in counted[name]]
        self.conversation, self.counts, self.said, self.watch = None, usage.Usage({}), set(), unread.Watch()


@dataclass(slots=True)
class Witness(Following):
    """The same, for groups that are replayed: it tells what they subscribed to, and the sizes of topics."""

    fresh: evidence.Fresh = field(default_factory=evidence.Fresh)

    def notice(self, call: Call, happened: Sequence[GroupEvent], found: Rows) -> None:
        subscribed = list(evidence.subscribed(call))
        found["subscribed"] += subscribed
        found["sizes"] += self.fresh.of(evidence.sizes(call))
        found["wanted"] += evidence.wanted(subscribed, happened)
