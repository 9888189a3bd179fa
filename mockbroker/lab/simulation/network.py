"""A simulated network. Messages of a connection stay in order; they can be delayed, lost or held."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import field
from typing import Any, Protocol

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.lab.simulation.queue import Queue

RESET = 0.01  # minimum time in seconds until a client notices a broken connection
MOST_DOUBLINGS = 7  # of this time for refused connections in a row; reconnect.backoff.max.ms of Kafka is 1 s


class Peer(Protocol):
    """The interface of the client's end of a connection.

    Attributes:
        paused_until: virtual time until which the client reads nothing, seconds.
    """

    paused_until: float

    def delay(self) -> float:
        """Return the delay of the next message in the network, in seconds."""
        ...

    def receive(self, connection: Wire, call: Call[Any], response: Any) -> None: ...
    def disconnected(self, connection: Wire) -> None: ...


class Server(Protocol):
    """The interface of the brokers to the network: the receiver of all requests."""

    def receive(self, connection: Wire, call: Call[Any]) -> None: ...
    def disconnected(self, connection: Wire) -> None: ...


@dataclass(slots=True, eq=False)
class Link:
    """The link between a client and the brokers.

    Attributes:
        clogged: whether messages are held instead of delivered.
        lose: the next message to lose, "request" or "answer", with its connection; "" to lose none.
        refused: number of connections that were refused since the client last received a response.
        held: messages that wait while the link is clogged, as (function, arguments).
    """

    clogged: bool = False
    lose: str = ""
    refused: int = 0
    held: deque[tuple[Callable[..., None], tuple[Any, ...]]] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class OtherLogin:
    """A login of a connection with other credentials than those of the simulated user.

    Attributes:
        steps: generator that yields requests and takes responses, both without length prefix.
        refused: function that is called when the broker has refused the login.
    """

    steps: Generator[bytes, bytes, None]
    refused: Callable[[], None]


@dataclass(slots=True, eq=False)
class Wire:
    """A connection of a client to a broker in the simulated network.

    Attributes:
        number: connection number.
        peer: the client.
        link: the client's link.
        node: broker id.
        client: the client as known to the broker: broker id, client id and address.
        open: True until the client closes the connection.
        cut: whether the connection is broken, so that all messages are lost.
        waiting: requests without a response, in order, as (call, callback, virtual time of sending in seconds).
        deadlines: (virtual time of the timeout in seconds, correlation id) of each request with the default timeout, in
            order. An entry may remain after the response to its request.
        correlation: last correlation id.
        there: arrival time of the last request at the broker, virtual time in seconds.
        here: arrival time of the last response at the client, virtual time in seconds.
        login: the login with SASL; None for a login as the simulated user.
    """

    number: int
    peer: Peer
    link: Link
    node: int
    client: Client
    open: bool = True
    cut: bool = False
    waiting: list[tuple[Call[Any], Callable[..., None], float]] = field(default_factory=list)
    deadlines: list[tuple[float, int]] = field(default_factory=list)
    correlation: int = 0
    there: float = 0.0
    here: float = 0.0
    login: OtherLogin | None = None


class Network:
    """The simulated network between clients and brokers. Messages of one connection arrive in order.

    Args:
        queue: the event queue, which has the virtual time.
        server: the receiver of all requests.
    """

    def __init__(self, queue: Queue, server: Server) -> None:
        self._queue = queue
        self._server = server
        self._numbers = 0
        self._clients: dict[tuple[int, str], Client] = {}  # by broker id and client id

    def connect(self, peer: Peer, link: Link, node: int, client_id: str) -> Wire:
        self._numbers += 1
        client = self._clients.get((node, client_id))
        if client is None:
            client = self._clients[node, client_id] = Client(node, client_id, "/127.0.0.1")
        return Wire(self._numbers, peer, link, node, client)

    def ask(self, to: Wire, api_key: int, version: int, request: object, then: Callable[..., None] | None) -> None:
        """Send a request on a connection.

        Args:
            to: the connection.
            api_key: API key of the request.
            version: API version.
            request: body of the request.
            then: function that is called with the response body, if a response arrives; None for a request without a
                response (Produce with acks=0).
        """
        to.correlation = correlation = to.correlation + 1
        queue = self._queue
        call = Call(Ticket(to.number, correlation, api_key, version), to.client, request)
        if then is not None:
            to.waiting.append((call, then, queue.now))
        at = queue.now + to.peer.delay()
        if at > to.there:
            to.there = at
        queue.at(to.there, self._arrive, to, call)

    def answer(self, to: Wire, call: Call[Any], response: object) -> None:
        """Send a response to the client. If the link loses the next response (``Link.lose``), break the connection.

        Args:
            to: the connection.
            call: the request.
            response: the response body.
        """
        if to.link.lose == "answer":
            to.link.lose = ""
            self.break_off(to)
        at = self._queue.now + to.peer.delay()
        if at > to.here:
            to.here = at
        self._queue.at(to.here, self._deliver, to, call, response)

    def close(self, connection: Wire) -> None:
        """Close a connection on the client's side.

        Requests that were sent before still arrive; responses are discarded.
        """
        if connection.open:
            connection.open = False
            connection.waiting.clear()
            connection.there = max(connection.there, self._queue.now + connection.peer.delay())
            self._queue.at(connection.there, self._end, connection)

    def break_off(self, connection: Wire, after: float = RESET) -> None:
        """Break a connection as a network failure does.

        All messages of the connection that are in flight are lost. The broker detects the failure immediately, the
        client after a delay. Do nothing if the connection is already broken.

        Args:
            connection: the connection.
            after: minimum time until the client notices, seconds.
        """
        if not connection.cut:
            connection.cut = True
            self._server.disconnected(connection)
            self._queue.after(after + connection.peer.delay(), self._notify, connection)

    def refuse(self, connection: Wire) -> None:
        """Refuse a connection to a broker that does not listen.

        The client notices it after its reconnect backoff, which doubles with each refusal until the client receives a
        response.

        ``connection``: the connection.
        """
        link = connection.link
        self.break_off(connection, RESET * 2 ** min(link.refused, MOST_DOUBLINGS))
        link.refused += 1

    def free(self, link: Link) -> None:
        """End the clogging of a link: deliver the messages that were held, in order, and hold no more messages."""
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

    def _notify(self, connection: Wire) -> None:
        if connection.open:
            connection.open = False
            connection.waiting.clear()
            connection.peer.disconnected(connection)
