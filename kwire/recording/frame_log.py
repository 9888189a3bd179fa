"""The writer of frame logs: one JSON object per line and frame."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kwire.frames import PREFIX


class FrameLog:
    """The writer that records each frame as a line with a JSON object."""

    def __init__(self) -> None:
        self._peers: dict[int, str] = {}

    def begin(self) -> bytes:
        return b""

    def opened(self, connection: int, client: str, broker: str, time_us: int) -> bytes:  # noqa: ARG002
        peers = f'"connection": "{connection}", "client": {json.dumps(client)}, "broker": {json.dumps(broker)}'
        self._peers[connection] = peers
        return b""

    def frame(self, connection: int, to_broker: bool, frame: bytes, time_us: int) -> bytes:
        return f'{self._start(connection, to_broker, time_us)}{frame.hex()}"}}\n'.encode()

    def frames(self, connection: int, to_broker: bool, data: Sequence[bytes], time_us: int) -> list[bytes]:
        start = self._start(connection, to_broker, time_us)
        view = memoryview(data[0] if len(data) == 1 else b"".join(data))
        lines: list[str] = []
        at, end, read = 0, len(view), PREFIX.unpack_from
        while at < end:
            begin = at + PREFIX.size
            at = begin + read(view, at)[0]
            lines += (start, view[begin:at].hex(), '"}\n')
        return ["".join(lines).encode()]

    def _start(self, connection: int, to_broker: bool, time_us: int) -> str:
        """Return the beginning of a line: all text before the hex of the frame.

        Args:
            connection: number of the connection.
            to_broker: True for a request, False for a response.
            time_us: time of the frame, in microseconds since 1970.
        """
        direction = "request" if to_broker else "response"
        return f'{{"time_us": {time_us}, {self._peers[connection]}, "direction": "{direction}", "hex": "'

    def closed(self, connection: int, time_us: int, *, reset: bool = False) -> bytes:  # noqa: ARG002
        self._peers.pop(connection, None)
        return b""
