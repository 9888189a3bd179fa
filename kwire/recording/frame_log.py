"""The writer of frame logs: one JSON object per line and frame."""

from __future__ import annotations

import json


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
        direction = "request" if to_broker else "response"
        start = f'{{"time_us": {time_us}, {self._peers[connection]}, "direction": "{direction}", "hex": "'
        return b"".join((start.encode(), frame.hex().encode(), b'"}\n'))

    def closed(self, connection: int, time_us: int, *, reset: bool = False) -> bytes:  # noqa: ARG002
        self._peers.pop(connection, None)
        return b""
