"""The broker's side of simulated TCP connections: the connections of net/sockets.py, with simulated sockets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

from kwire import codec
from kwire.apikeys import ApiKey
from mockbroker.base.effects import Call, Reply, Token
from mockbroker.broker.request_reader import REPEATED
from mockbroker.broker.router import UnsupportedVersion
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.network import Network, Wire
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.tcp.client_end import NAME, SASL_PROTOCOLS, TLS_PROTOCOLS, ClientEnd
from mockbroker.lab.simulation.tcp.sockets import SimulatedSocket, SimulatedTls
from mockbroker.lab.simulation.watching import Broken
from mockbroker.net.accepting import Gate
from mockbroker.net.bound_listeners import BoundListener
from mockbroker.net.pump import Pump
from mockbroker.net.sockets import CHECK_INTERVAL, SEND_TIMEOUT, SocketConnection, Sockets
from mockbroker.security.listener_sasl import ListenerSasl

Answer = tuple[Call[Any], Any]  # a request and its response
ADDRESS = ("127.0.0.1", 40_000)  # of every client
AUTHENTICATION = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)  # requests that the checkers do not see
WRITABLE_AFTER = 0.001  # maximum seconds until the broker notices that a socket is writable


class Process(Protocol):
    """The interface of the simulated process of the brokers, as its connections see it.

    Attributes:
        queue: event queue of the run.
        router: router of the broker.
        pump: pump of the process.
        network: the simulated network.
        stalled: virtual time at which a stall of the event loop ends, seconds.
        sockets: all connections; replaced when the process crashes.
    """

    queue: Queue
    router: Any  # a Router
    pump: Pump
    network: Network
    stalled: float
    sockets: ServedSockets | None

    @property
    def now(self) -> float: ...
    @property
    def busy(self) -> bool: ...
    def turn(self) -> bool: ...
    def keep_time(self) -> None: ...
    def answered(self, call: Call[Any], response: Any) -> None: ...
    def send(self, wire: Wire, call: Call[Any], response: Any) -> None: ...
    def closed(self, connection: ServedConnection, answers: Iterable[Answer]) -> None: ...


class ServedConnection(SocketConnection):
    """A connection with a simulated socket. It reports requests and responses to the invariant checkers.

    Args:
        owner: the sockets of the broker.
        args: further arguments of SocketConnection.

    Attributes:
        wire: the connection in the simulated network.
        pending: the last request that was handled; None before the first.
        answers: responses whose last byte has not been sent: the request, the response, and the number of bytes up to
            the end of the response.
    """

    __slots__ = ("_end", "_made", "_shell", "answers", "pending", "wire")

    def __init__(self, owner: ServedSockets, *args: Any) -> None:
        super().__init__(owner, *args)
        self._shell = owner.shell
        self.wire, self._end = owner.accepting
        self.pending: Call[Any] | None = None
        self.answers: deque[tuple[Answer, int]] = deque()
        self._made = 0  # bytes of all responses

    @property
    def simulated(self) -> SimulatedSocket:
        """The socket of the connection."""
        return cast("SimulatedSocket", self.sock)

    def check_request(self, call: Call[Any]) -> None:
        """Check that the broker handles the requests of the client in the order in which they were sent, and unchanged.

        ``call``: request that is handled next.

        Raises: Broken if the client has sent another request before it, or has sent other bytes.
        """
        sent = self._end.frames.popleft() if self._end.frames else None
        if sent is None or sent != call.frame:
            raise Broken(
                NAME, f"connection {self.number}: the broker handled a request that is not the next one the client sent"
            )
        is_message = not isinstance(call.request, Token | UnsupportedVersion)
        if len(sent) <= REPEATED and is_message and not sent.endswith(codec.encode(call.request, call.version)):
            raise Broken(
                NAME, f"connection {self.number}: the decoded request differs from the bytes that the client sent"
            )

    def answer(self, reply: Reply) -> int:
        begin = len(self.out)
        unsent = super().answer(reply)
        self._end.expected += self.out[begin:]
        self._made += unsent - begin
        call = self.pending
        assert call is not None
        if call.ticket.api_key in AUTHENTICATION:
            return unsent
        self._shell.answered(call, reply.response)
        if reply.delivery is None or reply.delivery.frame is None:  # else the client cannot read it
            self.answers.append(((call, reply.response), self._made))
        return unsent

    def send(self) -> bool:
        sent = super().send()
        if sent:
            self.note_sent()
        return sent

    def note_sent(self) -> None:
        """Report to the invariant checkers which responses have been sent completely."""
        sent = self._made - len(self.out)
        while self.answers and self.answers[0][1] <= sent:
            answer, _ = self.answers.popleft()
            self._shell.send(self.wire, *answer)

    def hang_up(self, reason: str) -> None:
        super().hang_up(reason)
        if self.simulated.resets:
            self._shell.network.break_off(self.wire)
        answers, self.answers = self.answers, deque()
        self._shell.closed(self, [answer for answer, _ in answers])


class Watch:
    """The watcher of simulated sockets, as the broker uses one for real sockets. It reports a socket as long as
    unread data is in the socket.

    Args:
        shell: the process of the brokers.
        ready: function that reads connections and handles their requests.
    """

    def __init__(self, shell: Process, ready: Callable[[list[SocketConnection]], bool]) -> None:
        self._shell = shell
        self._ready = ready
        self._items: dict[SimulatedSocket, SocketConnection] = {}
        self._scheduled: set[SimulatedSocket] = set()

    def add(self, sock: Any, item: SocketConnection) -> None:
        self._items[sock] = item
        self.check(sock)

    def remove(self, sock: Any) -> None:
        self._items.pop(sock, None)

    def check(self, sock: SimulatedSocket) -> None:
        """Schedule the reading of a socket if it has unread data and its connection is watched."""
        if sock in self._items and sock.readable and sock not in self._scheduled:
            self._scheduled.add(sock)
            self._shell.queue.after(0.0, self._report, sock)

    def _report(self, sock: SimulatedSocket) -> None:
        self._scheduled.discard(sock)
        if not self._shell.busy and sock in self._items and sock.readable:
            self._ready([self._items[sock]])
            self.check(sock)

    def read_all(self) -> None:
        """Read all readable sockets now, as at the end of a stall."""
        socks = [sock for sock in self._items if sock.readable]
        if socks:
            self._ready([self._items[sock] for sock in socks])
        for sock in socks:
            self.check(sock)


class ServedSockets(Sockets):
    """All connections of the simulated brokers, with the reading, timeouts and limits of net/sockets.py.

    Args:
        shell: the process of the brokers.
        dice: random number generator.
        protocol: security protocol of the listeners.

    Attributes:
        shell: value of the argument.
        accepting: the connection that is being accepted, and its client's end.
        simulated_watch: the watcher that reports readable sockets.
    """

    connection_type = ServedConnection  # type: ignore[assignment]
    accepting: tuple[Wire, ClientEnd]

    def __init__(self, shell: Process, dice: Dice, protocol: str) -> None:
        gate = Gate(shell.router, lambda: frozenset({""}), lambda: shell.now, shell.keep_time)
        super().__init__(
            shell.pump,
            lambda: self.accepting[0].number,
            cast("Any", None),
            lambda _: shell.turn(),
            gate,
            lambda: shell.queue.now,
            lambda _: None,
        )
        self.shell = shell
        self._dice = dice
        self._tls = SimulatedTls() if protocol in TLS_PROTOCOLS else None
        self._sasl = ListenerSasl() if protocol in SASL_PROTOCOLS else None
        self.simulated_watch = Watch(shell, self._read)
        self.watch = cast("Any", self.simulated_watch)

    def accept(self, wire: Wire, sock: SimulatedSocket, end: ClientEnd) -> SimulatedSocket:
        """Accept a connection, and return the broker's socket (with TLS, the TLS socket that replaces ``sock``).

        Args:
            wire: the connection in the simulated network.
            sock: the broker's plain socket.
            end: the client's end of the connection.
        """
        listener = BoundListener(wire.node, cast("Any", sock), "", cast("Any", self._tls), self._sasl)
        self.accepting = wire, end
        self.open(listener, cast("Any", sock), ADDRESS)
        connection = self.connections[wire.number]
        taken = cast("SimulatedSocket", connection.sock)
        taken.changed = lambda: self._changed(connection)
        return taken

    def _changed(self, connection: SocketConnection) -> None:
        """Handle a change of a socket: schedule reading if it is readable, and sending if it is writable and bytes are
        unsent.
        """
        sock = cast("SimulatedSocket", connection.sock)
        self.simulated_watch.check(sock)
        if connection.draining and sock.writable:
            self.shell.queue.after(WRITABLE_AFTER * self._dice.random(), self._continue_draining, connection)

    # --- slow readers, as in Sockets._drain ---

    def drain(self, connection: SocketConnection) -> None:
        connection.draining = True
        self._wait_writable(connection)

    def _wait_writable(self, connection: SocketConnection) -> None:
        sock, queue = cast("SimulatedSocket", connection.sock), self.shell.queue
        queue.after(SEND_TIMEOUT, self._drain_timeout, connection, len(connection.out), connection.number)
        if sock.writable:
            queue.after(WRITABLE_AFTER * self._dice.random(), self._continue_draining, connection)

    def _continue_draining(self, connection: SocketConnection) -> None:
        if not connection.draining or connection.closed or self.shell.sockets is not self:
            return
        if self.shell.busy:
            self.shell.queue.at(self.shell.stalled, self._continue_draining, connection)
            return
        sock = cast("SimulatedSocket", connection.sock)
        if not sock.writable:
            return
        try:
            more = self.send_more(connection)
        except OSError:
            self._pump.close(connection)
            more = False
        if not connection.closed:
            assert isinstance(connection, ServedConnection)
            connection.note_sent()
        if more and connection.out and not connection.closed:
            self._wait_writable(connection)
        else:
            self.end_drain(connection)

    def _drain_timeout(self, connection: SocketConnection, unsent: int, _number: int) -> None:
        """Close a connection if its client has read nothing since the timeout was set.

        Args:
            connection: the connection.
            unsent: number of unsent bytes when the timeout was set.
        """
        if self.shell.sockets is not self or self.shell.busy:
            return
        if connection.draining and not connection.closed and len(connection.out) >= unsent:
            self.close_slow_reader(connection)
            self.end_drain(connection)

    # --- timeouts ---

    def check_closed(self) -> None:
        """Check that the broker has closed all connections of clients whose machine has vanished.

        A connection may be open if a request on it is never answered.

        Raises: Broken if another connection of a vanished client is open, or if bytes are counted as buffered although
            there is no connection.
        """
        left = [each for each in self.connections.values() if each.requests.ticket is None]
        if left:
            raise Broken("I41", f"connection {left[0].number} is still open long after its client has vanished")
        if not self.connections and (held := self._pump.requests.total + self._pump.responses.total):
            raise Broken("I41", f"{held} bytes are counted as buffered, but there are no connections")

    def check_timeouts(self) -> None:
        """Close overdue connections now, and again every CHECK_INTERVAL, as Sockets does, until the process crashes.

        While the process is busy, no connection is closed.
        """
        if self.shell.sockets is self:
            if not self.shell.busy:
                self.close_overdue()
            self.shell.queue.after(CHECK_INTERVAL, self.check_timeouts)
