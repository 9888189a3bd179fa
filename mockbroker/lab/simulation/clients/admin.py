"""An admin client in the simulation. Each operation is one request to a broker that can handle it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire.apikeys import ApiKey
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from mockbroker.lab.simulation.clients.client import Client
from mockbroker.lab.simulation.network import Wire


class Admin(Client):
    """A scripted admin client. It ignores the responses; the invariant checkers check them.

    Attributes:
        connections: broker id -> connection.
    """

    def begin(self) -> None:
        self.connections: dict[int, Wire] = {}

    def find(self) -> None:
        """Do nothing: an admin client needs no coordinator."""

    def to(self, node: int, api_key: int, version: int, request: object, then: Callable[..., None]) -> None:
        if node not in self.cluster().nodes:
            return
        connection = self.connections.get(node)
        if connection is None:
            connection = self.connections[node] = self.network.connect(self, self.link, node, self.name)
        self.send(connection, api_key, version, request, then)

    def disconnected(self, connection: Wire) -> None:
        if self.connections.get(connection.node) is connection:
            del self.connections[connection.node]

    def stop(self) -> None:
        for connection in self.connections.values():
            self.network.close(connection)
        self.connections = {}
        super().stop()

    def heard(self, answer: Any) -> None:
        return

    def grow(self, topic: str, count: int) -> None:
        wanted = CreatePartitionsRequest.Topic(name=topic, count=count, assignments=None)
        self.to(
            min(self.cluster().nodes, default=-1),
            ApiKey.CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest(topics=[wanted], timeout_ms=1_000),
            self.heard,
        )

    def delete_group(self, node: int, group: str) -> None:
        self.to(node, ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[group]), self.heard)

    def delete_offsets(self, node: int, group: str, topic: str, indexes: list[int]) -> None:
        kind = OffsetDeleteRequest.Topic
        wanted = kind(name=topic, partitions=[kind.Partition(partition_index=index) for index in indexes])
        self.to(node, ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id=group, topics=[wanted]), self.heard)

    def retire(self, node: int, group: str, member_id: str, instance: str | None) -> None:
        line = LeaveGroupRequest.Member(member_id="" if instance else member_id, group_instance_id=instance)
        self.to(node, ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id=group, members=[line]), self.heard)

    def list_groups(self, node: int, groups: list[str]) -> None:
        self.to(node, ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), self.heard)
        self.to(node, ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=groups), self.heard)

    def describe_consumer_groups(self, node: int, groups: list[str]) -> None:
        self.to(node, ApiKey.CONSUMER_GROUP_DESCRIBE, 0, ConsumerGroupDescribeRequest(group_ids=groups), self.heard)
