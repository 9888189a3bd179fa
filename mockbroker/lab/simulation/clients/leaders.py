"""The leaders of partitions, as a client knows them from Metadata, and its connections to them."""

from __future__ import annotations

from uuid import UUID

from kwire.apikeys import ApiKey
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from mockbroker.lab.simulation.clients.client import BACKOFF, Client
from mockbroker.lab.simulation.clients.plans import Place
from mockbroker.lab.simulation.network import Wire

MAX_AGE = 4.0  # seconds after which metadata is requested again
METADATA_VERSION = 12


class Leaders:
    """The partition leaders that a client knows from Metadata, and the client's connections to brokers.

    The client must call ``start`` at its start, ``disconnected`` for each closed connection, and ``close`` at its end.

    Args:
        client: the client.

    Attributes:
        nodes: partition -> broker id of the leader; only partitions with a leader.
        epochs: partition -> leader epoch.
        ids: topic name -> topic id.
        connections: broker id -> open connection.
        changes: number of changes of ``nodes`` and ``connections`` so far.
    """

    def __init__(self, client: Client) -> None:
        self.nodes: dict[Place, int] = {}
        self.epochs: dict[Place, int] = {}
        self.ids: dict[str, UUID] = {}
        self.connections: dict[int, Wire] = {}
        self.changes = 0
        self._client = client
        self._any: Wire | None = None  # connection for Metadata and FindCoordinator
        self._asked = False
        self._due = False
        self._request = MetadataRequest(allow_auto_topic_creation=False)
        self._requested: tuple[str, ...] | None = None  # topics of ``_request``

    def start(self) -> None:
        """Request metadata now, and again at random intervals of 0.5 to 1.5 times MAX_AGE."""
        self._refresh()
        self._client.later(MAX_AGE * (0.5 + self._client.dice.random()), self.start)

    def refresh_later(self) -> None:
        """Request metadata after a backoff, because a leader is unknown or has changed."""
        if not self._due:
            self._due = True
            self._client.later(BACKOFF, self._refresh)

    def _refresh(self) -> None:
        self._due = False
        if self._asked or (wire := self.any_broker()) is None:
            return
        self._asked = True
        topics = self._client.topics
        if topics != self._requested:
            self._requested = topics
            requested = [MetadataRequest.Topic(name=name) for name in topics]
            self._request = MetadataRequest(topics=requested, allow_auto_topic_creation=False)
        self._client.send(wire, ApiKey.METADATA, METADATA_VERSION, self._request, self._refreshed)

    def any_broker(self) -> Wire | None:
        """Return a connection to any broker, or None if no broker is running."""
        client = self._client
        if self._any is None and (nodes := sorted(client.cluster().nodes)):
            self._any = client.network.connect(client, client.link, client.dice.pick(nodes), client.name)
        return self._any

    def _refreshed(self, answer: MetadataResponse) -> None:
        self._asked = False
        self.changes += 1
        for topic in answer.topics:
            if topic.error_code or topic.name is None:
                continue
            self.ids[topic.name] = topic.topic_id
            for partition in topic.partitions:
                place = topic.name, partition.partition_index
                if partition.leader_epoch < self.epochs.get(place, -1):  # of a broker with stale metadata
                    continue
                self.epochs[place] = partition.leader_epoch
                self.nodes.pop(place, None)
                if partition.leader_id >= 0 and not partition.error_code:
                    self.nodes[place] = partition.leader_id

    def known(self) -> list[Place]:
        """Return the partitions that have a known leader, sorted."""
        return sorted(self.nodes)

    def wire(self, node: int) -> Wire:
        """Return the connection to broker ``node``. If there is no connection, open one."""
        if node not in self.connections:
            client = self._client
            self.connections[node] = client.network.connect(client, client.link, node, client.name)
            self.changes += 1
        return self.connections[node]

    def leader(self, place: Place) -> Wire | None:
        """Return the connection to the leader of a partition. If the leader is unknown, request metadata, and return
        None.

        ``place``: the partition.
        """
        node = self.nodes.get(place)
        if node is None:
            self.refresh_later()
            return None
        return self.wire(node)

    def disconnected(self, connection: Wire) -> bool:
        """Handle a closed connection: remove it, and request metadata. Return True.

        If the connection was not opened by this object, do nothing and return False.

        ``connection``: the connection.
        """
        if connection is self._any:
            self._any, self._asked = None, False
        elif self.connections.get(connection.node) is connection:
            del self.connections[connection.node]
            self.changes += 1
        else:
            return False
        self.refresh_later()
        return True

    def close(self) -> None:
        """Close all connections."""
        for wire in (*self.connections.values(), self._any):
            if wire is not None:
                self._client.network.close(wire)
        self.connections, self._any, self._asked, self._due = {}, None, False, False
        self.changes += 1
