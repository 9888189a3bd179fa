"""Classic groups with many members, whose requests have no socket."""

from __future__ import annotations

import trio

from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.api.cluster import Cluster
from mockbroker.net.in_process import InProcessConnection

CONFIG = {"group.initial.rebalance.delay.ms": 100, "mockbroker.join.settle.ms": 50}  # all members in one generation
TIMEOUT_MS = 60_000


class LargeGroup:
    """A stable group whose members share the partitions of a topic.

    Args:
        cluster: The cluster, with CONFIG.
        group_id: The group.
        topic: The topic.
        partitions: Number of its partitions.

    Attributes:
        members: Member ids and connections.
        generation: The generation.
    """

    def __init__(self, cluster: Cluster, group_id: str, topic: str, partitions: int) -> None:
        self.members: list[tuple[str, InProcessConnection]] = []
        self.generation = 0
        self._cluster = cluster
        self._group_id = group_id
        self._topic = topic
        self._partitions = partitions
        self._leader = ""

    async def fill(self, members: int) -> None:
        """Join with some members, and commit offset 0 of every partition."""
        async with trio.open_nursery() as nursery:
            for number in range(members):
                nursery.start_soon(self._join, number)
        async with trio.open_nursery() as nursery:
            for member_id, connection in self.members:
                nursery.start_soon(self._sync, member_id, connection)
        await self.commit(0)

    async def heartbeat(self, number: int) -> None:
        """Send a heartbeat of a member."""
        member_id, connection = self.members[number]
        request = HeartbeatRequest(group_id=self._group_id, generation_id=self.generation, member_id=member_id)
        await connection.ask(request, 3)

    async def commit(self, offset: int) -> None:
        """Commit an offset of every partition."""
        member_id, connection = self.members[0]
        kind = OffsetCommitRequest.Topic.Partition
        partitions = [kind(partition_index=index, committed_offset=offset) for index in range(self._partitions)]
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self.generation,
            member_id=member_id,
            topics=[OffsetCommitRequest.Topic(name=self._topic, partitions=partitions)],
        )
        await connection.ask(request, 7)

    async def _join(self, number: int) -> None:
        connection = self._cluster.connect(client_id=f"client-{number}")
        subscription = encode_stored(ConsumerProtocolSubscription(topics=[self._topic]), 1)
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=TIMEOUT_MS,
            rebalance_timeout_ms=TIMEOUT_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=subscription)],
            group_instance_id=f"i{number}",
        )
        joined = await connection.ask(request, 5)
        self.members.append((joined.member_id, connection))
        self.generation, self._leader = joined.generation_id, joined.leader

    async def _sync(self, member_id: str, connection: InProcessConnection) -> None:
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.generation,
            member_id=member_id,
            assignments=self._assignments() if member_id == self._leader else [],
        )
        await connection.ask(request, 3)

    def _assignments(self) -> list[SyncGroupRequest.Assignment]:
        given: dict[str, list[int]] = {each: [] for each, _ in self.members}
        for index in range(self._partitions):
            given[self.members[index % len(self.members)][0]].append(index)
        kind = ConsumerProtocolAssignment.TopicPartition
        return [
            SyncGroupRequest.Assignment(
                member_id=each,
                assignment=encode_stored(
                    ConsumerProtocolAssignment(assigned_partitions=[kind(topic=self._topic, partitions=indexes)]), 1
                ),
            )
            for each, indexes in given.items()
        ]
