"""A tap on the connections of mockbroker.consumer, which records requests and responses.

A test may change responses on their way, to make a real broker return errors that are hard to provoke.
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
class TappedRequest:
    """A request with its response. ``answer``: the body of the response; None until it is received."""

    api: str
    api_key: int
    version: int
    port: int
    body: Any
    answer: Any = None


class Wire:
    """A recorder of requests. ``connect``: for ``open_consumer``; ``forge``: may change the response of a request."""

    def __init__(self, forge: Callable[[TappedRequest], object] = lambda _: None) -> None:
        self.requests: list[TappedRequest] = []
        self.forge = forge

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return _Tap(await trio.open_tcp_stream(host, port), self, port)

    def of(self, api: str) -> list[TappedRequest]:
        """Return the requests of an API that have a response, in the order in which they were sent."""
        return [one for one in self.requests if one.api == api and one.answer is not None]

    def in_flight(self, api: str) -> list[TappedRequest]:
        """Return the requests of an API that have no response yet, in the order in which they were sent."""
        return [one for one in self.requests if one.api == api and one.answer is None]


class _Tap(trio.abc.Stream):
    def __init__(self, stream: trio.abc.Stream, wire: Wire, port: int) -> None:
        self._stream, self._wire, self._port = stream, wire, port
        self._out, self._in = FrameBuffer(), FrameBuffer()
        self._pending: deque[TappedRequest] = deque()

    async def send_all(self, data: Any) -> None:
        self._out.feed(bytes(data))
        while (frame := self._out.next_frame()) is not None:
            request = decode_request(frame)
            self._pending.append(
                TappedRequest(request.api.name, request.api.key, request.version, self._port, request.body)
            )
            self._wire.requests.append(self._pending[-1])
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
                request = self._pending.popleft()
                response = decode_response(frame, api_key=request.api_key, api_version=request.version)
                request.answer = response.body
                self._wire.forge(request)
                passed += pack(
                    encode_response(request.answer, response.version, correlation_id=response.header.correlation_id)
                )
        return passed

    async def aclose(self) -> None:
        await self._stream.aclose()


class RecordedCalls(RebalanceListener):
    """A listener that records its calls with the number of partitions, except calls without partitions."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    async def on_revoked(self, _: Any, partitions: Any) -> None:
        self._note("revoked", partitions)

    async def on_assigned(self, _: Any, partitions: Any) -> None:
        self._note("assigned", partitions)

    async def on_lost(self, _: Any, partitions: Any) -> None:
        self._note("lost", partitions)

    def _note(self, method: str, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.calls.append((method, len(partitions)))
