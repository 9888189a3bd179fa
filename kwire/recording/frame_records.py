"""The records of a recording in a topic: a record for each frame, as in docs/recordings.md.

If the native engine is the default engine, it encodes the records.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from kwire.engines.chosen import native_package
from kwire.engines.varints import uvarint, varint
from kwire.frames import PREFIX

HEADERS = 7  # of a record
ATTRIBUTES = b"\0"  # of a record; no attribute is defined
HEAD = struct.Struct(">hhi")  # API key, version and correlation id of a request
CORRELATION_ID = struct.Struct(">i")
MAX_PENDING = 4_096  # requests of a connection that may wait for a response; a Produce with acks=0 waits until the next
UNKNOWN = (-1, -1)  # API key and version of a response whose correlation id is not that of a request
LARGE = 32 * 1024  # bytes from which a frame is not copied into its record


class FrameRecords:
    """The requests of a connection that wait for a response, and the records of its frames. The native engine has a
    class with the same methods.

    ``most``: number of requests that may wait; the oldest is forgotten.
    """

    def __init__(self, most: int) -> None:
        self._pending: deque[tuple[int, tuple[int, int]]] = deque(maxlen=most)

    def api(self, to_broker: bool, head: bytes) -> tuple[int, int]:
        """Return API key and version of the next frame; UNKNOWN for a response that belongs to no request.

        Args:
            to_broker: True for a request.
            head: the first 8 bytes of the frame, or all bytes of a shorter one.
        """
        if to_broker:
            if len(head) < HEAD.size:
                return UNKNOWN
            key, version, number = HEAD.unpack_from(head)
            self._pending.append((number, (key, version)))
            return key, version
        if len(head) < CORRELATION_ID.size:
            return UNKNOWN
        (number,) = CORRELATION_ID.unpack_from(head)
        pending = self._pending
        for index, (each, api) in enumerate(pending):
            if each == number:
                for _ in range(index + 1):
                    pending.popleft()
                return api
        return UNKNOWN

    def records(
        self, to_broker: bool, data: Sequence[bytes], start: bytes, key: bytes, headers: bytes, first: int
    ) -> tuple[bytes, int]:
        """Return the records of frames, and their number.

        Args:
            to_broker: True for requests, False for responses.
            data: complete frames with their length prefixes, divided into buffers. A frame may begin or end anywhere in
                a buffer.
            start: attributes and timestamp of each record.
            key: the key, with its size.
            headers: number of headers, and all headers before the last two.
            first: offset of the first record from the beginning of its batch.
        """
        stream = data[0] if len(data) == 1 else b"".join(data)
        out: list[bytes] = []
        number, at, end, read = first, 0, len(stream), PREFIX.unpack_from
        while at < end:
            begin = at + PREFIX.size
            (size,) = read(stream, at)
            at = begin + size
            record = b"".join(
                (
                    start,
                    uvarint(number << 1),
                    key,
                    uvarint(size << 1),
                    stream[begin:at],
                    headers,
                    api_headers(*self.api(to_broker, stream[begin : min(begin + HEAD.size, at)])),
                )
            )
            out += uvarint(len(record) << 1), record
            number += 1
        return b"".join(out), number - first


class ConnectionRecords:
    """The records of one connection.

    Args:
        key: key of the records, which is also the name of the connection.
        client: ``host:port`` of the client.
        broker: ``host:port`` of the broker.
    """

    def __init__(self, key: str, client: str, broker: str) -> None:
        native: Any = native_package()
        self._key = _text(key)
        self._frames: FrameRecords = FrameRecords(MAX_PENDING) if native is None else native.FrameRecords(MAX_PENDING)
        self._time = uvarint(HEADERS << 1) + _text("time_us")
        names = [("connection", key), ("client", client), ("broker", broker)]
        self._headers = {
            to_broker: b"".join(_text(name) + _text(text) for name, text in (*names, ("direction", direction)))
            for to_broker, direction in ((True, "request"), (False, "response"))
        }

    def records(
        self,
        to_broker: bool,
        data: Sequence[bytes],
        time_us: int,
        since_ms: int,
        first: int,
        api: tuple[int, int] | None = None,
    ) -> tuple[list[bytes], int]:
        """Return the records of frames, in one or more buffers, and their number.

        Args:
            to_broker: True for requests, False for responses.
            data: complete frames with their length prefixes, divided into buffers. A frame may begin or end anywhere in
                a buffer.
            time_us: time of the frames, in microseconds since 1970.
            since_ms: this time in milliseconds, minus the first timestamp of the batch.
            first: offset of the first record from the beginning of its batch.
            api: API key and version, if there is only one frame and the caller knows them; None if they are taken from
                the requests.
        """
        start = ATTRIBUTES + varint(since_ms)
        time = b"%d" % time_us
        headers = self._time + uvarint(len(time) << 1) + time + self._headers[to_broker]
        size = sum(map(len, data)) - PREFIX.size
        is_large = size >= LARGE and len(data[0]) >= PREFIX.size and PREFIX.unpack_from(data[0])[0] == size
        if api is None and not is_large:
            records, count = self._frames.records(to_broker, data, start, self._key, headers, first)
            return [records], count
        pieces = [data[0][PREFIX.size :], *data[1:]]
        if api is None:
            head = pieces[0] if len(pieces[0]) >= HEAD.size else b"".join(pieces)
            api = self._frames.api(to_broker, head[: HEAD.size])
        before = start + uvarint(first << 1) + self._key + uvarint(size << 1)
        after = headers + api_headers(*api)
        return [uvarint((len(before) + size + len(after)) << 1) + before, *pieces, after], 1


@lru_cache(maxsize=1_000)  # a client may use any number as an API key
def api_headers(key: int, version: int) -> bytes:
    """Return the last two headers of a record. ``key``: API key. ``version``: API version."""
    return b"".join(map(_text, ("api_key", str(key), "api_version", str(version))))


def _text(text: str) -> bytes:
    """Return a text with its size."""
    data = text.encode()
    return uvarint(len(data) << 1) + data
