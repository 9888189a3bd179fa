"""All nodes that a consumer talks to: who is asked, who is busy, who is left alone for a while.

Source: org.apache.kafka.clients.NetworkClient and ClusterConnectionStates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from mockbroker.client.backoff import Backoff, Moment
from mockbroker.client.call import Failure, OutgoingCall, Span
from mockbroker.client.link import Link, LinkState
from mockbroker.client.settings import Settings

COORDINATOR = 2**31 - 1  # minus the node id: the id of the connection to a coordinator, as in Java


class Node:
    """A broker at an address, connected or not."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.id, self.host, self.port = node_id, host, port
        self.link: Link | None = None
        self.failures = 0  # in a row
        self.not_before = 0.0  # to be connected to

    @property
    def in_flight(self) -> int:
        return self.link.in_flight if self.link else 0

    @property
    def ready(self) -> bool:
        return self.link is not None and self.link.state is LinkState.READY


class Network:
    """``to_open``: links that the shell has to connect; it takes them away.

    ``node_lost``: told of each node whose connection ends.
    """

    def __init__(
        self, bootstrap: Iterable[tuple[str, int]], settings: Settings, time: Moment, backoff: Backoff
    ) -> None:
        self._settings, self._time = settings, time
        self._bootstrap = [Node(-1 - n, host, port) for n, (host, port) in enumerate(bootstrap)]
        self._brokers: dict[int, Node] = {}
        self._others: dict[int, Node] = {}  # connections to coordinators
        self._backoff = backoff
        self._turn = 0
        self.to_open: list[Link] = []
        self.node_lost: Callable[[Node], None] = lambda _: None

    def brokers_are(self, brokers: Mapping[int, tuple[str, int]]) -> None:
        """What metadata says; connections to who is elsewhere now are closed."""
        for node_id, address in brokers.items():
            known = self._brokers.get(node_id)
            if known is None or (known.host, known.port) != address:
                self._drop(known, "the broker is elsewhere now")
                self._brokers[node_id] = Node(node_id, *address)
        for node_id in [node_id for node_id in self._brokers if node_id not in brokers]:
            self._drop(self._brokers.pop(node_id), "the broker is no longer there")

    def broker(self, node_id: int) -> Node | None:
        """The broker of this id; None if metadata does not have it."""
        return self._brokers.get(node_id)

    def coordinator(self, node_id: int, host: str, port: int) -> Node:
        """The node of a coordinator, with a connection of its own: long waits there hold up nothing else."""
        node_id = COORDINATOR - node_id
        node = self._others.get(node_id)
        if node is None or (node.host, node.port) != (host, port):
            self._drop(node, "the coordinator is elsewhere now")
            node = self._others[node_id] = Node(node_id, host, port)
        return node

    def least_loaded(self) -> Node | None:
        """The node with the fewest requests under way, connected ones first; None while all are left alone.

        The addresses to start from serve while nothing else is known, or nothing else answers.
        """
        for nodes in (list(self._brokers.values()), self._bootstrap):
            free = [node for node in nodes if node.link or node.not_before <= self._time.now]
            if self._brokers and nodes is self._bootstrap and any(n.failures == 0 for n in self._brokers.values()):
                break  # some broker is as it should be
            if free:
                self._turn += 1
                turned = free[self._turn % len(free) :] + free[: self._turn % len(free)]
                return min(turned, key=lambda node: (not node.ready, node.in_flight, node.link is None))
        return None

    def can_ask(self, node: Node) -> bool:
        """False while a node that could not be reached is left alone."""
        return node.link is not None or node.not_before <= self._time.now

    def ask(
        self,
        node: Node,
        key: int,
        build: Callable[[int], object],
        then: Callable[[OutgoingCall], None] | None = None,
        *,
        timeout: float | None = None,
        versions: Span = (0, None),
    ) -> OutgoingCall:
        """Send a request; ``timeout`` in seconds, the request timeout if None. A node left alone fails it at once."""
        now = self._time.now
        call = OutgoingCall(key, build, now + (timeout or self._settings.request_timeout), then, versions)
        if node.link is None:
            if node.not_before > now:
                call.failed(Failure.DISCONNECTED, f"{node.host}:{node.port} could not be reached just now")
                return call
            deadline = now + self._settings.socket_connection_setup_timeout
            node.link = Link(node.host, node.port, self._settings.client_id, deadline)
            self.to_open.append(node.link)
        node.link.ask(call, now)
        return call

    def tick(self) -> None:
        """Give up what takes too long, and notice connections that are gone."""
        now = self._time.now
        for node in list(self._nodes()):
            if node.link is None:
                continue
            node.link.expire(now)
            if node.link.state is LinkState.CLOSED:
                node.link = None
                node.not_before = now + self._backoff.after(node.failures)
                node.failures += 1
                self.node_lost(node)
            elif node.failures and node.ready:
                node.failures = 0
        if self._brokers:  # who was only asked to find the others
            for node in self._bootstrap:
                if node.link and node.link.state is LinkState.READY and not node.in_flight:
                    self._drop(node, "not needed any more")

    def due(self) -> float:
        """When ``tick`` has something to do, or a node can be asked again."""
        now, at = self._time.now, float("inf")
        for node in self._nodes():
            if node.link:
                at = min(at, node.link.due())
            elif node.not_before > now:
                at = min(at, node.not_before)
        return at

    def close(self) -> None:
        """Hang up everywhere."""
        for node in self._nodes():
            self._drop(node, "the consumer is closed")

    def _nodes(self) -> Iterator[Node]:
        yield from self._bootstrap
        yield from self._brokers.values()
        yield from self._others.values()

    def _drop(self, node: Node | None, why: str) -> None:
        if node and node.link:
            node.link.close(why)
            node.link = None
