"""The engine on trio: connections, the clock, and the tasks that move it.

One task waits for the bytes of each connection and one sends them, one keeps the time. Whatever comes in moves the
engine at once, so heartbeats, joins and answers do not wait for the user; what has to wait for the user's poll does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from mockbroker.client.engine import Engine
from mockbroker.client.errors import Wakeup
from mockbroker.client.link import Link, LinkState

RECEIVED = 2**18  # bytes asked of a socket at a time

Connect = Callable[[str, int], Awaitable[trio.abc.Stream]]


class Driver:
    """Runs in ``nursery`` from ``start`` to ``stop``. ``connect``: gives the stream to a host and port.

    Its tasks are shielded: who is cancelled from outside can still commit and leave the group before he stops them.
    """

    def __init__(self, engine: Engine, nursery: trio.Nursery, connect: Connect) -> None:
        self.engine, self._nursery, self._connect = engine, nursery, connect
        self._changed = trio.Event()  # something happened that a waiting poll may want to know
        self._earlier = trio.Event()  # the next deadline has moved
        self._woken = False
        self._sending: dict[Link, trio.Event] = {}
        self._carrying: dict[Link, trio.CancelScope] = {}  # connections that are there
        self._scopes: set[trio.CancelScope] = set()
        self._stopped = False

    def start(self) -> None:
        """Keep the time, and do what the engine wants done."""
        self._nursery.start_soon(self._shielded, self.keep_time)

    def stop(self) -> None:
        """End everything that runs."""
        self._stopped = True
        for scope in self._scopes:
            scope.cancel()

    async def _shielded(self, run: Callable[..., Awaitable[None]], *args: object) -> None:
        with trio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            if self._stopped:
                scope.cancel()
            try:
                await run(*args)
            finally:
                self._scopes.discard(scope)

    def now(self) -> None:
        """ListenerCall the engine the time."""
        self.engine.time.now = trio.current_time()

    def advance(self) -> None:
        """Move the engine, without what only the user may do."""
        self.now()
        self.engine.advance(polling=False)
        self.flush()

    def flush(self) -> None:
        """Do what the engine wants done outside."""
        network = self.engine.network
        while network.to_open:
            link = network.to_open.pop()
            self._sending[link] = trio.Event()
            self._nursery.start_soon(self._shielded, self._serve, link)
        for link, ready in self._sending.items():
            if link.outgoing or link.state is LinkState.CLOSED:
                ready.set()
        for link, scope in self._carrying.items():
            if link.state is LinkState.CLOSED:  # whoever sends may wait for a peer that reads nothing
                scope.cancel()
        self._earlier.set()

    async def wait(self, deadline: float, *, interruptible: bool = True) -> None:
        """Until something happened, or the deadline. Raises: Wakeup."""
        self._changed = trio.Event()
        if interruptible:
            self.raise_wakeup()
        with trio.move_on_at(deadline):
            await self._changed.wait()

    def wake(self, *, up: bool) -> None:
        """Let who waits, or waits next, be woken; or not any more."""
        self._woken = up
        self._changed.set()

    def raise_wakeup(self) -> None:
        """Raises: Wakeup, once for each call of ``wake``."""
        if self._woken:
            self._woken = False
            raise Wakeup("wakeup was called")

    async def keep_time(self) -> None:
        """Moves the engine when something is due."""
        while True:
            self._earlier = trio.Event()
            with trio.move_on_at(self.engine.due()) as scope:
                await self._earlier.wait()
            if scope.cancelled_caught:
                self._go_on()

    def _go_on(self) -> None:
        """Something came that the user did not ask for: move the engine, and tell whoever waits."""
        self.advance()
        self._changed.set()

    async def _serve(self, link: Link) -> None:
        """One connection, from its beginning to its end."""
        try:
            stream: trio.abc.Stream | None = None
            try:
                with trio.move_on_at(link.deadline):
                    stream = await self._connect(link.host, link.port)
            except OSError as error:
                self.now()
                link.close(f"{link.host}:{link.port} cannot be reached: {error}")
                return
            if stream is None:
                link.close(f"{link.host}:{link.port} took too long to connect")
                return
            async with stream, trio.open_nursery() as nursery:
                self._carrying[link] = nursery.cancel_scope
                if link.state is LinkState.CLOSED:
                    return
                link.opened()
                nursery.start_soon(self._send, link, stream, nursery.cancel_scope)
                await self._receive(link, stream)
                nursery.cancel_scope.cancel()
        finally:
            self._sending.pop(link, None)
            self._carrying.pop(link, None)
            self.now()
            link.closed()
            if not self._stopped:
                self._go_on()

    async def _receive(self, link: Link, stream: trio.abc.Stream) -> None:
        while link.state is not LinkState.CLOSED:
            try:
                data = await stream.receive_some(RECEIVED)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if not data:
                return
            self.now()
            link.received(bytes(data), self.engine.time.now)
            self._go_on()

    async def _send(self, link: Link, stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
        while True:
            if link.outgoing:
                data, link.outgoing = b"".join(link.outgoing), []
                try:
                    await stream.send_all(data)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    scope.cancel()
                    return
                continue
            if link.state is LinkState.CLOSED:
                scope.cancel()
                return
            self._sending[link] = ready = trio.Event()
            await ready.wait()


async def connect_tcp(host: str, port: int) -> trio.abc.Stream:
    """A TCP connection. Raises: OSError."""
    return await trio.open_tcp_stream(host, port)
