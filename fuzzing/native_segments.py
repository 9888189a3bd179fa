"""The fuzz target ``calls``: the calls of captured segments, read by kwire-native and by Python, must be equal."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kwire.capture.calls import conversation
from kwire.capture.calls import native as native_calls
from kwire.capture.calls.conversation import Conversation, Row
from kwire.capture.calls.model import Call, Connection
from kwire.capture.tcp.segments import ACK, FIN, RST, SYN, endpoints
from kwire.capture.tcp.stream import MASK
from kwire.engines import native

PENDING, LARGEST, KEPT = 4, 300, 60  # arguments of the native reader: small, so that inputs exceed them
PSH = 0x08
BROKER = 9092  # port
KEY = (0, 0, 5_000, 0, 1, BROKER)  # of the connection: its first endpoint is the client
READER = native.package().Calls(Call, native_calls._messages, PENDING, LARGEST, KEPT) if native.package() else None
ENDPOINTS = cache(endpoints)  # a quarter of the time of an input otherwise
KINDS = (  # of a segment: what is unusual about it
    "usual",
    "shifted",  # another sequence number
    "cut",  # the payload was captured in part
    "fin",
    "rst",
    "syn",
    "acknowledging",  # another acknowledgement number
    "earlier",  # the time is earlier
    "repeated",  # the previous segment again
    "empty",  # no payload
    "missing",  # the payload is not in the file
    "psh",
    "lost",  # not captured
    "without ack",
    "later",  # eight seconds later
)
FLAGS = {"fin": FIN, "rst": RST, "syn": SYN, "psh": PSH}


class InFile:
    """The content of a file that is not in memory as one object.

    Args:
        data: content of the file.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __getitem__(self, part: slice) -> bytes:
        return self._data[part]


@dataclass
class Talk:
    """A connection whose segments are created one after another.

    Attributes:
        rows: the segments.
        content: payloads of the segments.
        base: position of ``content`` in the file.
        next: next sequence number of each endpoint; the key is True for the client.
        time_us: time of the next segment, in microseconds.
        last: the last segment with a payload, of each endpoint.
    """

    base: int
    next: dict[bool, int]
    rows: list[Row] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)
    time_us: int = 1_000_000
    last: dict[bool, Row] = field(default_factory=dict)

    def open(self) -> None:
        """Add the segments that open the connection."""
        for is_client, flags in ((True, SYN), (False, SYN | ACK), (True, ACK)):
            self.segment(b"", is_client, flags)

    def segment(self, payload: bytes, is_client: bool, flags: int = ACK, kind: str = "usual", by: int = 0) -> None:
        """Add a segment.

        Args:
            payload: payload.
            is_client: True if the client sends the segment.
            flags: TCP flags.
            kind: one of KINDS.
            by: number from -128 to 127, of which the kind makes a difference.
        """
        if kind == "lost":
            self.next[is_client] += len(payload)
            return
        if kind == "repeated" and is_client in self.last:
            self.rows.append(self.last[is_client]._replace(time_us=self.time_us))
            return
        flags |= FLAGS.get(kind, 0)
        flags &= ~ACK if kind == "without ack" else ~0
        seq, ack = self.next[is_client], self.next[not is_client]
        seq += by if kind == "shifted" else 0
        ack += 16 * by if kind == "acknowledging" else 0
        captured = len(payload) - (by & 0x7F) if kind == "cut" else len(payload)
        start = self.base + len(self.content) + (1_000 * by if kind == "missing" else 0)
        self.time_us += {"earlier": -1_000 * by, "later": 1 << 23}.get(kind, 10)
        self.content += payload
        row = Row(
            is_client,
            self.time_us,
            10 * len(self.rows),
            start,
            max(0, captured),
            len(payload),
            seq & MASK,
            ack & MASK if flags & ACK else 0,
            flags,
        )
        self.rows.append(row)
        if payload:
            self.last[is_client] = row
        self.next[is_client] += len(payload) + (1 if flags & (SYN | FIN) else 0)


def segments(data: bytes) -> Talk:
    """Return the segments that an input describes.

    ``data``: flags, then items. Flags: 1 if the connection is opened, 2 if the sequence numbers are near their maximum,
    4 if the payloads are at a later position of the file. An item is a byte with its direction (bit 0: the broker
    sends), form (bit 1: the payload has no length prefix, which is added), connection (bit 2: the next item of the same
    direction is in the same segment) and kind (bits 3 to 7: index in KINDS), a byte with the argument ``by`` of the
    segment, the size of the payload in two bytes, and the payload.
    """
    flags = data[0]
    first = 2**32 - 150 if flags & 2 else 5_000
    talk = Talk(base=40_000 if flags & 4 else 0, next={True: first, False: first + 60})
    if flags & 1:
        talk.open()
    at, payload = 1, b""
    while at + 4 <= len(data):
        head, by, size = struct.unpack_from(">BbH", data, at)
        part = data[at + 4 : at + 4 + size]
        at += 4 + len(part)
        payload += struct.pack(">i", len(part)) + part if head & 2 else part
        if head & 4 and at < len(data) and not (data[at] ^ head) & 1:
            continue
        kind = KINDS[head >> 3] if head >> 3 < len(KINDS) else "usual"
        talk.segment(b"" if kind == "empty" else payload, not head & 1, kind=kind, by=by)
        payload = b""
    return talk


@contextmanager
def reading(reader: Any) -> Iterator[None]:
    """Read calls with a native reader, or with Python alone. ``reader``: the native reader; None for Python."""
    changes = {"call_reader": lambda: reader, "endpoints": ENDPOINTS, "LEAST_ROWS": 1, "LONGEST_WAIT": 0, "KEPT": KEPT}
    before = {name: getattr(conversation, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(conversation, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(conversation, name, value)


def calls(data: bytes) -> None:
    """Check that the native reader of segments finds the calls that Python finds.

    ``data``: flags and the segments (see ``segments``). More flags: 8 if the broker's port is unknown, 16 if the file
    is not in memory as one object, 32 if the native reader gets three segments at a time.
    """
    if not data:
        return
    made = segments(data)
    if made.rows:
        python, native = (outcome(made, data[0], reader) for reader in (None, READER))
        assert python == native or repr(python) == repr(native), (python, native)  # in a NaN, no value equals itself


def outcome(made: Talk, flags: int, reader: Any) -> tuple[list[Call], Connection]:
    """Return the calls of a connection, and the connection.

    Args:
        made: the segments.
        flags: first byte of the input.
        reader: the native reader; None for Python.
    """
    content = bytes(made.content)
    source: Any = InFile(content) if flags & 16 else content
    at_once = 3 if flags & 32 and reader is not None else len(made.rows)
    with reading(reader):
        talk = Conversation(KEY, made.rows[0], ports=() if flags & 8 else {BROKER})
        for begin in range(0, len(made.rows), at_once):
            rows, at = made.rows[begin : begin + at_once], 0
            while at < len(rows):
                at = talk.segments(rows, source, made.base, "f", at)
        ended = talk.finish()
    return talk.taken(), ended
