"""The HTTP server of the control API: hypercorn's protocol on a listener of mockbroker, beside the Kafka listeners.

hypercorn serves each connection. The listener and the connections are mockbroker's own: their number is limited,
clients that stop reading are disconnected, and an exception in one connection affects no other connection.
"""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from mockbroker.api.cluster import Cluster
from mockbroker.base.settings import Settings
from mockbroker.control.access import Access
from mockbroker.control.app import application
from mockbroker.control.control import Control
from mockbroker.control.page.document import StateDocument
from mockbroker.control.shared_state import SHARE, SharedState
from mockbroker.control.table import ROUTES
from mockbroker.net.addresses import LOOPBACK
from mockbroker.net.slices import complete

SPARE = 200  # connections beside those of waits and event streams
SEND_TIMEOUT = 10.0  # seconds until a client must have read something
KEEP_ALIVE = 30.0  # seconds until an idle connection, or one with an incomplete request, is closed
GRACE = 0.8  # seconds for responses after the server stops; the whole command ends within 2 s
RESTARTS = 3  # attempts after a failure of the listener
RESTART_PAUSE = 1.0  # seconds
SESSION_BYTES = 32
LAG_PAUSE = 1.0  # seconds between two points of the lag of groups
log = logging.getLogger("mockbroker")


class HttpServer:
    """The control API of a cluster on a bound socket.

    Args:
        cluster: the cluster.
        settings: the settings of the brokers.
        host: the address to which the socket is bound.
        sock: the listening socket.
        token: the bearer token that requests must have; None to serve requests without a token.
        names: names that the Host header may contain in addition to the address.

    Attributes:
        url: the base URL.
        control: the state that the handlers share.
        stopped: event that is set when all connections have ended after ``stop``.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        host: str,
        sock: socket.socket,
        token: str | None,
        names: Iterable[str],
    ) -> None:
        port = sock.getsockname()[1]
        local = LOOPBACK.get(host, host)
        self.url = f"http://{f'[{local}]' if ':' in local else local}:{port}"
        self.control = Control(cluster, Access(host, port, token, names, _new_session), settings)
        self.control.state = SharedState(StateDocument(self.control))
        self._sock = sock
        self._app = ASGIWrapper(application(self.control, ROUTES))  # type: ignore[arg-type]
        self._context = WorkerContext(None)
        self._config = Config()
        self._config.keep_alive_timeout = KEEP_ALIVE
        self._config.include_server_header = False
        self._config.errorlog = logging.getLogger("mockbroker.http")
        most = settings.mockbroker_http_max_waiters + settings.mockbroker_http_max_streams + SPARE
        self._most = most
        self._streams: set[trio.SocketStream] = set()
        self._ended = trio.lowlevel.ParkingLot()
        self.stopped = trio.Event()

    @property
    def connection_count(self) -> int:
        """The number of open HTTP connections."""
        return len(self._streams)

    async def run(self) -> None:
        """Serve until ``stop`` is called, then end all connections within GRACE seconds.

        After an unexpected exception, which is logged, the server starts again. The number of restarts is limited.
        """
        async with trio.open_nursery() as beside:
            beside.start_soon(self.control.feed.run)
            beside.start_soon(self.control.state.run)
            beside.start_soon(self.control.request_feed.run)
            beside.start_soon(self._record_lags)
            for attempt in range(RESTARTS + 1):
                try:
                    await self._serve()
                except Exception:
                    failures = f"failure {attempt + 1} of at most {RESTARTS + 1}"
                    log.exception("the control API raised an exception (%s); the brokers continue", failures)
                    if attempt < RESTARTS:
                        await trio.sleep(RESTART_PAUSE)
                if self.control.stopping.is_set():
                    break
            else:
                log.error("the control API has stopped after %d failures; the brokers continue", RESTARTS + 1)
                await self.control.stopping.wait()
            beside.cancel_scope.cancel()
        self.stopped.set()

    async def _record_lags(self) -> None:
        """Record the lag of all groups about once per second, even if no client reads the lag."""
        control = self.control
        while True:
            began = trio.current_time()
            time_ms = round(control.cluster.clock.now() * 1000)
            try:
                await complete(control.lags.sample(control.broker.groups, control.broker.cluster.topics, time_ms))
            except Exception:
                log.exception("control API: the lag of groups cannot be recorded")
            await trio.sleep(max(LAG_PAUSE, SHARE * (trio.current_time() - began)))

    def stop(self) -> None:
        """End waits and event streams, and accept no further connections."""
        self.control.stop()

    def close(self) -> None:
        """Close the listening socket of the control API."""
        self.control.feed.close()
        self._sock.close()

    async def _serve(self) -> None:
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as listening:
                listening.start_soon(self._accept, connections)
                await self.control.stopping.wait()
                listening.cancel_scope.cancel()
            await self._context.terminated.set()  # ends idle connections
            with trio.move_on_after(GRACE):
                while self._streams:
                    await self._ended.park()
            for stream in self._streams:
                stream.socket.close()  # hypercorn shields its sends from cancellation
            connections.cancel_scope.cancel()

    async def _accept(self, connections: trio.Nursery) -> None:
        async with trio.SocketListener(trio.socket.from_stdlib_socket(self._sock.dup())) as listener:
            await trio.serve_listeners(self._serve_connection, [listener], handler_nursery=connections)

    async def _serve_connection(self, stream: trio.SocketStream) -> None:
        if len(self._streams) >= self._most:
            await stream.aclose()
            return
        self._streams.add(stream)
        bounded: Any = _BoundedStream(stream)
        try:
            await _Connection(self._app, self._config, self._context, ConnectionState({}), bounded)
        except Exception:
            log.exception("control API: an HTTP connection was closed because of an unexpected exception")
        finally:
            self._streams.remove(stream)
            self._ended.unpark_all()


class _Connection(TCPServer):
    """An HTTP connection that ends when its client disconnects.

    (With hypercorn's own class, it would end only after KEEP_ALIVE seconds.)
    """

    _is_over = False

    async def _read_data(self) -> None:
        await super()._read_data()
        self._is_over = True
        await self.idle_task.stop()

    async def _idle_timeout(self) -> None:
        if not self._is_over:
            await super()._idle_timeout()


class _BoundedStream:
    """A stream of a connection for hypercorn, with a limit on the time of sending.

    ``send_all`` fails if the client reads no data for SEND_TIMEOUT seconds. ``stream``: the stream without a limit.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.socket = stream.socket
        self.receive_some = stream.receive_some
        self.send_eof = stream.send_eof
        self.aclose = stream.aclose

    async def send_all(self, data: bytes) -> None:
        with trio.move_on_after(SEND_TIMEOUT) as scope:
            await self._stream.send_all(data)
        if scope.cancelled_caught:
            self.socket.close()
            raise trio.BrokenResourceError


@asynccontextmanager
async def serving(
    cluster: Cluster,
    settings: Settings,
    host: str,
    sock: socket.socket,
    token: str | None = None,
    names: Iterable[str] = (),
) -> AsyncIterator[HttpServer]:
    """Serve the control API of a cluster for the duration of an ``async with`` block.

    Args:
        cluster: the cluster.
        settings: the settings of the brokers.
        host: the address to which the socket is bound.
        sock: the listening socket, which is closed at the end.
        token: the bearer token that requests must have; None to serve requests without a token.
        names: names that the Host header may contain in addition to the address.
    """
    server = HttpServer(cluster, settings, host, sock, token, names)
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        try:
            yield server
        except BaseException as error:
            failure = error  # raised below, so that the nursery does not wrap it in an ExceptionGroup
        server.stop()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 2 * GRACE):
            await server.stopped.wait()
        server.close()
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _new_session() -> str:
    return secrets.token_urlsafe(SESSION_BYTES)
