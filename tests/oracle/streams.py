"""A member of a streams group (KIP-1071), for scripts; and requests about such groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio
from prober import Prober
from script import NEW, Play, script

from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.messages.streams_group_heartbeat import KeyValue, StreamsGroupHeartbeatRequest

Request = StreamsGroupHeartbeatRequest
Topology = Request.Topology
Subtopology = Topology.Subtopology
TopicInfo = Subtopology.TopicInfo
CONFIG: dict[str, int | str] = {
    "group.streams.session.timeout.ms": 6000,
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.initial.rebalance.delay.ms": 0,
}
Tasks = Mapping[str, Sequence[int]]


def streams_script(**config: int | str) -> Any:
    """Add a script for a broker with short sessions and no initial delay. ``config``: others, with ``_`` for ``.``."""
    changes = {name.replace("_", "."): value for name, value in config.items()}

    def keep(play: Play) -> Play:
        return script(CONFIG | changes, releases=(NEW,))(play)

    return keep


def info(name: str, partitions: int = 0, factor: int = 0, **configs: str) -> TopicInfo:
    given = [KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return TopicInfo(name=name, partitions=partitions, replication_factor=factor, topic_configs=given)


def part(name: str, *sources: str, **more: Any) -> Subtopology:
    """Return a subtopology with these source topics."""
    return Subtopology(subtopology_id=name, source_topics=list(sources), **more)


def topology(*parts: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(parts))


def simple() -> Topology:
    """Return a topology of one stateless subtopology that reads probe, which has three partitions."""
    return topology(part("0", "probe"))


def word_count(p: Prober) -> Topology:
    """Return a stateless subtopology that writes to a repartition topic, and a stateful one that reads it."""
    again, log = f"{p.group}-counts-repartition", f"{p.group}-counts-changelog"
    return topology(
        part("0", "probe", repartition_sink_topics=[again]),
        part(
            "1",
            repartition_source_topics=[info(again, retention_ms="-1", cleanup_policy="delete")],
            state_changelog_topics=[info(log, factor=1, cleanup_policy="compact")],
        ),
    )


def task_ids(tasks: Tasks) -> list[Request.TaskIds]:
    return [Request.TaskIds(subtopology_id=name, partitions=list(numbers)) for name, numbers in tasks.items()]


@dataclass(slots=True, kw_only=True)
class Streams:
    """A member with the usual fields; epochs and tasks are those of the last response."""

    p: Prober
    conn: str
    topology: Topology = field(default_factory=simple)
    group: str = ""
    member_id: str = ""
    process: str = ""
    epoch: int = 0
    endpoint_epoch: int = 0
    active: dict[str, list[int]] = field(default_factory=dict)
    standby: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.group = self.group or self.p.group
        self.member_id = self.member_id or f"member-{self.conn.lower()}"
        self.process = self.process or f"process-{self.conn.lower()}"

    async def join(self, **changes: Any) -> Any:
        """Send a full heartbeat with epoch 0."""
        full: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 5_000,
            "topology": self.topology,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": self.process,
            "client_tags": [],
        }
        return await self.beat(**(full | changes))

    async def own(self, active: Tasks | None = None, standby: Tasks | None = None, **changes: Any) -> Any:
        """Send a heartbeat with the member's tasks, or with the given ones."""
        return await self.beat(
            active_tasks=task_ids(self.active if active is None else active),
            standby_tasks=task_ids(self.standby if standby is None else standby),
            warmup_tasks=[],
            **changes,
        )

    async def beat(self, conn: str = "", **changes: Any) -> Any:
        """Send a heartbeat with only ``changes``."""
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self.endpoint_epoch,
        }
        answer = await self.p.ask(conn or self.conn, Request(**(fields | changes)), 0)
        if not answer.error_code:
            self.epoch, self.endpoint_epoch = answer.member_epoch, answer.endpoint_information_epoch
            if answer.active_tasks is not None:
                self.active = {each.subtopology_id: each.partitions for each in answer.active_tasks}
                self.standby = {each.subtopology_id: each.partitions for each in answer.standby_tasks or ()}
        return answer

    async def leave(self, **changes: Any) -> Any:
        return await self.beat(**({"member_epoch": -1} | changes))

    async def commit(self, version: int = 9, *, topic: str = "probe", partition: int = 0, **changes: Any) -> Any:
        place = OffsetCommitRequest.Topic.Partition(
            partition_index=partition, committed_offset=7, committed_metadata=""
        )
        fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.member_id,
            "topics": [OffsetCommitRequest.Topic(name=topic, partitions=[place])],
        }
        return await self.p.ask(self.conn, OffsetCommitRequest(**(fields | changes)), version)

    async def fetch(self, version: int = 9, **changes: Any) -> Any:
        """Send OffsetFetch for partitions 0 and 1 of probe."""
        kind = OffsetFetchRequest.Group
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "topics": [kind.Topic(name="probe", partition_indexes=[0, 1])],
        }
        return await self.p.ask(self.conn, OffsetFetchRequest(groups=[kind(**(fields | changes))]), version)


async def created(p: Prober) -> None:
    """Wait until the broker has created the internal topics and knows them."""
    await p.wait(600, "internal topics are created")


async def look(p: Prober, *groups: str, operations: bool = False) -> None:
    """Send StreamsGroupDescribe."""
    await trio.sleep(0.1)  # Kafka 4 returns only state that is already written
    request = StreamsGroupDescribeRequest(group_ids=list(groups or [p.group]), include_authorized_operations=operations)
    await p.ask("D", request, 0)
