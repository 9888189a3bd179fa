"""Reading of captures in one process, from files to calls."""

from __future__ import annotations

import gc
import os
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any, BinaryIO, cast
from uuid import UUID

import numpy as np

from kwire.capture.calls.conversation import Conversation, Row
from kwire.capture.calls.exchange import FrameOfLog
from kwire.capture.calls.model import Call, Connection
from kwire.capture.calls.topic_names import NAMING_APIS, TopicNames
from kwire.capture.files.blocks import RING_FULL, Problem, Skipped, damage, notes
from kwire.capture.files.capture_file import STDIN, CaptureFile, find
from kwire.capture.files.packet_ring import PacketRing
from kwire.capture.limits import MAX_ALL_HELD, MAX_CONNECTIONS, MAX_IDLE_SECONDS
from kwire.capture.tcp.packets import SegmentReader
from kwire.capture.tcp.segments import SYN, Key, Segments
from kwire.capture.tls.keylog import KeyLog

Item = Call | Connection | Problem | Skipped


@contextmanager
def paused_garbage_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector for the duration of a ``with`` block.

    It is used where many long-lived objects without reference cycles are created.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Conversations:
    """The connections of a capture that have not ended yet, by their endpoints.

    If all connections together buffer more than MAX_ALL_HELD bytes, those with the most buffered bytes are ended.

    Args:
        make: function that creates a Conversation from its key and its first segment.
        most: maximum number of connections. Above it, the connection that has been inactive longest is ended.
        idle_us: microseconds without a packet after which a connection is ended; 0 for no limit.

    Attributes:
        open: connections that have not ended yet, by key; the connection that has been inactive longest is first.
    """

    def __init__(self, make: Callable[[Key, Row], Conversation], most: int = MAX_CONNECTIONS, idle_us: int = 0) -> None:
        self.open: OrderedDict[Key | tuple[str, str, str], Conversation] = OrderedDict()
        self.make = make
        self.most = most
        self.idle_us = idle_us

    def add_segments(self, segments: Segments) -> list[Call | Connection]:
        """Process segments.

        Returns: the calls that were completed, in order of time, and the connections that ended because of these
        segments or of a limit.
        """
        calls: list[Call] = []
        ended: list[Connection] = []
        with paused_garbage_collection():
            self._process(segments, calls, ended)
            if self.idle_us and len(segments.time_us):
                self._expire(int(segments.time_us[-1]) - self.idle_us, calls, ended)
            calls.sort(key=when)
        return [*calls, *ended]

    def _process(self, segments: Segments, calls: list[Call], ended: list[Connection]) -> None:
        order = np.argsort(segments.flow, kind="stable")
        flows = segments.flow[order]
        bounds = [*np.flatnonzero(np.diff(flows, prepend=-1)).tolist(), len(flows)]
        names = ("upward", "time_us", "position", "start", "captured", "size", "seq", "ack", "flags")
        columns = [getattr(segments, name)[order].tolist() for name in names]
        for begin, end in pairwise(bounds):
            key = segments.keys[int(flows[begin])]
            conversation = self.open.get(key)
            if conversation is not None:
                self.open.move_to_end(key)
            rows = list(zip(*(column[begin:end] for column in columns), strict=True))
            at = 0
            while at < len(rows):
                row = Row._make(rows[at])
                if conversation is None or ((row.flags & SYN or conversation.done) and conversation.is_another(row)):
                    if conversation is not None:
                        self._end(conversation, calls, ended)
                    conversation = self.open[key] = self.make(key, row)
                if not segments.spare:
                    at = conversation.segments(rows, segments.data, segments.base, segments.path, at)
                    continue
                at += 1
                if row.start in segments.spare:
                    conversation.segment(row, segments.spare[row.start], row.start, segments.path)
                else:
                    conversation.segment(row, segments.data, segments.base, segments.path)
            assert conversation is not None
            calls += conversation.taken()
        while len(self.open) > self.most:
            self._end(self.open.popitem(last=False)[1], calls, ended)
        self._make_room(calls, ended)

    def _expire(self, before_us: int, calls: list[Call], ended: list[Connection]) -> None:
        """End the connections whose last packet was before ``before_us``, a time in microseconds since 1970.

        Args:
            before_us: the time.
            calls: list to which the calls of the ended connections are added.
            ended: list to which the ended connections are added.
        """
        while self.open:
            key, oldest = next(iter(self.open.items()))
            if oldest.connection.last_us >= before_us:
                return
            del self.open[key]
            self._end(oldest, calls, ended)

    def _make_room(self, calls: list[Call], ended: list[Connection]) -> None:
        held = sum(conversation.held for conversation in self.open.values())
        if held <= MAX_ALL_HELD:
            return
        for key, conversation in sorted(self.open.items(), key=lambda item: -item[1].held):
            held -= conversation.held
            conversation.connection.notes.append("dropped: too many incomplete bytes")
            del self.open[key]
            self._end(conversation, calls, ended)
            if held <= MAX_ALL_HELD // 2:
                return

    @staticmethod
    def _end(conversation: Conversation, calls: list[Call], ended: list[Connection]) -> None:
        ended.append(conversation.finish())
        calls += conversation.taken()

    def finish(self) -> list[Call | Connection]:
        """End all connections; return their calls and the connections."""
        calls: list[Call] = []
        ended: list[Connection] = []
        while self.open:
            self._end(self.open.popitem(last=False)[1], calls, ended)
        return [*sorted(calls, key=when), *ended]


def when(call: Call) -> tuple[int, int]:
    """Return the sort key of a completed call: the time in microseconds since 1970 at which it was completed, then its
    number.
    """
    return (call.response_us if call.response_us is not None else call.request_us or 0), call.number


class Reading:
    """One pass over a capture, an iterator.

    It yields calls, connections when they end, problems of files, and finally skipped packets. The calls from one block
    of the file are in order of completion. Calls without a response follow when their connection ends.

    For the arguments, see ``read``. Here, ``paths`` must be an iterable of paths, not one path.

    Attributes:
        files: paths of the files, in reading order; only the name of the interface if a network interface is read.
        problems: damaged positions in the files that have been read.
        skipped: packets that were skipped, truncated or lost so far, with their numbers.
        remarks: numbers of connections that were not decoded completely so far, by reason.
        topic_names: topic names by topic id, as captured so far. ``name_of`` searches the whole capture.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        ports: Collection[int] = (),
        bodies: Collection[int] | None = None,
        raw: bool = False,
        redacted: bool = True,
        keylog: KeyLog | None = None,
        ring: PacketRing | None = None,
        progress: Callable[[int], object] | None = None,
        as_json: bool = False,
    ) -> None:
        self.files = find(paths) if ring is None else [ring.name]
        self._ring = ring
        if STDIN in self.files and len(self.files) > 1:
            raise ValueError("stdin cannot be read together with files")
        self.ports = frozenset(ports)
        self.bodies = None if bodies is None else frozenset(bodies)
        self.raw = raw
        self.redacted = redacted
        self.as_json = as_json
        self.keylog = keylog
        self._secrets = KeyLog() if keylog is None else keylog
        self.problems: list[Problem] = []
        self.skipped: list[Skipped] = []
        self.remarks: Counter[str] = Counter()  # connections not decoded completely, by reason
        self.topic_names = TopicNames()
        self._progress = progress
        self._conversations: Conversations | None = None
        self._done = 0  # bytes of a file already reported to progress
        self._is_whole = False

    def __iter__(self) -> Iterator[Item]:
        idle_us = MAX_IDLE_SECONDS * 1_000_000 if self.is_stream else 0
        conversations = self._conversations = Conversations(self._begin, idle_us=idle_us)
        reader = SegmentReader(self.ports)
        for path in self.files:
            stream = self._ring or (_stdin() if path == STDIN else None)
            file = CaptureFile(path, stream=stream, keylog=self._secrets)
            parts = self._log(file, conversations) if file.is_log else self._packets(file, conversations, reader)
            self._done = 0
            for part in parts:
                self._note(part)
                yield from part
            if self._progress:
                with suppress(OSError):
                    self._progress(file.size - self._done)
            problems = [*reader.problems(path), *file.problems]
            self.problems += problems
            yield from problems
        last = conversations.finish()
        self._note(last)
        yield from last
        self.skipped += reader.fragments.finish()
        if self._ring and self._ring.lost:
            self.skipped.append(Skipped(self._ring.name, self._ring.lost, RING_FULL))
        yield from self.skipped
        self._is_whole = True

    @property
    def is_stream(self) -> bool:
        """Whether the capture arrives packet by packet, on stdin or at a network interface."""
        return self._ring is not None or STDIN in self.files

    @property
    def open_connections(self) -> list[Connection]:
        """The connections that have not ended yet, with their counters so far."""
        conversations = self._conversations.open.values() if self._conversations is not None else ()
        return [one.connection for one in conversations if one.broker is not None]

    @property
    def damage(self) -> list[Problem | Skipped]:
        """The damage that was found so far: damaged positions in files, and files with truncated or lost packets."""
        return damage(self.problems, self.skipped)

    def notes(self) -> list[str]:
        """Return a line of text for each reason why packets were skipped, or connections were not decoded completely.

        The lines are about what has been read so far.
        """
        return notes(self.skipped, self.remarks)

    def calls(self) -> Iterator[Call]:
        """Yield only the calls of the capture, without connections and problems."""
        return (item for item in self if isinstance(item, Call))

    def name_of(self, topic_id: UUID) -> str | None:
        """Return the name of a topic; None if the capture does not contain it. The whole capture is read if
        necessary.
        """
        if topic_id not in self.topic_names and not self._is_whole and not self.is_stream:
            self._is_whole = True
            again = Reading(self.files, ports=self.ports, bodies=NAMING_APIS, keylog=self.keylog)
            for _ in again:
                pass
            self.topic_names |= again.topic_names
        return self.topic_names.get(topic_id)

    def _begin(self, key: Key, row: Row) -> Conversation:
        return Conversation(
            key,
            row,
            ports=self.ports,
            bodies=self.bodies,
            raw=self.raw,
            redacted=self.redacted,
            as_json=self.as_json,
            keylog=self._secrets if self.keylog is not None or len(self._secrets) else None,
        )

    def _note(self, items: Iterable[Call | Connection]) -> None:
        """Collect information about the whole capture from calls and connections.

        That is, topic names and the reasons of incomplete decoding.
        """
        for item in items:
            if isinstance(item, Connection):
                if (remark := item.remark) is not None:
                    self.remarks[remark[0]] += 1
            elif item.api_key in NAMING_APIS:
                self.topic_names.learn(item)

    def _packets(
        self, file: CaptureFile, conversations: Conversations, reader: SegmentReader
    ) -> Iterator[list[Call | Connection]]:
        skipped: Counter[str] = Counter()
        for block in file.blocks():
            segments = reader.segments(block)
            skipped.update(segments.skipped)
            yield conversations.add_segments(segments)
            if self._progress and not block.whole.packed:
                end = block.base + int(block.starts[-1] + block.sizes[-1])
                self._progress(end - self._done)
                self._done = end
        self.skipped += [Skipped(file.path, count, why) for why, count in sorted(skipped.items())]

    def _log(self, file: CaptureFile, conversations: Conversations) -> Iterator[list[Call | Connection]]:
        for logged in file.frames():
            key = (logged.connection, logged.client, logged.broker)
            conversation = conversations.open.get(key)
            if conversation is None:
                options = {"bodies": self.bodies, "raw": self.raw, "redacted": self.redacted, "as_json": self.as_json}
                conversation = Conversation.logged(*key, logged.time_us, **options)  # type: ignore[arg-type]
                conversations.open[key] = conversation
            conversations.open.move_to_end(key)
            frame = FrameOfLog(logged.to_broker, logged.frame, logged.time_us, file.path, logged.position)
            conversation.frame(frame)
            yield [*conversation.taken()]
            if len(conversations.open) > conversations.most:
                oldest = conversations.open.popitem(last=False)[1]
                ended = oldest.finish()
                yield [*oldest.taken(), ended]


def _stdin() -> BinaryIO:
    """Return stdin without a buffer, so that a read returns what has arrived."""
    return cast("BinaryIO", os.fdopen(0, "rb", buffering=0, closefd=False))


def read(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    ports: Collection[int] = (),
    bodies: Collection[int] | None = None,
    raw: bool = False,
    redacted: bool = True,
    keylog: KeyLog | None = None,
    ring: PacketRing | None = None,
    progress: Callable[[int], object] | None = None,
    as_json: bool = False,
) -> Reading:
    """Return the calls of a capture for iteration. Files are read during the iteration.

    Args:
        paths: files or folders of one capture; ``-`` alone for stdin.
        ports: ports of brokers; connections without any of these ports are ignored. Empty for all connections.
        bodies: API keys whose bodies are decoded; None for all. If an API key is not included, only the headers are
            decoded.
        raw: True to store also the bytes of each frame in its call.
        redacted: True to redact secrets.
        keylog: secrets of TLS connections, such as a ``KeyLogFile``; the secrets in pcapng files are added to it. None
            to use only the secrets in pcapng files.
        ring: packets of a network interface, which are read instead of ``paths``; None to read ``paths``.
        progress: function that is called with the number of bytes read; None for no function. For a gzip file or a
            frame log, it is called only at the end of the file.
        as_json: True if the calls are only printed as JSON lines (``kwire.capture.rows.json_lines``). With the native
            engine, most bodies then stay encoded, because it writes their JSON from the encoded bytes.

    Raises: OSError for a path that does not exist; ValueError if ``paths`` contains ``-`` and also another path.
    """
    path_list = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    options: Any = {"bodies": bodies, "raw": raw, "redacted": redacted, "as_json": as_json}
    return Reading(path_list, ports=ports, keylog=keylog, ring=ring, progress=progress, **options)
