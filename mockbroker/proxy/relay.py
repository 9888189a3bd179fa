"""The listeners of a proxy, one for each broker of the real cluster, and the tasks that forward bytes."""

from __future__ import annotations

import errno
import logging
import math
import os
import socket
import ssl
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count

import trio

from kwire.messages.fetch import FetchResponse
from kwire.messages.metadata import MetadataResponse
from mockbroker.net.bound_listeners import BACK_OFF, OUT_OF_FILES, listen
from mockbroker.proxy.addresses import Address, Advertised, error_reason
from mockbroker.proxy.changeable import Changeable
from mockbroker.proxy.interception import Interception
from mockbroker.proxy.link import Link, never
from mockbroker.proxy.observer import Connection, Moment, Observer
from mockbroker.proxy.repeated_warnings import RepeatedWarnings
from mockbroker.proxy.session import Session, moment
from mockbroker.proxy.splicing import SplicePipe
from mockbroker.proxy.upstream import Upstream

log = logging.getLogger("mockbroker")

FILES_OF_CONNECTION = 2  # the sockets to the client and to the broker
RESERVED_FILES = 50  # open files of the process for other purposes, such as the recording and the control API
REPORT_INTERVAL = 60.0  # seconds between two warnings that no further connections are accepted
BOOTSTRAP = -1  # node id of the listener for clients that do not know the cluster yet
UNKNOWN = Address("", 0)  # before the connection to a broker


class Proxy:
    """A proxy in front of a real cluster. Start its method ``run`` in a nursery.

    Args:
        upstream: the addresses of the real cluster, with the options for connections to it.
        host: address to listen on.
        port: port of the bootstrap listener; 0 for any free port.
        advertised: the addresses that responses advertise, and the ports of the listeners of brokers. None for the
            address ``host`` and free ports.
        observers: observers of the traffic.
        interception: the object that applies fault rules; None to apply no fault rules.
        tls: TLS context for the connections of clients; None for plain TCP.
        open_files: maximum number of files that this process may open; None for no maximum. It limits the number of
            connections, because each connection has two sockets.

    Attributes:
        interception: the object that applies fault rules; None to apply no fault rules. Set it before ``run``.
        own: the address that the proxy advertises for each broker, by node id.
        observers: observers of the traffic. Set them before ``run``.
        brokers: the address that the real cluster advertises for each broker, by node id.
        connections: number of open client connections.
    """

    def __init__(
        self,
        upstream: Upstream,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised: Advertised | None = None,
        observers: Sequence[Observer] = (),
        interception: Interception | None = None,
        tls: ssl.SSLContext | None = None,
        open_files: int | None = None,
    ) -> None:
        self._tls = tls
        self._open_files = open_files
        self._closed = trio.Event()  # set when a connection has ended
        self._reported_full = -math.inf  # trio time
        self.interception = interception
        self._rescheduled = trio.Event()
        self.own: dict[int, Address] = {}
        self.brokers: dict[int, Address] = {}
        self.connections = 0
        self._upstream = upstream
        self.observers = observers
        self._warnings = RepeatedWarnings()
        self._numbers = count(1)
        self._host = host
        self._advertised = advertised or Advertised(host)
        self._bootstrap_sock = listen(host, port)
        self._nursery: trio.Nursery | None = None
        self._pipe = SplicePipe()

    @property
    def bootstrap(self) -> Address:
        """The advertised address of the bootstrap listener, which clients use as ``bootstrap.servers``."""
        port = self._bootstrap_sock.getsockname()[1]
        return self._advertised.bootstrap or Address(self._advertised.host, port)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve clients until cancelled. ``task_status``: trio's task status, set to started when connections are
        accepted.
        """
        with closing(self._pipe):
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._accept, BOOTSTRAP, self._bootstrap_sock)
                if self.interception is not None:
                    self.interception.rescheduled.append(self._reschedule)
                    nursery.start_soon(self._keep_time, self.interception)
                task_status.started()

    def close(self) -> None:
        """Close the bootstrap listener. Call this only if ``run`` was not called."""
        self._bootstrap_sock.close()

    def update(self, addresses: dict[int, Address]) -> None:
        """Open a listener for each new broker, and forward to the new address of a broker that has moved.

        If the proxy applies fault rules, the addresses are also stored in the model of the cluster.

        ``addresses``: addresses of brokers in the real cluster by node id, from a response.

        Raises: OSError if a listener cannot be opened; the reason is logged.
        """
        for node, address in addresses.items():
            if node not in self.own:
                self._open_listener(node)
            if self.brokers.get(node) != address:
                log.info("broker %d of the cluster is at %s", node, address)
                self.brokers[node] = address
        if self.interception is not None:
            self.interception.broker.set_brokers(self.own, self.brokers)

    def _open_listener(self, node: int) -> None:
        assert self._nursery is not None
        advertised = self._advertised
        try:
            sock = listen(self._host, advertised.port(node))
        except OSError as error:
            place = Address(self._host, port) if (port := advertised.port(node)) else self._host
            remedy = ": raise the limit with ulimit -n" if error.errno == errno.EMFILE else ""
            self._warnings.warn(
                f"cannot open a listener on {place} for broker {node} of the cluster ({error_reason(error)}): "
                f"closing the client's connection{remedy}",
                trio.current_time(),
            )
            raise
        self.own[node] = own = advertised.brokers.get(node) or Address(advertised.host, sock.getsockname()[1])
        if advertised.brokers and node not in advertised.brokers:
            log.warning(
                "no option --advertise has an address for broker %d of the cluster: clients get its address %s: add "
                "--advertise %d=HOST:PORT",
                node,
                own,
                node,
            )
        self._nursery.start_soon(self._accept, node, sock)

    async def _accept(self, node: int, sock: socket.socket) -> None:
        """Accept the connections to a listener, and serve them. While the maximum number is reached, new connections
        wait.

        Args:
            node: id of the broker to which requests are forwarded; -1 for the bootstrap listener.
            sock: the listening socket.
        """
        async with (
            trio.SocketListener(trio.socket.from_stdlib_socket(sock)) as listener,
            trio.open_nursery() as nursery,
        ):
            while True:
                await self._wait_for_room()
                try:
                    client = await listener.accept()
                except OSError as error:
                    if error.errno not in OUT_OF_FILES:
                        raise
                    self._report_full(os.strerror(error.errno))
                    await trio.sleep(BACK_OFF)
                    continue
                self.connections += 1
                nursery.start_soon(self._serve, node, client)

    async def _wait_for_room(self) -> None:
        """Wait until the process may open the two sockets of another connection."""
        if self._open_files is None:
            return
        while self.connections >= max((self._open_files - RESERVED_FILES - len(self.own)) // FILES_OF_CONNECTION, 1):
            self._report_full(f"the limit of {self._open_files} open files is reached")
            await self._closed.wait()

    def _report_full(self, reason: str) -> None:
        if trio.current_time() - self._reported_full >= REPORT_INTERVAL:
            self._reported_full = trio.current_time()
            log.warning(
                "%d connections are open: new connections wait: %s: raise the limit with ulimit -n",
                self.connections,
                reason,
            )

    async def _serve(self, node: int, client: trio.SocketStream) -> None:
        accepted = moment()
        own = self.bootstrap if node == BOOTSTRAP else self.own[node]
        broker = self.brokers.get(node, UNKNOWN)
        connection = Connection(next(self._numbers), _peer(client), node, broker, own)
        session = Session(client, client.socket, self.interception, connection, self._warnings, self._learn, self._pipe)
        try:
            with session.scope:
                if await session.admitted() and (self._tls is None or await session.encrypt(self._tls)):
                    await self._serve_admitted(session, connection, accepted)
        except Exception:  # must not end the other connections
            log.exception("connection from %s closed: internal error", connection.client)
        finally:
            session.close()
            await trio.aclose_forcefully(session.client)
            self.connections -= 1
            self._closed.set()
            self._closed = trio.Event()

    async def _serve_admitted(self, session: Session, connection: Connection, accepted: Moment) -> None:
        node = connection.node
        broker = await self._upstream.connect(self._upstream.bootstrap if node == BOOTSTRAP else [self.brokers[node]])
        if broker is None:
            return
        stream, address = broker
        connection = replace(connection, broker=address)
        session.connect(connection)
        intercepts = never if self.interception is None else self.interception.intercepts
        async with stream:
            with self._observed(connection, accepted):
                await session.run(Link(connection, self.observers, intercepts), stream)

    @contextmanager
    def _observed(self, connection: Connection, at: Moment) -> Iterator[None]:
        for observer in self.observers:
            observer.opened(connection, at)
        try:
            yield
        finally:
            for observer in self.observers:
                observer.closed(connection, moment())

    async def _keep_time(self, interception: Interception) -> None:
        """Run the timed actions of fault rules, such as the end of a delay, when they are due."""
        while True:
            self._rescheduled = trio.Event()
            with trio.move_on_at(interception.deadline()):
                await self._rescheduled.wait()
            interception.tick()

    def _reschedule(self) -> None:
        self._rescheduled.set()

    def _learn(self, response: Changeable) -> Generator[None, None, Mapping[int, Address]]:
        """Store the broker addresses in a response, and open listeners for new brokers.

        If the proxy applies fault rules, the topics of a Metadata response are also stored, and the log end offsets of
        a Fetch response that is passed to the rules. Of other Fetch responses, RequestObserver stores them.

        The generator yields between slices (parts of limited size) of a large response.

        Returns: The proxy's address for each broker, by node id.
        """
        if addresses := response.addresses:
            self.update(addresses)
        if self.interception is not None:
            match response.response:
                case MetadataResponse() as metadata:
                    yield from self.interception.broker.learn(metadata)
                case FetchResponse() as fetched if response.exchange.is_intercepted:
                    yield from self.interception.broker.learn_offsets(fetched)
        return self.own


def _peer(client: trio.SocketStream) -> Address:
    """Return the address of a client; an address with the host "" if the client has already disconnected."""
    try:
        host, port, *_ = client.socket.getpeername()
    except OSError:
        return Address("", 0)
    return Address(host, port)
