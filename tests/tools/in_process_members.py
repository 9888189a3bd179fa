"""In-process connections for scripted members of groups, for whole rebalances of a served cluster in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import trio
from tools.group_members import GroupMember, Then

from kwire import ErrorCode as E
from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker import Cluster
from mockbroker.net.in_process import InProcessConnection


class InProcessTransport:
    """A connection for each member to a cluster, and its clock; requests and delays are tasks of the nursery."""

    def __init__(self, cluster: Cluster, nursery: trio.Nursery) -> None:
        self.cluster, self.nursery = cluster, nursery
        self._lines: dict[GroupMember, InProcessConnection] = {}

    @property
    def now(self) -> float:
        return self.cluster.clock.now()

    def request(self, member: GroupMember, request: Any, version: int, then: Then) -> None:
        async def answered() -> None:
            then(await self._line(member).ask(request, version))

        self.nursery.start_soon(answered)

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        async def wait() -> None:
            await trio.sleep(delay)
            action()

        self.nursery.start_soon(wait)

    def partition_count(self, topic: str) -> int:
        return len(self.cluster._router.broker.cluster.topics[topic].partitions)

    def topic_id(self, name: str) -> UUID:
        return self.cluster._router.broker.cluster.topics[name].topic_id

    async def commit(self, member: GroupMember, offset: int, partition: int = 0) -> E:
        """Commit an offset of one partition as this member."""
        place = OffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=member.group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance,
            topics=[OffsetCommitRequest.Topic(name=member.topic, partitions=[place])],
        )
        answer = await self._line(member).ask(request, 9)
        return E(answer.topics[0].partitions[0].error_code)

    def _line(self, member: GroupMember) -> InProcessConnection:
        if member not in self._lines:
            self._lines[member] = self.cluster.connect(client_id=member.name)
        return self._lines[member]
