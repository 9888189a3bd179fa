"""A member of a group of the consumer protocol (KIP-848), for scripts; and requests about such groups."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import trio
from prober import Prober
from script import NEW, Play, script

from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.create_topics import CreateTopicsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest

SESSION = "group.consumer.session.timeout.ms"
CONFIG: dict[str, int | str] = {
    SESSION: 6000,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
Owned = list[ConsumerGroupHeartbeatRequest.TopicPartition]


def consumer_script(**config: int | str) -> Any:
    """Add a script for a broker with short sessions. ``config``: other settings, with ``_`` for ``.``."""
    changes = {name.replace("_", "."): value for name, value in config.items()}

    def keep(play: Play) -> Play:
        return script(CONFIG | changes, releases=(NEW,))(play)

    return keep


def topic_id(p: Prober, topic: str) -> UUID:
    text = next(text for text, label in p.names.items() if label == f"$topic:{topic}")
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def owning(p: Prober, *partitions: int, topic: str = "probe") -> Owned:
    kind = ConsumerGroupHeartbeatRequest.TopicPartition
    return [kind(topic_id=topic_id(p, topic), partitions=list(partitions))] if partitions else []


@dataclass(slots=True, kw_only=True)
class Consumer:
    """A member with the usual fields; its epoch is that of the last response."""

    p: Prober
    conn: str
    group: str = ""
    member_id: str = ""
    epoch: int = 0
    instance: str | None = None
    rebalance: int = 5_000
    names: Sequence[str] | None = ("probe",)
    regex: str | None = None
    version: int = 1

    def __post_init__(self) -> None:
        self.group = self.group or self.p.group
        self.member_id = self.member_id or f"member-{self.conn.lower()}"

    async def join(self, **changes: Any) -> Any:
        """Send a full heartbeat with epoch 0."""
        full: dict[str, Any] = {
            "member_epoch": 0,
            "instance_id": self.instance,
            "rebalance_timeout_ms": self.rebalance,
            "subscribed_topic_names": None if self.names is None else list(self.names),
            "topic_partitions": [],
        }
        if self.version >= 1:
            full["subscribed_topic_regex"] = self.regex
        return await self.beat(**(full | changes))

    async def beat(self, *owned: int, conn: str = "", version: int | None = None, **changes: Any) -> Any:
        """Send a heartbeat with only ``changes``, and with owned partitions of probe if some are given."""
        fields: dict[str, Any] = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        if owned:
            fields["topic_partitions"] = owning(self.p, *owned)
        request = ConsumerGroupHeartbeatRequest(**(fields | changes))
        answer = await self.p.ask(conn or self.conn, request, self.version if version is None else version)
        if not answer.error_code:
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
        return answer

    async def leave(self, epoch: int = -1, **changes: Any) -> Any:
        names = {"instance_id": self.instance} | changes
        return await self.beat(member_epoch=epoch, **names)

    async def commit(self, version: int = 9, *, topic: str = "probe", offset: int = 7, **changes: Any) -> Any:
        """Commit an offset of partition 0 of a topic, by name, or by id in v10 and later."""
        place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset, committed_metadata="")
        by_id = {"topic_id": topic_id(self.p, topic)} if version >= 10 else {"name": topic}
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "topics": [OffsetCommitRequest.Topic(**by_id, partitions=[place])],
        }
        return await self.p.ask(self.conn, OffsetCommitRequest(**(fields | changes)), version)

    async def fetch(self, version: int = 9, *, topic: str = "probe", **changes: Any) -> Any:
        """Send OffsetFetch for partitions 0 and 1 of a topic."""
        kind = OffsetFetchRequest.Group
        by_id = {"topic_id": topic_id(self.p, topic)} if version >= 10 else {"name": topic}
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "topics": [kind.Topic(**by_id, partition_indexes=[0, 1])],
        }
        return await self.p.ask(self.conn, OffsetFetchRequest(groups=[kind(**(fields | changes))]), version)


async def look(p: Prober, *groups: str, version: int = 1, operations: bool = False) -> None:
    """Send ConsumerGroupDescribe."""
    await trio.sleep(0.1)  # Kafka 4 returns only state that is already written
    request = ConsumerGroupDescribeRequest(
        group_ids=list(groups or [p.group]), include_authorized_operations=operations
    )
    await p.ask("D", request, version)


async def look_old(p: Prober, *groups: str, version: int = 6) -> None:
    """Send DescribeGroups."""
    await trio.sleep(0.1)
    await p.ask("D", DescribeGroupsRequest(groups=list(groups or [p.group])), version)


async def list_groups(p: Prober, *, states: Sequence[str] = (), types: Sequence[str] = (), version: int = 5) -> None:
    await trio.sleep(0.1)
    request = ListGroupsRequest(states_filter=list(states))
    if version >= 5:
        request.types_filter = list(types)
    await p.ask("L", request, version)


async def create(p: Prober, topic: str, partitions: int, **configs: str) -> None:
    """Create a topic, and wait until the broker knows it. ``configs``: with ``_`` for ``.``."""
    kind = CreateTopicsRequest.Topic
    given = [kind.Config(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    made = kind(name=topic, num_partitions=partitions, replication_factor=1, configs=given)
    await p.ask("T", CreateTopicsRequest(topics=[made], timeout_ms=5000), 7)
    await p.wait(300)


async def grow(p: Prober, topic: str, count: int) -> None:
    wanted = CreatePartitionsRequest.Topic(name=topic, count=count, assignments=None)
    await p.ask("T", CreatePartitionsRequest(topics=[wanted], timeout_ms=5000), 3)
    await p.wait(300)


async def drop(p: Prober, topic: str) -> None:
    await p.ask("T", DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 4)
    await p.wait(500)
