"""Connections on sockets: reads what is readable, drains what peers are slow to read, closes those that are idle.

A connection that is readable is read once, its complete requests are served, and the answers are sent once. There is
no task and no time limit per request. What cannot be sent at once is drained by a task, and until then the connection
is not read.
"""

from __future__ import annotations

import logging
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

import trio
from trio.lowlevel import notify_closing, wait_writable

from mockbroker.base.effects import Client, Reply
from mockbroker.broker.authentication import Authentication, AuthenticationStage
from mockbroker.broker.stages import Stage
from mockbroker.net.bound_listeners import BoundListener
from mockbroker.net.connection import ClientRequests
from mockbroker.net.pump import Connection, Pump
from mockbroker.net.readiness import Ready, Watch
from mockbroker.net.sasl_connection import SaslRequests
from mockbroker.net.tls import TlsError, TlsSocket

log = logging.getLogger("mockbroker")

READ_SIZE = 65_536  # bytes asked for at once
READ_AHEAD = 65_536  # bytes kept for a connection whose request is pending; then it is not read
SEND_TIMEOUT = 30.0  # seconds without progress after which a peer that does not read is given up
FRAME_TIMEOUT = 30.0  # seconds a request may take to come in whole, however slowly
LOOK_AROUND = 5.0  # seconds between two checks for connections that are idle or too slow
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a socket that is closed drops what it has to send
NONCE_BYTES = 18  # of randomness, in the server's half of a nonce


class SocketConnection(Connection):
    """A connection on a socket.

    frames: what was received and not yet served
    out: answers to be sent
    watched: it is read when something comes in
    active: when something last came in or was answered, in seconds
    begun: when a request began that has not come in whole, in seconds
    """

    __slots__ = ("_owner", "_served", "active", "begun", "frames", "out", "sock", "watched")

    requests: ClientRequests

    def __init__(
        self, owner: Sockets, sock: socket.socket, requests: ClientRequests, peer: str, stages: tuple[Stage, ...] = ()
    ) -> None:
        super().__init__(requests.connection, requests, peer, stages)
        self.frames = requests.frames
        self.sock = sock
        self.out = bytearray()
        self.watched = False
        self.active = trio.current_time()
        self.begun: float | None = None
        self._owner = owner
        self._served = 0  # requests given out when it was last served

    @property
    def buffered(self) -> int:
        return self.frames.held

    @property
    def unsent(self) -> int:
        return len(self.out)

    def answer(self, reply: Reply) -> int:
        out = self.out
        out += self.requests.answer(reply)
        return len(out)

    def send(self) -> bool:
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

    def hang_up(self, reason: str) -> None:  # noqa: ARG002
        self.out = bytearray()  # a task that drains it has yet to notice
        self.stop_reading()
        self._owner.forget(self)
        notify_closing(self.sock)
        self.sock.close()

    def reset(self) -> None:
        """Have the peer see a reset when the connection is closed."""
        with suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.out.clear()

    def regulate(self) -> None:
        self._note_request()
        if self.watched:
            busy = self.draining or self.held or self.queued or self.requests.ticket is not None
            if busy and self._full:
                self.stop_reading()
        elif not (self.ended or self.given_up or self._full):
            self.watched = True
            self._owner.watch.add(self.sock, self)

    def stop_reading(self) -> None:
        self.watched = False
        self._owner.watch.remove(self.sock)

    def answered_later(self) -> None:
        self.active = trio.current_time()

    def _note_request(self) -> None:
        """Keep when the request began that is coming in, if there is one, and nothing but its rest is missing."""
        requests = self.requests
        if requests.ticket is not None or not self.frames.held:
            self.begun = None
        elif self.begun is None or requests.taken != self._served:
            self.begun = self.active
        self._served = requests.taken

    @property
    def _full(self) -> bool:
        """True while more input would only pile up: its answers are not read, or requests before are not served."""
        if self.draining or self.stuffed:
            return True
        return (self.requests.ticket is not None or self.queued) and self.frames.held > READ_AHEAD


class Sockets:
    """All connections on sockets.

    connections: those that are open, by number
    turn: serves what is ready, at this time of trio
    """

    def __init__(
        self,
        pump: Pump,
        numbers: Callable[[], int],
        watch: Callable[[Ready[SocketConnection]], Watch[SocketConnection]],
        turn: Callable[[float], bool],
    ) -> None:
        self.connections: dict[int, SocketConnection] = {}
        self.watch: Watch[SocketConnection]
        self._pump = pump
        self._numbers = numbers
        self._make_watch = watch
        self._turn = turn
        self._nursery: trio.Nursery | None = None
        self._pause = trio.CancelScope()  # between two checks for idle connections

    def start(self, nursery: trio.Nursery) -> None:
        """Read and close connections, in tasks of the nursery."""
        self._nursery = nursery
        self.watch = self._make_watch(self._read)
        nursery.start_soon(self.watch.run)
        nursery.start_soon(self._close_idle)

    def open(self, listener: BoundListener, sock: socket.socket, address: Sequence[object]) -> None:
        """Serve a connection that a listener has accepted."""
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number, host, peer = self._numbers(), f"/{address[0]}", f"{address[0]}:{address[1]}"
        if listener.tls is not None:
            sock = listener.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        router = self._pump.router
        if listener.sasl:
            authentication = Authentication(router.broker.users, router.broker.settings, _new_nonce)
            client = Client(listener.node, "", host, listener.name)
            requests = SaslRequests(number, client, router, authentication)
            stages = (AuthenticationStage(authentication, router.broker),)
            connection = SocketConnection(self, sock, requests, peer, stages)
        else:
            connection = SocketConnection(
                self, sock, ClientRequests(number, listener.node, host, router, listener.name), peer
            )
        if not self.connections:
            self._pause.cancel()
        self.connections[number] = connection
        self._pump.open(connection)
        connection.watched = True
        self.watch.add(sock, connection)

    def stop(self, node: int, *, abruptly: bool) -> None:
        """Close the connections to a broker; ``abruptly``: their peers see a reset."""
        for connection in list(self.connections.values()):
            if connection.requests.node == node:
                if abruptly:
                    connection.reset()
                else:
                    self._pump.flush(connection)
                self._pump.close(connection)

    def check_idle(self) -> None:
        """Compute again when a connection may be idle: the limit may have changed."""
        self._pause.cancel()

    def close(self) -> None:
        """Read nothing any more."""
        self.watch.close()

    def forget(self, connection: SocketConnection) -> None:
        """A connection is closed."""
        self.connections.pop(connection.number, None)

    def drain(self, connection: SocketConnection) -> None:
        """Send the rest of the answers as the peer reads them."""
        if self._nursery is not None:
            connection.draining = True
            self._nursery.start_soon(self._drain, connection)

    def _read(self, connections: Sequence[SocketConnection]) -> bool:
        """Read these once, as they are readable, and serve for a turn; True if not all were served."""
        now = trio.current_time()
        for connection in connections:
            if not connection.watched:
                continue  # it was closed or has to wait, because of a request before
            try:
                data = connection.sock.recv(READ_SIZE)
            except BlockingIOError:
                continue
            except TlsError as error:
                log.warning("%s: closed, %s", connection.peer, error)
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
            frames.feed(data)
            connection.active = now
            complete = frames.complete
            if complete:
                self._pump.enqueue(connection)
            if not complete or frames.held > READ_AHEAD:  # else it is done when it is served
                self._pump.weigh(connection)
                if not connection.closed:
                    connection.regulate()
        return self._turn(now)

    async def _drain(self, connection: SocketConnection) -> None:
        """Send what the peer was too slow to read; give it up if it reads nothing for a while."""
        try:
            while connection.out and not connection.closed:
                with trio.fail_after(SEND_TIMEOUT):
                    await wait_writable(connection.sock)
                if self._pump.hold(connection):  # another answer has joined
                    break
                with suppress(BlockingIOError):  # writable, and then not
                    sent = connection.sock.send(connection.out)
                    del connection.out[:sent]
                    self._pump.weigh(connection)
        except (OSError, trio.ClosedResourceError):
            self._pump.close(connection)
        except trio.TooSlowError:
            log.warning("%s: closed, it did not read its answers for %g s", connection.peer, SEND_TIMEOUT)
            self._pump.close(connection)
        connection.draining = False
        connection.active = trio.current_time()
        if connection.begun is not None:  # the rest was not read meanwhile
            connection.begun = connection.active
        self._pump.enqueue(connection)
        self._turn(connection.active)

    async def _close_idle(self) -> None:
        """Close connections that send nothing for long, or never finish the request that they began."""
        while True:
            idle_ms = self._pump.router.broker.settings.connections_max_idle_ms
            idle_limit = inf if idle_ms < 0 else idle_ms / 1000
            pause = min(LOOK_AROUND, idle_limit) if self.connections else inf
            with trio.move_on_after(pause) as self._pause:
                await trio.sleep_forever()
            now = trio.current_time()
            for connection in list(self.connections.values()):
                late = connection.begun is not None and now - connection.begun > FRAME_TIMEOUT
                if late and connection.watched and not connection.queued:  # else it is the broker that is late
                    log.warning("%s: closed, a request took more than %g s to come in", connection.peer, FRAME_TIMEOUT)
                    self._pump.close(connection)
                elif now - connection.active > FRAME_TIMEOUT and _in_handshake(connection.sock):
                    log.warning("%s: closed, its TLS handshake took more than %g s", connection.peer, FRAME_TIMEOUT)
                    self._pump.close(connection)
                elif connection.requests.ticket is None and now - connection.active > idle_limit:
                    self._pump.close(connection)


def _new_nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


def _in_handshake(sock: socket.socket) -> bool:
    return isinstance(sock, TlsSocket) and not sock.established
