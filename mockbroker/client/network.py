"""The nodes that a consumer is connected to: least loaded node, requests in flight, reconnect backoff.

Source: org.apache.kafka.clients.NetworkClient and ClusterConnectionStates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import Failure, OutgoingCall, VersionRange
from mockbroker.client.link import Link, LinkState
from mockbroker.client.settings import Settings

COORDINATOR = 2**31 - 1  # minus the node id: the id of the connection to a coordinator, as in Java


class Node:
    """A broker at an address, connected or not.

    failures: connections that failed in a row.
    retry_at: when the reconnect backoff ends.
    """

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.id, self.host, self.port = node_id, host, port
        self.link: Link | None = None
        self.failures = 0
        self.retry_at = 0.0

    @property
    def in_flight(self) -> int:
        return self.link.in_flight if self.link else 0

    @property
    def ready(self) -> bool:
        return self.link is not None and self.link.state is LinkState.READY


class Network:
    """Nodes of one consumer.

    to_open: links that the driver has to connect; it removes them.
    on_disconnect: called with each node whose connection ends.
    """

    def __init__(
        self, bootstrap: Iterable[tuple[str, int]], settings: Settings, clock: Clock, backoff: Backoff
    ) -> None:
        self._settings, self._clock = settings, clock
        self._bootstrap = [Node(-1 - n, host, port) for n, (host, port) in enumerate(bootstrap)]
        self._brokers: dict[int, Node] = {}
        self._coordinators: dict[int, Node] = {}  # connections to coordinators
        self._backoff = backoff
        self._turn = 0
        self.to_open: list[Link] = []
        self.on_disconnect: Callable[[Node], None] = lambda _: None

    def update_brokers(self, brokers: Mapping[int, tuple[str, int]]) -> None:
        """Replace the brokers by those of metadata; connections to old addresses are closed."""
        for node_id, address in brokers.items():
            known = self._brokers.get(node_id)
            if known is None or (known.host, known.port) != address:
                self._drop(known, "the broker has a new address")
                self._brokers[node_id] = Node(node_id, *address)
        for node_id in [node_id for node_id in self._brokers if node_id not in brokers]:
            self._drop(self._brokers.pop(node_id), "the broker is no longer in the cluster")

    def broker(self, node_id: int) -> Node | None:
        """Return the broker of an id; None if metadata does not list it."""
        return self._brokers.get(node_id)

    def coordinator(self, node_id: int, host: str, port: int) -> Node:
        """Return the node of a coordinator. It has a connection of its own, since a JoinGroup blocks it for long."""
        node_id = COORDINATOR - node_id
        node = self._coordinators.get(node_id)
        if node is None or (node.host, node.port) != (host, port):
            self._drop(node, "the coordinator has a new address")
            node = self._coordinators[node_id] = Node(node_id, host, port)
        return node

    def least_loaded(self) -> Node | None:
        """Return the node with the fewest requests in flight, connected ones first; None while all are in backoff.

        Bootstrap addresses are used while no broker is known, or every known broker has failed.
        """
        for nodes in (list(self._brokers.values()), self._bootstrap):
            free = [node for node in nodes if node.link or node.retry_at <= self._clock.now]
            if self._brokers and nodes is self._bootstrap and any(n.failures == 0 for n in self._brokers.values()):
                break  # a broker works
            if free:
                self._turn += 1
                turned = free[self._turn % len(free) :] + free[: self._turn % len(free)]
                return min(turned, key=lambda node: (not node.ready, node.in_flight, node.link is None))
        return None

    def can_send(self, node: Node) -> bool:
        """Return False while the node is in reconnect backoff."""
        return node.link is not None or node.retry_at <= self._clock.now

    def send_request(
        self,
        node: Node,
        key: int,
        build: Callable[[int], object],
        on_done: Callable[[OutgoingCall], None] | None = None,
        *,
        timeout: float | None = None,
        versions: VersionRange = (0, None),
    ) -> OutgoingCall:
        """Send a request; ``timeout``: seconds, the request timeout if None. In reconnect backoff it fails at once."""
        now = self._clock.now
        call = OutgoingCall(key, build, now + (timeout or self._settings.request_timeout), on_done, versions)
        if node.link is None:
            if node.retry_at > now:
                call.fail(Failure.DISCONNECTED, f"{node.host}:{node.port} is in reconnect backoff")
                return call
            deadline = now + self._settings.socket_connection_setup_timeout
            node.link = Link(node.host, node.port, self._settings.client_id, deadline)
            self.to_open.append(node.link)
        node.link.send_request(call, now)
        return call

    def tick(self) -> None:
        """Fail overdue requests, and start the backoff of nodes whose connection ended."""
        now = self._clock.now
        for node in list(self._nodes()):
            if node.link is None:
                continue
            node.link.expire(now)
            if node.link.state is LinkState.CLOSED:
                node.link = None
                node.retry_at = now + self._backoff.after(node.failures)
                node.failures += 1
                self.on_disconnect(node)
            elif node.failures and node.ready:
                node.failures = 0
        if self._brokers:  # bootstrap connections only serve to find the brokers
            for node in self._bootstrap:
                if node.link and node.link.state is LinkState.READY and not node.in_flight:
                    self._drop(node, "the bootstrap connection is no longer needed")

    def next_deadline(self) -> float:
        """Return the time of the next timeout or end of a backoff."""
        now, at = self._clock.now, float("inf")
        for node in self._nodes():
            if node.link:
                at = min(at, node.link.next_deadline())
            elif node.retry_at > now:
                at = min(at, node.retry_at)
        return at

    def close(self) -> None:
        """Close all connections."""
        for node in self._nodes():
            self._drop(node, "the consumer is closed")

    def _nodes(self) -> Iterator[Node]:
        yield from self._bootstrap
        yield from self._brokers.values()
        yield from self._coordinators.values()

    def _drop(self, node: Node | None, reason: str) -> None:
        if node and node.link:
            node.link.close(reason)
            node.link = None
