"""The driver, which runs an engine on trio: its connections, its clock, and the tasks that advance it.

Each connection has two tasks, one that receives and one that sends. One more task runs the timers of the engine.
Received bytes advance the engine immediately, so heartbeats and joins do not wait for the user's poll. Calls of the
rebalance listener do wait for a poll.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

import trio

from mockbroker.client.backoff import Clock
from mockbroker.client.errors import Wakeup
from mockbroker.client.link import Link, LinkState
from mockbroker.client.network import Network

CLOSE_TIMEOUT = 5.0  # seconds for the last commit or acknowledgements, and again for the last requests
RECEIVE_BYTES = 2**18  # maximum number of bytes that are read from a socket at a time

Connect = Callable[[str, int], Awaitable[trio.abc.Stream]]


class DrivenEngine(Protocol):
    """The methods and attributes of an engine that a driver uses.

    Attributes:
        clock: The engine's clock, which the driver sets.
        network: The connections, which the driver opens.
    """

    clock: Clock
    network: Network

    def advance(self, *, polling: bool) -> None:
        """Run all due timers, and send all due requests. ``polling``: True during a poll of the user, else False."""
        ...

    def next_deadline(self) -> float:
        """Return the time at which ``advance`` has to be called if no bytes arrive, in seconds on the engine's
        clock.
        """
        ...


C = TypeVar("C")
E = TypeVar("E", bound=DrivenEngine)


class Driver(Generic[E]):
    """The driver of an engine: runs its connections and timers as trio tasks from ``start`` to ``stop``.

    The tasks are shielded from cancellation: a cancelled user can still commit and leave the group before ``stop``.

    Args:
        engine: The engine.
        nursery: Nursery of the tasks.
        connect: Async function that returns a stream to a host and port.
    """

    def __init__(self, engine: E, nursery: trio.Nursery, connect: Connect) -> None:
        self.engine, self._nursery, self._connect = engine, nursery, connect
        self._changed = trio.Event()  # wakes a waiting poll, which checks for records
        self._deadline_moved = trio.Event()  # the next deadline has moved
        self._wakeup_requested = False
        self._wakeups_enabled = True  # until the consumer closes, as in Java
        self._sending: dict[Link, trio.Event] = {}
        self._connections: dict[Link, trio.CancelScope] = {}  # the open ones
        self._scopes: set[trio.CancelScope] = set()
        self._stopped = False

    def start(self) -> None:
        """Start the task that runs the timers."""
        self._nursery.start_soon(self._shielded, self.run_timers)

    def stop(self) -> None:
        """Cancel all tasks of the driver."""
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

    def update_clock(self) -> None:
        """Set the engine's clock to trio's current time."""
        self.engine.clock.now = trio.current_time()

    def advance(self) -> None:
        """Advance the engine outside of a poll, at the current time."""
        self.update_clock()
        self.engine.advance(polling=False)
        self.flush()

    def flush(self) -> None:
        """Open and close connections as the engine requests, and wake the tasks that send bytes."""
        network = self.engine.network
        while network.to_open:
            link = network.to_open.pop()
            self._nursery.start_soon(self._shielded, self._run_connection, link)
        for link, ready in self._sending.items():
            if link.outgoing:
                ready.set()
        for link, scope in self._connections.items():
            if link.state is LinkState.CLOSED:  # the sending task may wait for a peer that does not read
                scope.cancel()
        self._deadline_moved.set()

    async def wait(self, deadline: float, *, interruptible: bool = True) -> None:
        """Wait until bytes or a timer have advanced the engine, until a wakeup is requested, or until the deadline.

        Args:
            deadline: Time in seconds on trio's clock.
            interruptible: True to raise Wakeup, before the wait, if a wakeup was requested; False to ignore the request
                until the next check.

        Raises: Wakeup if a wakeup was requested.
        """
        self._changed = trio.Event()
        if interruptible:
            self.raise_wakeup()
        with trio.move_on_at(deadline):
            await self._changed.wait()

    def request_wakeup(self) -> None:
        """End the current ``wait``, and make the next call of ``wait`` or ``raise_wakeup`` raise Wakeup."""
        self._wakeup_requested = self._wakeups_enabled
        self._changed.set()

    def disable_wakeups(self) -> None:
        """Ignore wakeups from now on, also one that was requested but has not raised Wakeup yet."""
        self._wakeup_requested = self._wakeups_enabled = False

    def raise_wakeup(self) -> None:
        """Raise Wakeup if a wakeup was requested, and clear the request."""
        if self._wakeup_requested:
            self._wakeup_requested = False
            raise Wakeup("wakeup() interrupted this call: handle the exception, and call again")

    async def run_timers(self) -> None:
        """Advance the engine at each of its deadlines."""
        while True:
            self._deadline_moved = trio.Event()
            with trio.move_on_at(self.engine.next_deadline()) as scope:
                await self._deadline_moved.wait()
            if scope.cancelled_caught:
                self._advance_and_notify()

    def _advance_and_notify(self) -> None:
        """Advance the engine after a timer or a network event, and wake a waiting poll."""
        self.advance()
        self._changed.set()

    async def _run_connection(self, link: Link) -> None:
        """Connect to the broker of a link, and run the connection until it is closed."""
        try:
            stream: trio.abc.Stream | None = None
            try:
                with trio.move_on_at(link.deadline):
                    stream = await self._connect(link.host, link.port)
            except (OSError, UnicodeError) as error:  # UnicodeError: a host name with a label that is too long
                self.update_clock()
                link.close(f"{link.host}:{link.port} cannot be reached: {error}")
                return
            if stream is None:
                link.close(f"{link.host}:{link.port} did not accept the connection within the timeout")
                return
            async with stream, trio.open_nursery() as nursery:
                self._connections[link] = nursery.cancel_scope
                if link.state is LinkState.CLOSED:
                    return
                link.opened()
                nursery.start_soon(self._send, link, stream, nursery.cancel_scope)
                await self._receive(link, stream)
                nursery.cancel_scope.cancel()
        finally:
            self._sending.pop(link, None)
            self._connections.pop(link, None)
            self.update_clock()
            link.closed()
            if not self._stopped:
                self._advance_and_notify()

    async def _receive(self, link: Link, stream: trio.abc.Stream) -> None:
        while link.state is not LinkState.CLOSED:
            try:
                data = await stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if not data:
                return
            self.update_clock()
            link.received(bytes(data), self.engine.clock.now)
            self._advance_and_notify()

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
            self._sending[link] = ready = trio.Event()
            await ready.wait()


@asynccontextmanager
async def driven(
    engine: E, connect: Connect, create: Callable[[Driver[E]], C], close: Callable[[C, bool], Awaitable[None]]
) -> AsyncIterator[C]:
    """Run an engine and its consumer while the block runs. At the end of the block, close the consumer within a limited
    time.

    If the block raises an exception, the consumer is closed too, and the exception is raised again without an
    ExceptionGroup.

    Args:
        engine: The engine.
        connect: Async function that returns a stream to a host and port.
        create: Function that creates the consumer.
        close: Async function that closes the consumer. Its arguments are the consumer, and True if the block ended
            without an exception.

    Raises: RuntimeError if the caller does not run in trio.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError("a consumer of mockbroker needs a trio run: in asyncio, use a client such as aiokafka")
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        driver = Driver(engine, nursery, connect)
        consumer = create(driver)
        driver.start()
        try:
            yield consumer
        except BaseException as error:
            failure = error  # raised below, so that the nursery does not wrap it in an ExceptionGroup
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 2 * CLOSE_TIMEOUT):
                await close(consumer, failure is None)
        except BaseException as error:
            failure = failure or error
        driver.stop()
    if failure is not None:
        raise failure


def new_member_id() -> str:
    """Return a random member id in the format of Kafka's clients: a UUID in URL-safe base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


async def connect_tcp(host: str, port: int) -> trio.abc.Stream:
    """Open a TCP connection; return it as a trio stream. Raises: OSError if no connection can be established.

    Args:
        host: Host name or IP address.
        port: TCP port.
    """
    return await trio.open_tcp_stream(host, port)
