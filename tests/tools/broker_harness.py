"""A router without sockets, in virtual time, for tests of handlers and of the broker.

Each request and each response is encoded and decoded in its version, so a field that the version does not have is an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any
from uuid import UUID

from tools.group_records_check import check_group_records

import kwire
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.schema import schema_of
from mockbroker.base.effects import Call, Client, Close, Effects, NoReply, Reply, Ticket, Unmute
from mockbroker.base.release import KAFKA_4_2, Release
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Journal
from mockbroker.broker.router import Router
from mockbroker.groups.events import AdminEvent
from mockbroker.groups.group_type import GroupTypes
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.topics.model import Node

QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0, "group.min.session.timeout.ms": 100}
CHECKED_TURNS = 50  # steps between checks that the written records of groups match the groups
WALL = 1_700_000_000.0  # seconds since 1970 at time 0 of a harness


class SentRequest:
    """A request. ``answer``: the decoded response, None before it; ``closed``: why its connection was closed."""

    def __init__(self, ticket: Ticket, message: type, node: int = -1) -> None:
        self.ticket = ticket
        self.node = node
        self.message = message
        self.done = False
        self.answer: Any = None
        self.closed: str | None = None
        self.at: float | None = None
        self.muted = False  # whether later requests of the connection wait
        self.unmuted_at: float | None = None

    @property
    def parked(self) -> bool:
        return not self.done


class BrokerHarness:
    """A broker without sockets. Its clock begins at 0.

    ``topics``: name -> number of partitions, with one replica each; ``config``: settings by Kafka's names.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        first_node: int = 0,
        release: Release = KAFKA_4_2,
        types: GroupTypes = GROUP_TYPES,
    ) -> None:
        ids = count(1)
        nodes = [Node(first_node + number, "127.0.0.1", 9_000 + number) for number in range(brokers)]
        settings = Settings.parse(QUICK | dict(config or {}))
        self.broker = Broker(nodes, settings, lambda: UUID(int=next(ids)), release, wall_at_zero=WALL, types=types)
        cluster = self.broker.cluster
        for name, partitions in ({"t": 2} if topics is None else topics).items():
            cluster.create_topic(name, cluster.place(partitions, 1))
        self.journal = Journal(0.0)
        self.router = Router(self.broker, self.journal)
        self.now = 0.0
        self.sent: dict[Ticket, SentRequest] = {}
        self._numbers = count(1)
        self.watched = CHECKED_TURNS

    @staticmethod
    def join(
        group: str,
        member_id: str = "",
        metadata: bytes = b"",
        protocol_type: str = "consumer",
        instance_id: str | None = None,
    ) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=metadata)],
        )

    def topic_id(self, name: str) -> UUID:
        return self.broker.cluster.topics[name].topic_id

    def leader(self, topic: str, index: int) -> int:
        return self.broker.cluster.topics[topic].partitions[index].leader

    def send(
        self,
        request: Any,
        version: int,
        *,
        node: int | None = None,
        client_id: str = "client",
        connection: int | None = None,
    ) -> SentRequest:
        """Send a request to broker ``node``.

        ``connection``: number of a connection without pending requests; None for a new one.
        """
        api = schema_of(type(request)).api
        assert api is not None
        assert self.router.serves(api.key, version), f"{api.name} v{version} is not served"
        ticket = Ticket(next(self._numbers) if connection is None else connection, 1, api.key, version)
        node = min(self.broker.cluster.nodes) if node is None else node
        sent = self.sent[ticket] = SentRequest(ticket, api.response, node)
        frame = kwire.encode_request(request, version, correlation_id=1, client_id=client_id)
        received = kwire.decode(type(request), kwire.encode(request, version), version)
        call = Call(ticket, Client(node, client_id, "/127.0.0.1"), received, frame)
        self._take(self.router.step(call, self.now))
        self.wait(0.0)
        return sent

    def ask(self, request: Any, version: int, **how: Any) -> Any:
        """Send a request; return its response, which must not be delayed."""
        sent = self.send(request, version, **how)
        assert sent.answer is not None, f"no answer: {sent.closed or 'parked'}"
        return sent.answer

    def administer(self, group_id: str, event: AdminEvent) -> None:
        self.finish(self.broker.groups.receive(group_id, event, self.now))

    def finish(self, effects: Effects) -> None:
        self._take(self.router.finish(effects, self.now))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.router.deadline()) <= until:
            self.now = max(self.now, due)
            self._take(self.router.tick(self.now))
        self.now = until

    def _take(self, outcomes: Iterable[Any]) -> None:
        self.watched -= 1
        if self.watched >= 0:
            check_group_records(self.broker, WALL)
        for outcome in self.router.run(outcomes, self.now):
            sent = self.sent[outcome.ticket]
            if isinstance(outcome, Unmute):
                sent.unmuted_at = self.now
                continue
            assert not sent.done, "answered twice"
            sent.done, sent.at = True, self.now
            match outcome:
                case Reply(ticket, response, _, delivery):
                    sent.muted = delivery is not None and delivery.mute
                    sent.answer = kwire.decode(sent.message, kwire.encode(response, ticket.version), ticket.version)
                case Close(_, reason):
                    sent.closed = reason
                case NoReply(_, mute):
                    sent.muted = mute


def stable_member(
    harness: BrokerHarness,
    group: str,
    *,
    metadata: bytes = b"",
    assignment: bytes = b"",
    protocol_type: str = "consumer",
    instance_id: str | None = None,
) -> str:
    """Create a Stable group with one member; return the member id."""
    node = harness.broker.coordinator(group)
    version = 3 if instance_id is None else 5
    joined = harness.ask(BrokerHarness.join(group, "", metadata, protocol_type, instance_id), version, node=node)
    plan = [SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=assignment)]
    sync = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=plan
    )
    assert harness.ask(sync, 2, node=node).error_code == kwire.ErrorCode.NONE
    return joined.member_id


def commit_without_member(
    harness: BrokerHarness, group: str, *, topic: str = "t", offset: int = 5, node: int | None = None
) -> None:
    """Return an OffsetCommit for partition 0 without a member id."""
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequest.Topic(name=topic, partitions=[partition])]
    answer = harness.ask(OffsetCommitRequest(group_id=group, topics=topics), 5, node=node)
    assert [p.error_code for t in answer.topics for p in t.partitions] == [kwire.ErrorCode.NONE]


def committed(harness: BrokerHarness, group: str) -> dict[tuple[str, int], int]:
    """Return the committed offsets of a group, from OffsetFetch."""
    answer = harness.ask(OffsetFetchRequest(group_id=group, topics=None), 5)
    return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}
