"""Our consumer with a tap on its connections: what it asked, and what it was told, wherever the broker is.

Answers may be forged on their way, to have a real broker say what it says only in bad moments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trio

from kwire import decode_request, decode_response, encode_response
from kwire.frames import FrameBuffer, pack
from mockbroker.consumer import RebalanceListener, TopicPartition


@dataclass
class Asked:
    """``answer``: None until it comes."""

    api: str
    api_key: int
    version: int
    port: int
    body: Any
    answer: Any = None


class Wire:
    """``connect`` is for ``open_consumer``. ``forge``: may change the answer of what it is given."""

    def __init__(self, forge: Callable[[Asked], object] = lambda _: None) -> None:
        self.asked: list[Asked] = []
        self.forge = forge

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return _Tap(await trio.open_tcp_stream(host, port), self, port)

    def of(self, api: str) -> list[Asked]:
        """Those that were answered, in the order in which they were asked."""
        return [one for one in self.asked if one.api == api and one.answer is not None]


class _Tap(trio.abc.Stream):
    def __init__(self, stream: trio.abc.Stream, wire: Wire, port: int) -> None:
        self._stream, self._wire, self._port = stream, wire, port
        self._out, self._in = FrameBuffer(), FrameBuffer()
        self._open: deque[Asked] = deque()

    async def send_all(self, data: Any) -> None:
        self._out.feed(bytes(data))
        while (frame := self._out.next_frame()) is not None:
            request = decode_request(frame)
            self._open.append(Asked(request.api.name, request.api.key, request.version, self._port, request.body))
            self._wire.asked.append(self._open[-1])
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        passed = b""
        while not passed:
            data = bytes(await self._stream.receive_some(max_bytes))
            if not data:
                return b""
            self._in.feed(data)
            while (frame := self._in.next_frame()) is not None:
                asked = self._open.popleft()
                response = decode_response(frame, api_key=asked.api_key, api_version=asked.version)
                asked.answer = response.body
                self._wire.forge(asked)
                passed += pack(
                    encode_response(asked.answer, response.version, correlation_id=response.header.correlation_id)
                )
        return passed

    async def aclose(self) -> None:
        await self._stream.aclose()


class Notes(RebalanceListener):
    """What it was told: revoked, assigned or lost, and how many partitions; none is not noted."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    async def on_revoked(self, _: Any, partitions: Any) -> None:
        self._note("revoked", partitions)

    async def on_assigned(self, _: Any, partitions: Any) -> None:
        self._note("assigned", partitions)

    async def on_lost(self, _: Any, partitions: Any) -> None:
        self._note("lost", partitions)

    def _note(self, what: str, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.told.append((what, len(partitions)))
