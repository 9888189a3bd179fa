"""The current leaders that a broker returns in the response to a share request if it is not the leader (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from kwire import ErrorCode
from mockbroker.base.effects import Client
from mockbroker.broker.broker import Broker
from mockbroker.topics.model import Node

WITH_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class EndpointCollector:
    """A collector of the addresses of current leaders. The response to a share request must contain these addresses.

    Args:
        broker: The state of the cluster.
        client: The client. The addresses are those of the client's listener.
    """

    def __init__(self, broker: Broker, client: Client) -> None:
        self._broker = broker
        self._client = client
        self._nodes: dict[int, Node] = {}

    def leader_for(self, error: int, topic_id: UUID, index: int) -> tuple[int, int] | None:
        """Return broker id and leader epoch of the leader of a partition, and collect the address of the leader.

        Return None if a response with this error does not contain the leader. The broker id is -1 if the partition has
        no leader or does not exist.

        Args:
            error: The error of the partition.
            topic_id: Topic id.
            index: Partition index.
        """
        if error not in WITH_LEADER:
            return None
        topic = self._broker.cluster.by_id.get(topic_id)
        partition = None if topic is None else topic.partition(index)
        if partition is None:
            return -1, -1
        node = self._broker.cluster.nodes.get(partition.leader)
        if node is not None:
            self._nodes[node.node_id] = node
        return partition.leader, partition.leader_epoch

    def endpoints(self, endpoint: Callable[..., Any]) -> list[Any]:
        """Return the addresses of the leaders. ``endpoint``: the class NodeEndpoint of the response."""
        return [
            endpoint(
                node_id=node.node_id,
                host=node.host_of(self._client.listener),
                port=node.port_of(self._client.listener),
            )
            for node in self._nodes.values()
        ]
