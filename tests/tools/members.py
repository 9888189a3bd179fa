"""Scripted members of groups, over lines into a cluster of the same process: for whole rebalances in virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import trio

from kwire import ErrorCode as E
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker import Cluster

BEAT = 3.0  # seconds between heartbeats, as of Kafka's clients
Share = ConsumerProtocolAssignment.TopicPartition


@dataclass
class Classic:
    """A consumer with the defaults of Kafka's. ``told``: when it got which partitions; ``slow``: how long until it joins
    again when it must, in seconds."""

    cluster: Cluster
    name: str
    instance: str | None = None
    session: float = 45.0
    rebalance: float = 300.0
    slow: float = 0.0
    topic: str = "t"
    group: str = "g"
    member_id: str = ""
    generation: int = -1
    told: list[tuple[float, list[int]]] = field(default_factory=list)
    refused: list[tuple[float, E]] = field(default_factory=list)

    def start(self, nursery: trio.Nursery) -> trio.CancelScope:
        """Run; cancel what is returned, and the member falls silent."""
        scope = trio.CancelScope()

        async def until_cancelled() -> None:
            with scope:
                await self.run()

        nursery.start_soon(until_cancelled)
        return scope

    async def run(self) -> None:
        """Join, and stay until cancelled, which is to fall silent."""
        self.line = self.cluster.connect(client_id=self.name)
        self.partitions = len(self.cluster._router.broker.cluster.topics[self.topic].partitions)
        while True:
            if await self._joined() and await self._synced():
                await self._beat()

    async def _joined(self) -> bool:
        answer = await self.line.ask(
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=round(self.session * 1000),
                rebalance_timeout_ms=round(self.rebalance * 1000),
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocols=[
                    JoinGroupRequest.Protocol(
                        name="range", metadata=encode_stored(ConsumerProtocolSubscription(topics=[self.topic]), 1)
                    )
                ],
            )
        )
        if answer.error_code == E.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return False
        if self._is_refused(answer):
            return False
        self.member_id, self.generation = answer.member_id, answer.generation_id
        ids = sorted(member.member_id for member in answer.members)
        self._plan = (
            {}
            if answer.skip_assignment
            else {m: list(range(self.partitions))[n :: len(ids)] for n, m in enumerate(ids)}
        )
        return True

    async def _synced(self) -> bool:
        plan = [
            SyncGroupRequest.Assignment(
                member_id=member_id,
                assignment=encode_stored(
                    ConsumerProtocolAssignment(assigned_partitions=[Share(topic=self.topic, partitions=share)]), 1
                ),
            )
            for member_id, share in self._plan.items()
        ]
        answer = await self.line.ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocol_name="range",
                assignments=plan,
            )
        )
        if self._is_refused(answer):
            return False
        share, _ = decode_stored(ConsumerProtocolAssignment, answer.assignment)
        self.told.append((self.cluster.clock.now(), [n for each in share.assigned_partitions for n in each.partitions]))
        return True

    async def _beat(self) -> None:
        while True:
            await trio.sleep(BEAT)
            answer = await self.line.ask(
                HeartbeatRequest(
                    group_id=self.group,
                    generation_id=self.generation,
                    member_id=self.member_id,
                    group_instance_id=self.instance,
                )
            )
            if self._is_refused(answer):
                await trio.sleep(self.slow)
                return

    def _is_refused(self, answer: Any) -> bool:
        if answer.error_code:
            self.refused.append((self.cluster.clock.now(), E(answer.error_code)))
            if answer.error_code == E.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        return bool(answer.error_code)

    async def commit(self, offset: int, partition: int = 0) -> E:
        answer = await self.line.ask(
            OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance,
                topics=[
                    OffsetCommitRequest.Topic(
                        name=self.topic,
                        partitions=[
                            OffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=offset)
                        ],
                    )
                ],
            ),
            9,
        )
        return E(answer.topics[0].partitions[0].error_code)

    async def leave(self) -> None:
        leaving = LeaveGroupRequest.Member(member_id=self.member_id, group_instance_id=self.instance)
        await self.line.ask(LeaveGroupRequest(group_id=self.group, members=[leaving]))


@dataclass
class Consumer:
    """A member of the consumer protocol (KIP-848). ``slow``: how long it takes to give partitions up, in seconds.

    ``told``: when it had which partitions.
    """

    cluster: Cluster
    name: str
    slow: float = 0.0
    rebalance: float = 300.0
    group: str = "g"
    owned: list[int] = field(default_factory=list)
    told: list[tuple[float, list[int]]] = field(default_factory=list)

    async def run(self) -> None:
        """Join, and stay until cancelled."""
        line = self.cluster.connect(client_id=self.name)
        topic_id = self.cluster._router.broker.cluster.topics["t"].topic_id
        member_id, epoch, news = self.name, 0, True
        while True:
            kind = ConsumerGroupHeartbeatRequest.TopicPartition
            request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=member_id, member_epoch=epoch)
            if news:
                request.rebalance_timeout_ms = round(self.rebalance * 1000)
                request.subscribed_topic_names = ["t"]
                request.topic_partitions = [kind(topic_id=topic_id, partitions=self.owned)] if self.owned else []
            answer = await line.ask(request, 1)
            assert answer.error_code == E.NONE, answer
            epoch, news = answer.member_epoch, False
            if answer.assignment is not None:
                wanted = sorted(n for each in answer.assignment.topic_partitions for n in each.partitions)
                if set(self.owned) - set(wanted):
                    await trio.sleep(self.slow)
                if wanted != self.owned:
                    self.owned, news = wanted, True
                    self.told.append((self.cluster.clock.now(), wanted))
                    continue
            await trio.sleep(answer.heartbeat_interval_ms / 1000)
