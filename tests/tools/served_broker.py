"""A broker on loopback sockets, and clients of it that send single requests."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any
from uuid import UUID

import trio

from kwire import ClientSide
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import HANDLERS
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.net.bound_listeners import BoundListener, listen
from mockbroker.net.readiness import Ready, Watch, best_watch
from mockbroker.net.server import Server
from mockbroker.security.listener_sasl import ListenerSasl
from mockbroker.security.users import Users
from mockbroker.storage.data_dir import DataDir
from mockbroker.storage.disk import Disk
from mockbroker.topics.model import Node

QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0, "group.min.session.timeout.ms": 100}
PATIENCE = 30.0  # seconds, real or virtual, after which a test that waits for an answer fails


class Peer:
    """A client connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.side = ClientSide("peer")

    async def send(self, *requests: tuple[Any, int]) -> None:
        """Send requests in one segment; each request is a message and its version."""
        await self.stream.send_all(b"".join(self.side.send(message, version) for message, version in requests))

    async def receive(self) -> Any:
        """Return the body of the next response."""
        with trio.fail_after(PATIENCE):
            while (response := self.side.next_response()) is None:
                data = await self.stream.receive_some(65_536)
                assert data, "closed before the answer was there"
                self.side.receive(data)
        return response.body

    async def ask(self, message: Any, version: int) -> Any:
        await self.send((message, version))
        return await self.receive()

    async def closed(self) -> bytes:
        """Wait until the broker closes the connection; return the bytes received before that."""
        rest = b""
        with trio.fail_after(PATIENCE):
            try:
                while data := await self.stream.receive_some(65_536):
                    rest += data
            except trio.BrokenResourceError:
                pass
        return rest

    async def silent(self, seconds: float) -> bool:
        """Return whether no bytes arrive for a time; for tests on a virtual clock."""
        with trio.move_on_after(seconds):
            self.side.receive(await self.stream.receive_some(65_536))
            return False
        return True

    def reset(self) -> None:
        """Reset the connection (TCP RST)."""
        sock = self.stream.socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()


class ServedBroker:
    """A served cluster of one broker."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.router = server.router
        self.broker = server.router.broker
        self.port = port
        self.peers: list[Peer] = []

    async def connect(self) -> Peer:
        """Return a new connection, which is closed at the end of the test."""
        peer = Peer(await trio.open_tcp_stream("127.0.0.1", self.port))
        self.peers.append(peer)
        return peer

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the server run until a condition holds. Virtual time does not advance."""
        with trio.fail_after(PATIENCE):
            while not condition():
                await trio.testing.wait_all_tasks_blocked(0.001)


@asynccontextmanager
async def serving(
    *,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, Any] | None = None,
    handlers: Mapping[int, Handler] = HANDLERS,
    watch: Callable[[Ready[Any]], Watch[Any]] = best_watch,
    users: Users | None = None,
    tls: ssl.SSLContext | None = None,
    disk: Disk | None = None,
) -> AsyncIterator[ServedBroker]:
    """Serve a broker. ``users``: users of SASL; ``tls``: TLS of the listener; ``disk``: disk of the data directory."""
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    ids = count(1)
    settings = Settings.parse(QUICK | dict(config or {}))
    nodes, new_uuid = [Node(0, "127.0.0.1", port)], lambda: UUID(int=next(ids))
    data_dir = None if disk is None else DataDir(disk, "DIR")
    cluster = None if data_dir is None else data_dir.open(nodes, new_uuid)
    broker = Broker(nodes, settings, new_uuid, users=users, cluster=cluster)
    for name, partitions in (topics or {"t": 1}).items():
        broker.cluster.create_topic(name, broker.cluster.place(partitions, 1))
    if data_dir is not None:
        data_dir.flush()
    server = Server(
        Router(broker, Journal(trio.current_time()), handlers),
        [BoundListener(0, listener, tls=tls, sasl=None if users is None else ListenerSasl())],
        watch,
        data_dir,
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        place = ServedBroker(server, port)
        try:
            yield place
        finally:
            for peer in place.peers:
                peer.stream.socket.close()
        nursery.cancel_scope.cancel()
