"""A pretend network: connections that keep their order, and everything else that can happen to what is on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.lab.simulation.queue import Queue

RESET = 0.01  # seconds after which a client notices that a connection is gone


class Peer(Protocol):
    """The client's end."""

    def delay(self) -> float:
        """Seconds that the next message takes."""
        ...

    def receive(self, connection: Wire, call: Call[Any], response: Any) -> None: ...
    def disconnected(self, connection: Wire) -> None: ...


class Server(Protocol):
    """The broker's end."""

    def receive(self, connection: Wire, call: Call[Any]) -> None: ...
    def disconnected(self, connection: Wire) -> None: ...


@dataclass(slots=True, eq=False)
class Link:
    """Between a client and the brokers. ``held``: what waits while it is clogged."""

    clogged: bool = False
    lose: str = ""  # "request" or "answer": the next one, and its connection with it
    held: deque[tuple[Callable[..., None], tuple[Any, ...]]] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Wire:
    """``open``: as the client sees it; ``cut``: nothing gets through any more.

    ``waiting``: requests without answer, as the client sees it.
    """

    number: int
    peer: Peer
    link: Link
    node: int
    client: Client
    open: bool = True
    cut: bool = False
    waiting: deque[tuple[Call[Any], Callable[..., None], float]] = field(default_factory=deque)
    correlation: int = 0
    there: float = 0.0  # when the last request arrives
    here: float = 0.0  # when the last answer arrives


class Network:
    """A message never overtakes another of its connection; between connections there is no order."""

    def __init__(self, queue: Queue, server: Server) -> None:
        self._queue = queue
        self._server = server
        self._numbers = 0

    def connect(self, peer: Peer, link: Link, node: int, client_id: str) -> Wire:
        self._numbers += 1
        return Wire(self._numbers, peer, link, node, Client(node, client_id, "/127.0.0.1"))

    def ask(self, to: Wire, api_key: int, version: int, request: object, then: Callable[..., None]) -> None:
        """Send a request; ``then`` is called with the answer, if one arrives."""
        to.correlation += 1
        call = Call(Ticket(to.number, to.correlation, api_key, version), to.client, request)
        to.waiting.append((call, then, self._queue.now))
        to.there = max(to.there, self._queue.now + to.peer.delay())
        self._queue.at(to.there, self._arrive, to, call)

    def answer(self, to: Wire, call: Call[Any], response: object) -> None:
        """Send the answer to the request last given out."""
        if to.link.lose == "answer":
            to.link.lose = ""
            self.break_off(to)
        to.here = max(to.here, self._queue.now + to.peer.delay())
        self._queue.at(to.here, self._deliver, to, call, response)

    def close(self, connection: Wire) -> None:
        """The client closes; what it sent before arrives."""
        if connection.open:
            connection.open = False
            connection.waiting.clear()
            connection.there = max(connection.there, self._queue.now + connection.peer.delay())
            self._queue.at(connection.there, self._end, connection)

    def break_off(self, connection: Wire) -> None:
        """Everything that is on its way is lost; the broker knows at once, the client a little later."""
        if not connection.cut:
            connection.cut = True
            self._server.disconnected(connection)
            self._queue.after(RESET + connection.peer.delay(), self._tell, connection)

    def free(self, link: Link) -> None:
        """Let through what waited, in its order."""
        link.clogged = False
        while link.held:
            what, with_ = link.held.popleft()
            self._queue.at(self._queue.now, what, *with_)

    def _arrive(self, connection: Wire, call: Call[Any]) -> None:
        if connection.cut:
            return
        if connection.link.clogged:
            connection.link.held.append((self._arrive, (connection, call)))
        elif connection.link.lose == "request":
            connection.link.lose = ""
            self.break_off(connection)
        else:
            self._server.receive(connection, call)

    def _deliver(self, connection: Wire, call: Call[Any], response: object) -> None:
        if connection.cut or not connection.open:
            return
        if connection.link.clogged:
            connection.link.held.append((self._deliver, (connection, call, response)))
        else:
            connection.peer.receive(connection, call, response)

    def _end(self, connection: Wire) -> None:
        if connection.cut:
            return
        if connection.link.clogged:
            connection.link.held.append((self._end, (connection,)))
            return
        connection.cut = True
        self._server.disconnected(connection)

    def _tell(self, connection: Wire) -> None:
        if connection.open:
            connection.open = False
            connection.waiting.clear()
            connection.peer.disconnected(connection)
