"""In-process connections to a cluster, without sockets, for consumers in virtual time."""

from __future__ import annotations

from collections import deque

import trio

from kwire.envelope import decode_request, encode_response
from kwire.frames import FrameBuffer, pack
from mockbroker import Cluster
from mockbroker.net.in_process import ConnectionClosedError, InProcessConnection


class InProcessStream(trio.abc.Stream):
    """An in-process connection. Reading sends the next request; the broker answers requests in order."""

    def __init__(self, line: InProcessConnection) -> None:
        self.line = line
        self._frames = FrameBuffer()
        self._waiting: deque[bytes] = deque()
        self._come = trio.Event()
        self._asking = False
        self.cut = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        if self.cut:
            raise trio.BrokenResourceError
        self._frames.feed(bytes(data))
        while (frame := self._frames.next_frame()) is not None:
            self._waiting.append(frame)
        self._come.set()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while not self._waiting and not self.cut:
            self._come = trio.Event()
            await self._come.wait()
        if self.cut:
            return b""
        request = decode_request(self._waiting.popleft())
        version = request.version
        try:
            body = await self.line.ask(request.body, version)
        except ConnectionClosedError:
            return b""
        return pack(encode_response(body, version, correlation_id=request.header.correlation_id))

    def hang_up(self) -> None:
        """Close the connection without a last response, as when the network connection is lost."""
        self.cut = True
        self.line.close()
        self._come.set()

    async def aclose(self) -> None:
        self.hang_up()
        await trio.lowlevel.checkpoint()


class InProcessNetwork:
    """The network of a cluster. ``streams``: connections, with their nodes; ``down``: nodes that refuse connections."""

    def __init__(self, cluster: Cluster, client_id: str = "inside") -> None:
        self.cluster, self.client_id = cluster, client_id
        self.streams: list[tuple[int, InProcessStream]] = []
        self.down: set[int] = set()

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        (node,) = [node.node_id for node in self.cluster.nodes if node.port == port]
        if node in self.down:
            raise OSError("refused")
        stream = InProcessStream(self.cluster.connect(node, self.client_id))
        self.streams.append((node, stream))
        return stream
