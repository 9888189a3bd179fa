"""The simulated network with bytes in place of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mockbroker.base.effects import Call, Ticket
from mockbroker.lab.simulation.dice import Dice
from mockbroker.lab.simulation.network import Link, Network, Wire
from mockbroker.lab.simulation.queue import Queue
from mockbroker.lab.simulation.tcp.channel import Channel
from mockbroker.lab.simulation.tcp.client_end import ClientEnd
from mockbroker.lab.simulation.tcp.sockets import ClientTls, SimulatedSocket

ROOMS = (200, 2_000, 65_536)  # bytes of a connection that are sent and not yet read, at most; one value per connection


class Acceptor(Protocol):
    """The interface of the broker through which the simulated network opens and closes connections."""

    def is_listening(self, node: int) -> bool:
        """Return whether a broker accepts connections. ``node``: broker id."""
        ...

    def accept(self, wire: Wire, sock: SimulatedSocket, end: ClientEnd) -> SimulatedSocket:
        """Accept a connection of a broker that is listening. Return its socket.

        Args:
            wire: the connection in the simulated network.
            sock: the broker's plain socket.
            end: the client's end of the connection.
        """
        ...

    def disconnected(self, connection: Wire) -> None: ...


class ByteNetwork(Network):
    """The simulated network with TCP connections.

    Args:
        queue: event queue of the run.
        server: the broker.
        dice: random number generator for cuts and sizes.
        protocol: security protocol of the listeners.

    Attributes:
        greets: whether the first request of each connection is ApiVersions.
        ends: connection number -> the client's end, for connections that are open at the client.
    """

    def __init__(self, queue: Queue, server: Acceptor, dice: Dice, protocol: str) -> None:
        super().__init__(queue, server)  # type: ignore[arg-type]
        self._acceptor = server
        self._dice = dice
        self._protocol = protocol
        self.greets = False
        self.ends: dict[int, ClientEnd] = {}
        self._dead: list[Wire] = []
        self._refused: list[ClientTls] = []  # TLS of clients whose connection was refused

    def ask(self, to: Wire, api_key: int, version: int, request: object, then: Callable[..., None] | None) -> None:
        to.correlation += 1
        call: Call[Any] = Call(Ticket(to.number, to.correlation, api_key, version), to.client, request)
        if then is not None:
            to.waiting.append((call, then, self._queue.now))
        if to.number not in self.ends:
            self._begin(to)
        self.ends[to.number].ask(call, answered=then is not None)

    def _begin(self, wire: Wire) -> None:
        """Create the two ends and the two directions of a connection.

        The broker accepts it when the first bytes arrive.

        ``wire``: the connection.
        """
        dice = Dice("tcp", self._dice.whole(0, 1 << 30), wire.number)
        end = self.ends[wire.number] = ClientEnd(
            self._queue, wire, dice, self._protocol, self._broker_has_closed, self._refused, greets=self.greets
        )
        accepted: list[SimulatedSocket] = []

        def arrive(data: bytes) -> None:
            if not accepted:
                room = dice.pick(ROOMS)
                if not data or not self._acceptor.is_listening(wire.node):
                    end.refuse()
                    self.refuse(wire)
                    return
                sock = SimulatedSocket(dice, room, lambda: None)
                sock.down = Channel(self._queue, wire, dice, end.arrive, "answer", self.break_off)
                end.sock = self._acceptor.accept(wire, sock, end)
                accepted.append(end.sock)
            accepted[0].arrive(data)

        end.up = Channel(self._queue, wire, dice, arrive, "request", self.break_off)
        end.begin()

    def close(self, connection: Wire) -> None:
        if connection.open:
            connection.open = False
            connection.waiting.clear()
            end = self.ends.pop(connection.number, None)
            if end is None:
                connection.cut = True
            elif not end.dead:
                end.up.end()

    def vanish(self, link: Link) -> None:
        """Make the machine of a client vanish: the broker receives nothing more from it, not even the end of its
        connections.

        ``link``: link of the client.
        """
        for end in self.ends.values():
            if end.wire.link is link:
                end.vanish()
                self._dead.append(end.wire)

    def end_dead_connections(self) -> None:
        """Break the connections of clients whose machine has vanished, as TCP's keepalive does after hours.

        Without this method, the broker would keep a connection open forever if a request on it is never answered.
        """
        for wire in self._dead:
            self.break_off(wire)
        self._dead.clear()

    def _broker_has_closed(self, wire: Wire) -> None:
        wire.cut = True
        self._notify(wire)

    def _notify(self, connection: Wire) -> None:
        self.ends.pop(connection.number, None)
        super()._notify(connection)
