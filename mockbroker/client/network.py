"""The nodes that a consumer can connect to: least loaded node, requests in flight, reconnect backoff.

Source: org.apache.kafka.clients.NetworkClient and ClusterConnectionStates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from mockbroker.client.backoff import Backoff, Clock
from mockbroker.client.call import Failure, OutgoingCall, VersionRange
from mockbroker.client.link import Link, LinkState
from mockbroker.client.settings import ClientSettings

COORDINATOR = 2**31 - 1  # COORDINATOR minus the node id is the id of the connection to a coordinator, as in Java


class Node:
    """A broker at an address, with its connection if there is one.

    Attributes:
        id: Node id; negative for a bootstrap address, COORDINATOR minus the broker's id for a coordinator.
        link: The connection; None without a connection.
        failures: Number of failed attempts to connect since the last successful one.
        retry_at: End of the reconnect backoff, in seconds on the engine's clock.
        host: Host name or address.
        port: TCP port.
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
    """The brokers and coordinators that one consumer knows, with its connections to them.

    Args:
        bootstrap: Host and port of each bootstrap server.
        settings: The settings of the consumer.
        clock: The current time of the consumer.
        backoff: The delays between attempts to connect.

    Attributes:
        to_open: Links that the driver has to connect. The driver removes each link from the list.
        on_disconnect: Callback that is called with each node whose connection has ended.
    """

    def __init__(
        self, bootstrap: Iterable[tuple[str, int]], settings: ClientSettings, clock: Clock, backoff: Backoff
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
        """Replace the known brokers. Connections to removed brokers, and to addresses that have changed, are closed.

        Args:
            brokers: Node id -> host and port, from metadata.
        """
        for node_id, address in brokers.items():
            known = self._brokers.get(node_id)
            if known is None or (known.host, known.port) != address:
                self._drop(known, "the broker has a new address")
                self._brokers[node_id] = Node(node_id, *address)
        for node_id in [node_id for node_id in self._brokers if node_id not in brokers]:
            self._drop(self._brokers.pop(node_id), "the broker is no longer in the cluster")

    def broker(self, node_id: int) -> Node | None:
        """Return the broker with a node id; None if metadata does not list the broker."""
        return self._brokers.get(node_id)

    def coordinator(self, node_id: int, host: str, port: int) -> Node:
        """Return the node of a coordinator. It has a separate connection, because a JoinGroup can be pending for long.

        Args:
            node_id: Id of the broker.
            host: Host of the broker.
            port: Port of the broker.
        """
        node_id = COORDINATOR - node_id
        node = self._coordinators.get(node_id)
        if node is None or (node.host, node.port) != (host, port):
            self._drop(node, "the coordinator has a new address")
            node = self._coordinators[node_id] = Node(node_id, host, port)
        return node

    def least_loaded(self) -> Node | None:
        """Return the node with the fewest requests in flight, preferably a connected node; None if all nodes are in
        reconnect backoff.

        Bootstrap addresses are used while no broker is known, or all known brokers are in reconnect backoff.
        """
        for nodes in (list(self._brokers.values()), self._bootstrap):
            free = [node for node in nodes if node.link or node.retry_at <= self._clock.now]
            if free:
                self._turn += 1
                turned = free[self._turn % len(free) :] + free[: self._turn % len(free)]
                return min(turned, key=lambda node: (not node.ready, node.in_flight))
        return None

    def can_send(self, node: Node) -> bool:
        """Return whether a request can be sent to the node: False while it is in reconnect backoff."""
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
        """Send a request to a node, and connect the node if necessary.

        In reconnect backoff the request fails immediately.

        Args:
            node: the node.
            key: API key.
            build: function that returns the request; its argument is the API version.
            on_done: callback that is called with the request once there is a response or a failure.
            timeout: seconds until the request times out; None for ``request_timeout``.
            versions: lowest and highest version that can carry the request; None as the highest for no upper limit.

        Returns: the request.
        """
        now = self._clock.now
        call = OutgoingCall(key, build, now + (timeout or self._settings.request_timeout), on_done, versions)
        if node.link is None:
            if node.retry_at > now:
                call.fail(
                    Failure.DISCONNECTED,
                    f"the connection to {node.host}:{node.port} has failed, and the reconnect backoff has not ended",
                )
                return call
            deadline = now + self._settings.socket_connection_setup_timeout
            node.link = Link(node.host, node.port, self._settings.client_id, deadline)
            self.to_open.append(node.link)
        node.link.send_request(call, now)
        return call

    def tick(self) -> None:
        """End overdue requests with a failure, and start the reconnect backoff of nodes whose connection has ended.

        As soon as brokers are known, close the bootstrap connections that wait for no response.
        """
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
            elif node.ready:
                node.failures = 0
        if self._brokers:  # bootstrap connections only serve to find the brokers
            for node in self._bootstrap:
                if not node.in_flight:
                    self._drop(node, "the bootstrap connection is no longer needed")

    def next_deadline(self) -> float:
        """Return the time of the next request timeout or end of a backoff, in seconds on the engine's clock; inf
        without timeouts and backoffs.
        """
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
