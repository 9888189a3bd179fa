"""Conversion of the TCP segments of one connection to table rows, for Spark tasks of batch and streaming jobs.

Payload does not pass through Spark (for exceptions, see ``source``): the task that decodes a connection reads its
payload from the capture file. Payload of connections that are not decoded is not read. This module does not depend on
Spark.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO
from uuid import uuid4

from kwire.analysis.events import GroupEvent
from kwire.analysis.what_if import evidence
from kwire.capture.calls.conversation import Conversation, Parts, Row, Sliced
from kwire.capture.calls.exchange import FrameOfLog
from kwire.capture.calls.model import Call
from kwire.capture.files.file_systems import below, file_system, open_at
from kwire.capture.files.gzipped import GZIP
from kwire.capture.tcp.segments import SYN, unpack_key
from kwire.capture.tls.keylog import KeyLog
from kwire.spark.bundles import Rows
from kwire.spark.folding import CallFold, Slicer

AT_ONCE = 262_144  # bytes per read of the packets of one connection
FOREIGN = 8  # at most 1/FOREIGN of the bytes of one read may belong to other connections
OPEN_FILES = 16
SEALED = 36  # length of the key of a TCP connection; keys of other lengths are of frame logs


def log_key(connection: str, client: str, broker: str) -> bytes:
    """Return the key of a connection in a frame log: a JSON list as bytes.

    The key is padded so that it is longer than the key of any TCP connection.

    Args:
        connection: text that identifies the connection in the frame log.
        client: ``host:port`` of the client.
        broker: ``host:port`` of the broker.
    """
    return json.dumps([connection, client, broker]).encode().ljust(SEALED + 1)


def unpacked_at(folder: str, path: str) -> str:
    """Return the path of the file into which a gzip file is decompressed.

    Args:
        folder: folder of decompressed files.
        path: path of the gzip file.
    """
    return below(folder, hashlib.sha256(path.encode()).hexdigest())


class Spool:
    """A writer of the decompressed content of a gzip file.

    It writes a temporary file, and ``close`` renames this file. So several tasks can decompress the same gzip file at
    the same time.

    Args:
        folder: folder of decompressed files.
        path: path of the gzip file.
    """

    def __init__(self, folder: str, path: str) -> None:
        self.files, self._place = file_system(unpacked_at(folder, path))
        self._draft = f"{self._place}.{uuid4().hex}"
        self.files.create_dir(self._place.rpartition("/")[0], recursive=True)
        self._stream = self.files.open_output_stream(self._draft)
        self._size = 0

    def add(self, data: bytes, base: int) -> None:
        """Write decompressed bytes at an offset of the file, and fill a gap before them with zeros.

        Args:
            data: bytes to write. Bytes at offsets that were already written are ignored.
            base: offset of the first byte of ``data``, from the beginning of the decompressed content.
        """
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
    """Return for each segment of a connection the end of the file range in which the segment is read.

    Segments that are close together in the file are read as one range, of at most AT_ONCE bytes if it has several
    segments. A range ends where a segment ends. It may include headers, and a few packets of other connections: at most
    1/FOREIGN of a range belongs to no segment of this connection.

    Args:
        files: file number of each segment.
        positions: position of the packet record of each segment in the file.
        starts: position of the payload of each segment in the file.
        sizes: captured bytes of each payload.
    """
    ends = [0] * len(starts)
    first, begin, end, foreign = 0, 0, 0, 0
    for n, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        position = min(positions[n], start)
        gap = position - end
        goes_on = n > 0 and files[n] == files[n - 1] and gap >= 0 and start + size - begin <= AT_ONCE
        if goes_on and (foreign + gap) * FOREIGN <= end - begin:
            foreign += gap
        else:
            ends[first:n] = [end] * (n - first)
            first, begin, foreign = n, start, 0
        end = start + size
    ends[first:] = [end] * (len(ends) - first)
    return ends


class Payloads:
    """A reader of payload bytes from capture files.

    ``payloads.of(file)[start:stop]`` returns the bytes between two positions of a file. A position in a gzip file
    counts decompressed bytes.

    Args:
        paths: paths of the files. The index of a path is its file number.
        unpacked: folder with the decompressed content of gzip files; None if no file is compressed.
    """

    def __init__(self, paths: Sequence[str], unpacked: str | None = None) -> None:
        self.paths = paths
        self.unpacked = unpacked
        self._open: OrderedDict[int, BinaryIO] = OrderedDict()
        self._file = -1
        self._begin, self._data = 0, b""
        self._until: Mapping[int, int] = {}

    def of(self, file: int, until: Mapping[int, int]) -> Payloads:
        """Select the file for the next reads, and return this object. The file is opened if it is not open.

        Args:
            file: number of the file, which is its index in ``paths``.
            until: file position up to which a read may read ahead, from ``reaches``, by the position at which the read
                begins. A read that begins elsewhere reads only the requested bytes.
        """
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
            self._data = raw.read(max(stop, self._until.get(start, 0)) - start)
            self._begin, begin = start, 0
        return self._data[begin : begin + stop - start]

    def close(self) -> None:
        """Close the open capture files."""
        while self._open:
            self._open.popitem()[1].close()
        self._file = -1


@dataclass(slots=True)
class ConnectionFollower:
    """A converter of the TCP segments between two endpoints to table rows, one connection after the other.

    The state of a follower can be encoded by ``plain`` between two segments, after ``forget_secrets``.

    Attributes:
        key: bytes that identify both endpoints, or one connection of a frame log.
        capture_id: name of the capture.
        slice_calls: number of calls that are decoded at the beginning of a connection. All later calls become rows of
            the kind ``calls``, in slices of this size, and another task decodes each slice. 0 to decode all calls.
        keylog: secrets with which TLS is decrypted; None to decrypt nothing.
        conversation: current connection; None before its first segment or frame.
        fold: results of the current connection that are incomplete before its last call.
        calls: number of decoded calls of the current connection.
        slicer: converter of the later calls; None while calls are decoded.
    """

    key: bytes
    capture_id: str
    slice_calls: int = 0
    keylog: KeyLog | None = None
    conversation: Conversation | None = None
    fold: CallFold = field(init=False)
    calls: int = 0  # decoded calls of the connection
    slicer: Slicer | None = None

    def __post_init__(self) -> None:
        self.fold = CallFold(self.capture_id)

    def forget_secrets(self) -> None:
        """Remove the TLS secrets and keys from the state. Before the next segment, ``use_secrets`` must be called."""
        self.keylog = None
        if self.conversation is not None:
            self.conversation.forget_secrets()

    def use_secrets(self, keylog: KeyLog | None) -> None:
        """Continue with the secrets of a key log. ``keylog``: None to decrypt nothing in new connections."""
        self.keylog = keylog
        if self.conversation is not None:
            self.conversation.use_secrets(keylog)

    def segments(self, segments: Sequence[Parts], source: Sliced, base: int, path: str, rows: Rows) -> None:
        """Process the next TCP segments between the two endpoints.

        If a segment opens a new connection, the current connection is finished first. ``collect`` adds the rows of the
        calls.

        Args:
            segments: TCP segments, as tuples with the values of a ``Row``.
            source: object that contains the payloads; the payload of a segment begins at its ``start`` minus ``base``.
            base: position in the file at which ``source`` begins.
            path: path of the file.
            rows: lists of rows by kind. The remaining rows of each finished connection are added.
        """
        at = 0
        while at < len(segments):
            row, conversation = Row._make(segments[at]), self.conversation
            if conversation is None or ((row.flags & SYN or conversation.done) and conversation.is_another(row)):
                self.finish(rows)
                conversation = self.conversation = Conversation(unpack_key(self.key), row, keylog=self.keylog)
            at = conversation.segments(segments, source, base, path, at)

    def frame(self, logged: FrameOfLog) -> None:
        """Process the next frame of a connection in a frame log. The first frame begins the connection."""
        if self.conversation is None:
            name, client, broker = json.loads(self.key)
            self.conversation = Conversation.logged(name, client, broker, logged.time_us)
        self.conversation.frame(logged)

    def collect(self, rows: Rows) -> None:
        """Add the rows of all calls that have become complete since the previous ``collect`` to ``rows``.

        A call is a request with its response. After the first ``slice_calls`` calls of a connection, the rows are of
        the kind ``calls``: undecoded calls.
        """
        if self.conversation is None:
            return
        calls = self.conversation.taken()
        if self.slicer is not None:
            rows["calls"] += map(self.slicer.row, calls)
            return
        for call in calls:
            self.notice(call, self.fold.add(call, rows), rows)
        self.fold.drain(rows)
        self.calls += len(calls)
        if self.slice_calls and self.calls >= self.slice_calls:
            self.slicer = Slicer(self.slice_calls)
            self.conversation.defer_bodies()

    def notice(self, call: Call, events: Sequence[GroupEvent], rows: Rows) -> None:
        """Add further rows of a call, in a subclass. The method of this class does nothing.

        Args:
            call: completed call: a request with its response.
            events: group events of the call.
            rows: lists of rows by kind, to which the subclass adds rows.
        """

    def finish(self, rows: Rows) -> None:
        """End the current connection, and add its remaining rows to ``rows``. Do nothing without a connection."""
        if self.conversation is None:
            return
        connection = self.conversation.finish()
        self.collect(rows)
        if self.slicer is None:
            self.fold.finish(connection, rows)
        else:
            rows["folds"].append((connection.id, 0, self.fold, connection))
            rows["slices"].append((self.slicer.number, self.slicer.bytes))
        self.conversation, self.slicer, self.calls = None, None, 0
        self.fold = CallFold(self.capture_id)


@dataclass(slots=True)
class ReplayFollower(ConnectionFollower):
    """A converter of TCP segments to rows that also adds the rows for a replay of consumer groups.

    The additional rows are subscriptions of members (kind ``subscribed``), partitions of topics in Metadata responses
    (kind ``sizes``), and pairs of a group and a subscribed topic (kind ``wanted``).

    Attributes:
        fresh: filter that removes the partitions of a topic if the previous Metadata response has the same partitions.
    """

    fresh: evidence.Fresh = field(default_factory=evidence.Fresh)

    def notice(self, call: Call, events: Sequence[GroupEvent], rows: Rows) -> None:
        subscribed = list(evidence.subscribed(call))
        rows["subscribed"] += subscribed
        rows["sizes"] += self.fresh.of(evidence.sizes(call))
        rows["wanted"] += evidence.wanted(subscribed, events)
