"""The segments of one connection, one after the other, into rows: what a task of Spark does, in batches and in streams.

Payload is not handed over but read from the file when a conversation wants it, so what nobody looks into is not read.
Nothing here knows of Spark.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kwire.analysis import extract, topics, usage
from kwire.analysis.clusters import Saying, saying_of
from kwire.analysis.frames import connection_row, frame_row
from kwire.capture.calls import Conversation, Row
from kwire.capture.packets import SYN, unpack_key

LEAST, MOST = 4_096, 1_048_576  # bytes read at a time: little where connections are many, much where one goes on
OPEN_FILES = 16
SEALED = 36  # bytes of the key of a TCP connection; a key of another length names a connection of a frame log

Rows = dict[str, list[dict[str, Any]]]  # rows by their kind


def log_key(connection: str, client: str, broker: str) -> bytes:
    """The key of a connection in a frame log."""
    return json.dumps([connection, client, broker]).encode().ljust(SEALED + 1)


class Payloads:
    """Bytes of files by their place; as a ``Sliced`` those of the file that ``of`` chose last."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        self._open: OrderedDict[int, int] = OrderedDict()
        self._file = -1
        self._begin, self._data = 0, b""
        self._ahead = LEAST

    def of(self, file: int) -> Payloads:
        """Those of the file with this number."""
        if file != self._file:
            if file not in self._open:
                if len(self._open) >= OPEN_FILES:
                    os.close(self._open.popitem(last=False)[1])
                self._open[file] = os.open(self.paths[file], os.O_RDONLY)
            self._open.move_to_end(file)
            self._file = file
            self._begin, self._data = 0, b""
        return self

    def __getitem__(self, part: slice) -> bytes:
        start, stop = part.start, part.stop
        begin = start - self._begin
        if begin < 0 or stop - self._begin > len(self._data):
            near = 0 <= begin <= len(self._data) + self._ahead
            self._ahead = min(4 * self._ahead, MOST) if near else LEAST
            self._data = os.pread(self._open[self._file], max(stop - start, self._ahead), start)
            self._begin, begin = start, 0
        return self._data[begin : begin + stop - start]

    def close(self) -> None:
        """Close the files."""
        while self._open:
            os.close(self._open.popitem()[1])
        self._file = -1


@dataclass(slots=True)
class Following:
    """What goes on between two ends: one connection after the other. It can be pickled between two segments."""

    key: bytes
    capture_id: str
    conversation: Conversation | None = None
    counts: usage.Usage = field(default_factory=lambda: usage.Usage({}))
    said: set[Any] = field(default_factory=set)  # what the connection told of its cluster

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

    def tell(self, found: Rows) -> None:
        """Rows of what is complete by now."""
        if self.conversation is None:
            return
        for call in self.conversation.taken():
            refused = usage.refusals(call)
            found["frames"].append(frame_row(call, self.capture_id, refused))
            found["names"] += [{"id": key, "name": name} for key, name in topics.topic_names(call).items()]
            found["marks"] += [
                {name: getattr(mark, name) for name in topics.Watermark.__slots__} for mark in topics.watermarks(call)
            ]
            saying = saying_of(call)
            if saying is not None and saying.content not in self.said:
                self.said.add(saying.content)
                found["sayings"].append({name: getattr(saying, name) for name in Saying.__slots__})
            found["events"] += [event.row(self.capture_id) for event in extract.events_of(call)]
            self.counts.add(call, refused)
        found["waits"] += self.counts.take_waits()

    def finish(self, found: Rows) -> None:
        """No more comes of the connection."""
        if self.conversation is None:
            return
        connection = self.conversation.finish()
        self.tell(found)
        found["connections"].append(connection_row(connection, self.capture_id))
        software = {"software_name": connection.software_name, "software_version": connection.software_version}
        found["errors"] += self.counts.refused(self.capture_id)
        for name, rows in self.counts.rows(self.capture_id, {}).items():
            if name not in ("latency", "errors"):
                found[name] += [row | software if "software_name" in row else row for row in rows]
        self.conversation, self.counts, self.said = None, usage.Usage({}), set()
