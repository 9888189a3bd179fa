"""The connections with sockets: reading requests, sending to slow readers, and closing idle connections.

A readable connection is read once, its complete requests are served, and the responses are sent in one call. This needs
no task or timer per request. If the socket does not accept all bytes, a task sends the rest, and the connection is not
read until the rest is sent.
"""

from __future__ import annotations

import logging
import secrets
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Protocol

import trio
from trio.lowlevel import notify_closing, wait_writable

from kwire.frames import FrameBuffer
from mockbroker.base.effects import Client, Pace, Reply
from mockbroker.broker.router import Router
from mockbroker.broker.stages import Stage
from mockbroker.net.accepting import Gate
from mockbroker.net.bound_listeners import BoundListener
from mockbroker.net.connection import ClientRequests
from mockbroker.net.pump import Connection, Pump
from mockbroker.net.readiness import Ready, Watch
from mockbroker.net.tls import TlsError, TlsStream

if TYPE_CHECKING:
    import ssl

    from mockbroker.faults.stage import Admission
    from mockbroker.security.listener_sasl import ListenerSasl

log = logging.getLogger("mockbroker")

READ_SIZE = 65_536  # bytes per recv()
READ_AHEAD = 65_536  # maximum bytes buffered while a request is pending; with more, the connection is not read
SEND_TIMEOUT = 30.0  # seconds without progress after which the connection of a slow reader is closed
FRAME_TIMEOUT = 30.0  # maximum seconds from the first to the last byte of a request, or for a TLS handshake
CHECK_INTERVAL = 5.0  # seconds between two checks for connections that are idle or too slow
RESET = struct.pack(
    "HH" if sys.platform == "win32" else "ii", 1, 0
)  # SO_LINGER on, 0 s: close() drops unsent bytes and sends a reset
HANDSHAKE_FAILURE = b"\x15\x03\x03\x00\x02\x02\x28"  # TLS record: a fatal alert
NONCE_BYTES = 18  # random bytes in the server's part of a SCRAM nonce


class Admit(Protocol):
    """The interface of the function that applies the fault rules to a new connection and returns their decision."""

    def __call__(self, number: int, node: int, listener: str, address: str) -> Admission | None:
        """Return the decision of the fault rules about a new connection; None to serve the connection as usual.

        Args:
            number: number of the connection.
            node: id of the broker that accepted the connection.
            listener: name of the listener that accepted the connection.
            address: address of the client, without port.
        """
        ...


class SocketConnection(Connection):
    """A client connection with a socket.

    Args:
        owner: The object that manages all connections with sockets.
        requests: The requests of the connection.
        peer: Address of the client.
        stages: Checks that only the requests of this connection pass before they are handled, such as the SASL
            authentication.

    Attributes:
        sock: The non-blocking socket.
        frames: The buffer that divides received bytes into requests.
        out: Encoded responses that were not sent yet.
        watched: True while bytes are read from the socket as soon as they arrive; False while reading is paused.
        since: Time at which the connection was accepted, in seconds since 1970.
        active: Time of the last received bytes or the last response, in seconds of trio's clock.
        incomplete_since: Time at which the first bytes of an incomplete request arrived, in seconds of trio's clock;
            None if no request is incomplete.
    """

    __slots__ = ("_owner", "_served", "active", "incomplete_since", "since", "sock", "watched")

    requests: ClientRequests
    frames: FrameBuffer
    out: bytearray

    def __init__(
        self, owner: Sockets, sock: socket.socket, requests: ClientRequests, peer: str, stages: tuple[Stage, ...] = ()
    ) -> None:
        super().__init__(requests.connection, requests, peer, stages)
        self.frames = requests.frames
        self.sock = sock
        self.out = bytearray()
        self.watched = False
        self.since = time.time()
        self.active = owner.now()
        self.incomplete_since: float | None = None
        self._owner = owner
        self._served = 0  # value of ``requests.taken`` when the connection was last served

    def answer(self, reply: Reply) -> int:
        out = self.out
        out += self.requests.answer(reply)
        return len(out)

    def send(self) -> bool:
        if self.pace is not None:
            if not self.pace.finished:
                return self._send_slowly(self.pace)
            self.pace = None
        try:
            sent = self.sock.send(self.out)
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        if sent == len(self.out):
            self.out.clear()
        else:
            del self.out[:sent]
            self._owner.drain(self)
        return True

    def _send_slowly(self, pace: Pace) -> bool:
        """Send the bytes that a fault rule allows now; return False if the connection is broken.

        If all bytes were sent, clear the attribute ``pace``. ``pace``: the pace that the fault rule sets.
        """
        try:
            sent = self.sock.send(self.out[: pace.allowed]) if pace.allowed else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            return False
        pace.allowed -= sent
        del self.out[:sent]
        if not self.out:
            pace.finished = True
            self.pace = None
        return True

    def hang_up(self, reason: str) -> None:  # noqa: ARG002
        self.out = bytearray()  # ends the task that drains it
        self.stop_reading()
        self._owner.forget(self)
        self._owner.notify_closing(self.sock)
        self.sock.close()

    def reset(self) -> None:
        """Configure the socket so that its close sends a TCP reset."""
        with suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if isinstance(self.sock, TlsStream):
            self.sock.aborted = True
        self.out.clear()

    def fail_handshake(self) -> None:
        with suppress(OSError):
            socket.socket.send(self.sock, HANDSHAKE_FAILURE)  # not encrypted

    def regulate(self) -> None:
        requests = self.requests
        if not self.frames.held:
            self.incomplete_since = None
        else:
            self._note_request()
        self._served = requests.taken
        if self.watched:
            busy = self.draining or self.held or self.queued or self.muted or requests.ticket is not None
            if busy and self._full:
                self.stop_reading()
        elif not (self.ended or self.closing or self._full):
            self.watched = True
            self._owner.watch.add(self.sock, self)

    def stop_reading(self) -> None:
        self.watched = False
        self._owner.watch.remove(self.sock)

    def answered_later(self) -> None:
        self.active = self._owner.now()

    def _note_request(self) -> None:
        """Set ``incomplete_since`` at the first bytes of an incomplete request. Clear it while a request is pending or
        the connection is muted. The buffer ``frames`` must not be empty.
        """
        requests = self.requests
        if requests.ticket is not None or self.muted:
            self.incomplete_since = None
        elif self.incomplete_since is None or requests.taken != self._served:
            self.incomplete_since = self.active

    @property
    def _full(self) -> bool:
        """Whether reading from the client must stop.

        There are two reasons: the client does not read its responses, or its requests cannot be served yet and more
        than READ_AHEAD bytes of them are buffered.
        """
        if self.draining or self.send_buffer_full:
            return True
        return (self.requests.ticket is not None or self.queued or self.muted) and self.frames.held > READ_AHEAD


class Sockets:
    """All connections of a cluster that have sockets.

    Args:
        pump: The pump, which serves the connections.
        numbers: Function that returns the number of a new connection.
        watch: Function that creates the watcher of readable connections.
        turn: Function that serves queued connections for a limited time. It gets trio's time in seconds, and returns
            True if connections remain in the queue.
        gate: The object that counts the open connections and applies the limits to new connections.
        now: Function that returns the time in seconds that idle and send timeouts use.
        notify_closing: Function that is called before a socket is closed.
        tls_context: Function that returns the TLS context for a new connection; None if the listener does not use TLS.

    Attributes:
        connections: The open connections by number.
        watch: The watcher of readable connections, created by ``start``.
        admit: Function that applies the fault rules to a new connection and returns their decision; None if no fault
            rules were used.
        now: The argument ``now``, or a faster function with the same result.
        notify_closing: The argument ``notify_closing``.
    """

    connection_type = SocketConnection  # the simulator replaces it

    def __init__(
        self,
        pump: Pump,
        numbers: Callable[[], int],
        watch: Callable[[Ready[SocketConnection]], Watch[SocketConnection]],
        turn: Callable[[float], bool],
        gate: Gate,
        now: Callable[[], float] = trio.current_time,
        notify_closing: Callable[[socket.socket], None] = notify_closing,
        tls_context: Callable[[BoundListener], ssl.SSLContext | None] = lambda listener: listener.tls,
    ) -> None:
        self.now = now
        self.notify_closing = notify_closing
        self.connections: dict[int, SocketConnection] = {}
        self.watch: Watch[SocketConnection]
        self._pump = pump
        self._numbers = numbers
        self._make_watch = watch
        self._turn = turn
        self._gate = gate
        self._nursery: trio.Nursery | None = None
        self._tls_context = tls_context
        self.admit: Admit | None = None
        self._pause = trio.CancelScope()  # the pause between two checks for idle connections

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks that read connections and close idle connections."""
        self._nursery = nursery
        if self.now is trio.current_time:
            self.now = trio.lowlevel.current_clock().current_time  # the same time at a third of the cost
        self.watch = self._make_watch(self._read)
        nursery.start_soon(self.watch.run)
        nursery.start_soon(self._close_idle)

    def open(self, listener: BoundListener, sock: socket.socket, address: Sequence[object]) -> None:
        """Add a connection that a listener has accepted, or close the connection if a fault rule requires this.

        If the broker then has more connections than ``max.connections``, close its longest idle connection.

        Args:
            listener: the listener that has accepted the connection.
            sock: socket of the connection.
            address: address of the client, as ``accept`` returns it.
        """
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number, host, peer = self._numbers(), f"/{address[0]}", f"{address[0]}:{address[1]}"
        admission = None
        if self.admit is not None:
            admission = self.admit(number, listener.node, listener.name, str(address[0]))
            if admission is not None and admission.refused:
                _refuse(sock, admission, peer)
                return
        router = self._pump.router
        tls = self._tls_context(listener)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        if listener.sasl is not None:
            connection = self._open_with_sasl(number, listener, listener.sasl, host, sock, peer)
        else:
            connection = self.connection_type(self, sock, _requests(number, listener, host, router, sock), peer)
        if not self.connections:
            self._pause.cancel()
        self.connections[number] = connection
        self._pump.open(connection)
        self._gate.opened(listener.node, listener.name, str(address[0]))
        self._close_excess(listener.node)
        if admission is not None and admission.how == "mute":
            connection.muted = True
            if listener.tls is not None:
                return  # reading would answer the TLS handshake
        connection.watched = True
        self.watch.add(sock, connection)

    def _open_with_sasl(
        self, number: int, listener: BoundListener, sasl: ListenerSasl, host: str, sock: socket.socket, peer: str
    ) -> SocketConnection:
        """Return a new connection to a SASL listener.

        Args:
            number: number of the connection.
            listener: the listener that has accepted the connection.
            sasl: the SASL settings of the listener.
            host: address of the client with a leading slash, without port.
            sock: socket of the connection.
            peer: address of the client, for the log.
        """
        from mockbroker.broker.authentication import (  # late: most clusters have no SASL
            Authentication,
            AuthenticationStage,
        )
        from mockbroker.net.sasl_connection import SaslRequests

        router = self._pump.router
        broker = router.broker
        authentication = Authentication(broker.users, broker.settings, _new_nonce, sasl)
        client = Client(listener.node, "", host, listener.name)
        requests = SaslRequests(number, client, router, authentication)
        stages = (AuthenticationStage(authentication, broker),)
        return self.connection_type(self, sock, requests, peer, stages)

    def stop(self, node: int, *, abruptly: bool) -> None:
        """Close the connections to a broker.

        Args:
            node: Id of the broker.
            abruptly: True to reset the connections, False to send finished responses first.
        """
        for connection in list(self.connections.values()):
            if connection.requests.node == node:
                if abruptly:
                    connection.reset()
                else:
                    self._pump.flush(connection)
                self._pump.close(connection)

    def check_idle(self) -> None:
        """Check for idle connections now, because ``connections.max.idle.ms`` may have changed."""
        self._pause.cancel()

    def close(self) -> None:
        """Stop reading from all connections, because the server ends."""
        self.watch.close()

    def forget(self, connection: SocketConnection) -> None:
        """Remove a closed connection from ``connections``, and from the numbers of connections that are compared with
        limits.
        """
        if self.connections.pop(connection.number, None) is not None:
            client = connection.requests.client
            self._gate.closed(client.node, client.listener, client.host.removeprefix("/"))

    def _close_excess(self, node: int) -> None:
        """Close the longest idle connection of a broker, if the broker has more connections than ``max.connections``.

        Connections to a protected listener (in Kafka the inter-broker listener) are not closed. A broker can exceed the
        limit because it accepts connections to a protected listener even beyond the limit.
        """
        quotas = self._gate.quotas(node)
        if quotas.is_excessive():
            closable = [
                each
                for each in self.connections.values()
                if each.requests.node == node and quotas.may_be_closed(each.requests.client.listener)
            ]
            if closable:
                self._pump.close(min(closable, key=lambda each: each.active), "max.connections is exceeded")

    def drain(self, connection: SocketConnection) -> None:
        """Start a task that sends the unsent responses of a connection to a client that reads slowly."""
        if self._nursery is not None:
            connection.draining = True
            self._nursery.start_soon(self._drain, connection)

    def _read(self, connections: Sequence[SocketConnection]) -> bool:
        """Read each readable connection once, and serve queued connections for one turn.

        Returns: True if connections remain in the queue.
        """
        now = self.now()
        for connection in connections:
            if not connection.watched:
                continue  # closed or paused while an earlier connection was handled
            try:
                data = connection.sock.recv(READ_SIZE)
            except BlockingIOError:
                continue
            except TlsError as error:
                log.warning("connection from %s closed: %s", connection.peer, error)
                self._pump.close(connection)
                continue
            except OSError:  # reset by the peer
                self._pump.close(connection)
                continue
            if not data:
                connection.ended = True
                connection.stop_reading()
                self._pump.close_if_over(connection)
                continue
            frames = connection.frames
            complete = frames.feed(data)
            connection.active = now
            if complete:
                self._pump.enqueue(connection)
            if not complete or frames.held > READ_AHEAD:  # else both are done when the connection is served
                self._pump.weigh(connection)
                if not connection.closed:
                    connection.regulate()
        return self._turn(now)

    async def _drain(self, connection: SocketConnection) -> None:
        """Send the unsent responses to a slow reader. Close the connection if the client reads nothing for SEND_TIMEOUT
        seconds.
        """
        try:
            while connection.out and not connection.closed:
                with trio.fail_after(SEND_TIMEOUT):
                    await wait_writable(connection.sock)
                if not self.send_more(connection):
                    break
        except (OSError, trio.ClosedResourceError):
            self._pump.close(connection)
        except trio.TooSlowError:
            self.close_slow_reader(connection)
        self.end_drain(connection)

    def send_more(self, connection: SocketConnection) -> bool:
        """Send unsent responses to a slow reader whose socket is writable.

        Returns: False if the unsent responses must wait until changes are on disk; True otherwise, even if bytes
        remain.

        Raises:
            OSError: The connection is broken.
        """
        if self._pump.hold(connection):  # a response was added that must wait for the disk
            return False
        with suppress(BlockingIOError):  # no longer writable
            sent = connection.sock.send(connection.out)
            del connection.out[:sent]
            self._pump.weigh(connection)
        return True

    def close_slow_reader(self, connection: SocketConnection) -> None:
        """Close a connection whose client has read nothing for SEND_TIMEOUT seconds."""
        log.warning("connection from %s closed: the client read no responses for %g s", connection.peer, SEND_TIMEOUT)
        self._pump.close(connection)

    def end_drain(self, connection: SocketConnection) -> None:
        """Serve a connection again after the task that sent its responses to a slow reader has ended."""
        connection.draining = False
        connection.active = self.now()
        if connection.incomplete_since is not None:  # its rest could not be read until now
            connection.incomplete_since = connection.active
        self._pump.enqueue(connection)
        self._turn(connection.active)

    async def _close_idle(self) -> None:
        """Close idle connections, and connections whose next request or TLS handshake remains incomplete for too long.

        The task runs until it is cancelled.
        """
        while True:
            pause = min(CHECK_INTERVAL, self._idle_limit) if self.connections else inf
            with trio.move_on_after(pause) as self._pause:
                await trio.sleep_forever()
            self.close_overdue()

    @property
    def _idle_limit(self) -> float:
        """The value of ``connections.max.idle.ms``, in seconds."""
        idle_ms = self._pump.router.broker.settings.connections_max_idle_ms
        return inf if idle_ms < 0 else idle_ms / 1000

    def close_overdue(self) -> None:
        """Close the connections that have exceeded the maximum idle time, or FRAME_TIMEOUT seconds for a request or TLS
        handshake.
        """
        now, idle_limit = self.now(), self._idle_limit
        for connection in list(self.connections.values()):
            since = connection.incomplete_since
            late = since is not None and now - since > FRAME_TIMEOUT
            if late and connection.watched and not connection.queued:  # else the broker has not read it
                log.warning(
                    "connection from %s closed: a request took more than %g s to arrive", connection.peer, FRAME_TIMEOUT
                )
                self._pump.close(connection)
            elif now - connection.active > FRAME_TIMEOUT and _in_handshake(connection):
                log.warning(
                    "connection from %s closed: its TLS handshake took more than %g s", connection.peer, FRAME_TIMEOUT
                )
                self._pump.close(connection)
            elif connection.requests.ticket is None and now - connection.active > idle_limit:
                self._pump.close(connection)


def _refuse(sock: socket.socket, admission: Admission, peer: str) -> None:
    """Close a new connection in the way that a fault rule requires.

    Args:
        sock: Socket of the connection.
        admission: The decision of the fault rule, with the way of closing.
        peer: Address of the client, for the log.
    """
    log.warning("connection from %s closed by fault rule %s (action: %s)", peer, admission.rule, admission.how)
    with suppress(OSError):
        if admission.how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        elif admission.how == "fail_tls":
            sock.send(HANDSHAKE_FAILURE)
    sock.close()


def _new_nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


def _in_handshake(connection: SocketConnection) -> bool:
    return isinstance(connection.sock, TlsStream) and not connection.sock.established and not connection.muted


def _requests(number: int, listener: BoundListener, host: str, router: Router, sock: socket.socket) -> ClientRequests:
    """Return the protocol side of a new connection without SASL.

    Args:
        number: number of the connection.
        listener: the listener that has accepted the connection.
        host: address of the client with a leading slash, without port.
        router: the router, which handles the requests.
        sock: socket of the connection. With TLS, the client certificate determines the principal.
    """
    if not isinstance(sock, TlsStream):
        return ClientRequests(number, listener.node, host, router, listener.name)
    from mockbroker.net.tls_connection import TlsRequests  # late: most clusters have no TLS

    client = Client(listener.node, "", host, listener.name)
    return TlsRequests(number, client, router, lambda: sock.getpeercert(binary_form=True))
