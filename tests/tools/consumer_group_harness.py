"""A broker harness with one consumer group (KIP-848), whose members send a heartbeat only when a test calls for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tools.broker_harness import BrokerHarness

from kwire import ErrorCode
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NEWEST = 1
Owned = frozenset[tuple[str, int]]
NONE: Owned = frozenset()


@dataclass
class Client:
    """A member. ``owns``: partitions that it reads; ``assigned``: its last assignment."""

    name: str
    epoch: int = 0
    instance_id: str | None = None
    topics: list[str] | None = None
    owns: Owned = NONE
    assigned: Owned = NONE
    answer: ConsumerGroupHeartbeatResponse = field(default_factory=ConsumerGroupHeartbeatResponse)


class ConsumerGroupHarness(BrokerHarness):
    """A harness with one group ``g``, and the partitions of its members."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.clients: dict[str, Client] = {}

    @property
    def group(self) -> Any:
        return self.broker.groups["g"]

    def beat(self, name: str, *, version: int = NEWEST, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat with exactly these fields. Its response does not change a member."""
        return self.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id=name, **fields), version, client_id=name)

    def join(self, name: str, topics: Sequence[str] = ("t",), **fields: Any) -> Client:  # type: ignore[override]
        """Add a member, or let a member rejoin without partitions."""
        client = self.clients[name] = Client(name, instance_id=fields.get("instance_id"), topics=list(topics))
        given: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
        }
        self._take_up(client, self.beat(name, **given | fields))
        return client

    def poll(self, name: str, **fields: Any) -> Client:
        """Send the heartbeat of a member with its partitions, and apply the new assignment to it."""
        client = self.clients[name]
        given = {
            "member_epoch": client.epoch,
            "instance_id": client.instance_id,
            "topic_partitions": self.lines(client.owns),
        }
        self._take_up(client, self.beat(name, **given | fields))
        return client

    def leave(self, name: str, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """Let a member leave. It stops reading."""
        client = self.clients.pop(name)
        return self.beat(name, member_epoch=epoch, instance_id=client.instance_id)

    def settle(self, rounds: int = 10) -> None:
        """Send heartbeats of all members until their assignments are stable."""
        for _ in range(rounds):
            before = [(client.epoch, client.owns) for client in self.clients.values()]
            for name in list(self.clients):
                self.poll(name)
            if before == [(client.epoch, client.owns) for client in self.clients.values()]:
                return
        raise AssertionError(f"not settled after {rounds} rounds")

    def owned(self) -> dict[str, list[int]]:
        """Return the partitions of topic ``t`` by client."""
        return {name: sorted(index for topic, index in c.owns if topic == "t") for name, c in self.clients.items()}

    def _take_up(self, client: Client, answer: ConsumerGroupHeartbeatResponse) -> None:
        client.answer = answer
        if answer.error_code != ErrorCode.NONE:
            return
        client.epoch = answer.member_epoch
        if answer.assignment is not None:
            client.assigned = self.read(answer.assignment.topic_partitions)
        client.owns = client.assigned

    def lines(self, owned: Owned) -> list[ConsumerGroupHeartbeatRequest.TopicPartition]:
        """Return partitions as the field of a heartbeat."""
        partitions: dict[str, list[int]] = {}
        for topic, index in sorted(owned):
            partitions.setdefault(topic, []).append(index)
        line = ConsumerGroupHeartbeatRequest.TopicPartition
        return [line(topic_id=self.topic_id(topic), partitions=indexes) for topic, indexes in partitions.items()]

    def read(self, lines: Iterable[Any]) -> Owned:
        """Return the partitions of a heartbeat by topic name."""
        return frozenset((self._name(line.topic_id), index) for line in lines for index in line.partitions)

    def _name(self, topic_id: UUID) -> str:
        return self.broker.cluster.by_id[topic_id].name

    def describe(self, group: str = "g") -> Any:
        """Return the description of the group from the describe API."""
        answer = self.ask(ConsumerGroupDescribeRequest(group_ids=[group]), NEWEST)
        return answer.groups[0]


def subscription(topics: Iterable[str] = ("t",), owned: Iterable[int] = (), version: int = 1) -> bytes:
    lines = [ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=list(owned))] if owned else []
    return encode_stored(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=lines), version)


class MixedGroupHarness(ConsumerGroupHarness):
    """A harness with one group ``g`` that also has members of the classic protocol."""

    def __init__(self, config: Mapping[str, Any] | None = None, **how: Any) -> None:
        super().__init__(topics={"t": 3, "u": 2}, config=config, **how)

    def classic_join(
        self,
        member_id: str = "",
        *,
        version: int = 5,
        instance_id: str | None = None,
        metadata: bytes | None = None,
        name: str = "range",
        session: int = 10_000,
        **how: Any,
    ) -> JoinGroupResponse:
        return self.ask(self.joining(member_id, name, metadata, instance_id, session, **how), version)

    @staticmethod
    def joining(
        member_id: str,
        name: str = "range",
        metadata: bytes | None = None,
        instance_id: str | None = None,
        session: int = 10_000,
        **how: Any,
    ) -> JoinGroupRequest:
        protocols = [JoinGroupRequest.Protocol(name=name, metadata=metadata or subscription())]
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session,
            rebalance_timeout_ms=how.pop("rebalance", 5_000),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=how.pop("protocol_type", "consumer"),
            protocols=protocols,
        )

    def classic(self, *, instance_id: str | None = None, **how: Any) -> str:
        """Let a classic member join; return its member id."""
        if instance_id is None:
            member_id = self.classic_join(**how).member_id
            joined = self.classic_join(member_id, **how)
        else:
            joined = self.classic_join(instance_id=instance_id, **how)
        assert joined.error_code == ErrorCode.NONE
        return joined.member_id

    def sync(self, member_id: str, generation: int, **given: Any) -> SyncGroupResponse:
        return self.ask(SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, **given), 5)

    def share(self, member_id: str, generation: int) -> dict[str, list[int]]:
        answer = self.sync(member_id, generation, protocol_type="consumer", protocol_name="range")
        assert answer.error_code == ErrorCode.NONE
        assignment, _ = decode_stored(ConsumerProtocolAssignment, answer.assignment)
        return {line.topic: line.partitions for line in assignment.assigned_partitions}

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> int:
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.ask(request, 4).error_code

    def classic_leave(self, *members: tuple[str, str | None]) -> list[int]:
        lines = [LeaveGroupRequest.Member(member_id=m, group_instance_id=i) for m, i in members]
        answer = self.ask(LeaveGroupRequest(group_id="g", members=lines), 5)
        return [member.error_code for member in answer.members]
