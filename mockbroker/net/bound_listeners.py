"""The listening sockets of the brokers, and the sockets that reserve the ports of stopped brokers."""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import trio
from trio.lowlevel import notify_closing, wait_readable

from kwire.lazy_dataclass import dataclass
from mockbroker.security.listener_sasl import ListenerSasl

log = logging.getLogger("mockbroker")

BACK_OFF = 0.1  # seconds to wait after accept() failed for lack of file descriptors or memory
BACKLOG = 1_024
REUSE = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)  # SO_REUSEADDR shares the port on Windows
ACCEPTS = 64  # connections accepted at once
CLOSED = -1  # the file descriptor of a closed socket
OUT_OF_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener of a broker, with its listening socket.

    Attributes:
        node: Id of the broker.
        sock: The listening socket.
        name: Name of the listener.
        tls: TLS context of the connections; None for a listener without TLS.
        sasl: SASL settings with which clients authenticate; None for a listener without SASL.
    """

    node: int
    sock: socket.socket
    name: str = ""
    tls: ssl.SSLContext | None = None
    sasl: ListenerSasl | None = None


Accepted = Callable[[BoundListener, socket.socket, Sequence[object]], None]
Admit = Callable[[BoundListener, socket.socket, Sequence[object]], Awaitable[bool]]


@dataclass(slots=True)
class StoppedListener:
    """The listener of a stopped broker. The port of the listener is reserved until the broker restarts.

    Attributes:
        listener: The listener as it was before the broker stopped; its socket is closed.
        address: Host and port that the listener was bound to.
        held: Bound socket that reserves the port; None if another process uses the port.
    """

    listener: BoundListener
    address: tuple[str, int]
    held: socket.socket | None = None

    def hold(self) -> None:
        """Reserve the port: bind a socket to the port without listening.

        The operating system then refuses connections of clients, and no other process can use the port. If a process
        uses the port already, do nothing.
        """
        with suppress(OSError):
            self.held = _bound(*self.address)

    def release(self) -> None:
        """Close the socket that reserves the port, so that the port can be bound again."""
        if self.held is not None:
            self.held.close()
            self.held = None

    def listen(self) -> BoundListener:
        """Listen at the old address again, and return the listener with its new socket.

        Raises:
            OSError: Another process uses the port. The port is then reserved again if possible.
        """
        sock = self.held = self.held or _bound(*self.address)
        try:
            sock.listen(BACKLOG)
        except OSError:
            self.release()
            self.hold()
            raise
        self.held = None
        return replace(self.listener, sock=sock)


class Listeners:
    """The listeners of all brokers of a cluster, with the tasks that accept connections.

    Args:
        bound: the listening sockets of all brokers.
        accepted: function that is called for each new connection for which ``admit`` has returned True. It gets the
            listener, the socket of the connection, and the client's address as ``accept`` returns it.
        admit: function that waits while a limit delays a new connection. It gets the same arguments as ``accepted``,
            and returns True to serve the connection, False if it has rejected the connection.
    """

    def __init__(self, bound: Sequence[BoundListener], accepted: Accepted, admit: Admit) -> None:
        self.bound = list(bound)
        self._accepted = accepted
        self._admit = admit
        self._stopped: list[StoppedListener] = []
        self._nursery: trio.Nursery | None = None

    def start(self, nursery: trio.Nursery) -> None:
        """For each listener, start a task that accepts connections."""
        self._nursery = nursery
        for listener in self.bound:
            nursery.start_soon(self._accept, listener)

    def replace(self, bound: Sequence[BoundListener]) -> None:
        """Close all listeners, and accept connections at the listeners in ``bound`` instead."""
        assert self._nursery is not None
        self.close()
        self.bound = list(bound)
        self.start(self._nursery)

    def stop(self, node: int) -> None:
        """Close the listeners of a broker and reserve their ports."""
        for listener in self.bound:
            if listener.node == node:
                stopped = StoppedListener(listener, listener.sock.getsockname()[:2])
                notify_closing(listener.sock)
                listener.sock.close()
                stopped.hold()
                self._stopped.append(stopped)
        self.bound = [listener for listener in self.bound if listener.node != node]

    @property
    def first_name(self) -> str:
        """The name of the first listener of the brokers; stopped brokers count only if all are stopped."""
        return (self.bound or [stopped.listener for stopped in self._stopped])[0].name

    @property
    def stopped_nodes(self) -> list[int]:
        """The ids of the stopped brokers."""
        return sorted({stopped.listener.node for stopped in self._stopped})

    def restart(self, node: int) -> None:
        """Listen again at the addresses of a stopped broker.

        Raises:
            OSError: Another process uses one of the ports. The broker then remains stopped.
        """
        assert self._nursery is not None
        returning = [stopped for stopped in self._stopped if stopped.listener.node == node]
        opened: list[BoundListener] = []
        try:
            for stopped in returning:
                listener = stopped.listen()
                opened.append(listener)
        except OSError:
            for listener, stopped in zip(opened, returning, strict=False):
                listener.sock.close()
                stopped.hold()
            raise
        self._stopped = [stopped for stopped in self._stopped if stopped.listener.node != node]
        self.bound = [*self.bound, *opened]
        for listener in opened:
            self._nursery.start_soon(self._accept, listener)

    def close(self) -> None:
        """Close every listener and free the ports of stopped brokers."""
        for listener in self.bound:
            notify_closing(listener.sock)
            listener.sock.close()
        for stopped in self._stopped:
            stopped.release()
        self._stopped.clear()

    async def _accept(self, listener: BoundListener) -> None:
        sock = listener.sock
        while sock.fileno() != CLOSED:
            try:
                await wait_readable(sock)
                for _ in range(ACCEPTS):
                    accepted, address = sock.accept()
                    if await self._admit(listener, accepted, address):
                        self._accepted(listener, accepted, address)
            except trio.ClosedResourceError:
                return  # closed by replace or stop
            except OSError as error:
                if error.errno in OUT_OF_FILES:
                    log.warning("cannot accept connections: %s", error)
                    await trio.sleep(BACK_OFF)
                # else no more connections are pending, or the peer closed the connection before it was accepted


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: Address to bind to; "" for all addresses.
        port: Port to bind to; 0 picks a free port.

    Raises:
        OSError: The address cannot be bound.
    """
    sock = _bound(host, port)
    try:
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address, but does not listen yet.

    Args:
        host: Host name or IP address; "" for all addresses.
        port: TCP port; 0 picks a free port.

    Raises:
        OSError: The address cannot be bound.
    """
    name = host.encode() if host.isascii() else host  # Python imports its IDNA codec to encode a text
    family, kind, protocol, _, address = socket.getaddrinfo(
        name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, REUSE, 1)
        sock.setblocking(False)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
