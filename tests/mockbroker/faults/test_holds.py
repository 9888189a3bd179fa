"""Held requests in combination with session timers, the clock, failover and disconnecting clients: the table of
docs/faults.md."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
import trio
import trio.testing

from kwire import ErrorCode as E
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Topic
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest
from kwire.records.batch import batches
from mockbroker import Cluster, ConnectionClosedError, InProcessConnection, open_cluster

SESSION = 10.0  # seconds: the session of the member, its rebalance timeout, and the timeout of the transaction
BEFOREHAND = 6.0  # seconds between the last request that renews the session and the held request
AFTERWARDS = 6.0  # seconds between the end of the hold and the moment at which the state is read
When: TypeAlias = Literal["before", "after"]
Request: TypeAlias = tuple[Any, int]


class World:
    """Two brokers and a client of the first broker, which coordinates the group and the transaction and leads the
    partition."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.connection: InProcessConnection = cluster.connect(0)
        self.answer = ""
        self.moved = [("__consumer_offsets", 0), ("__transaction_state", 0), ("t", 0)]

    async def ask(self, request: Any, version: int) -> Any:
        return await self.connection.ask(request, version)

    def group(self) -> str:
        group = self.cluster.groups().get("g")
        return "no group" if group is None else f"{group.state}, {len(group.members)} member{'s' * (not group.members)}"

    def offset(self) -> str:
        return f"offset {self.cluster.committed('g').get(('t', 0), 'none')}"

    def transaction(self) -> str:
        return self.cluster.transactions()["x"].state

    def nothing(self) -> str:
        return ""

    async def joined(self) -> str:
        """Join, and return the member id."""
        return str((await self.ask(*join())).member_id)

    async def synced(self) -> str:
        member_id = await self.joined()
        await self.ask(*sync(member_id))
        await self.cluster.clock.advance(BEFOREHAND)
        return member_id

    # The held requests, each with the requests that precede it.

    async def join_group(self) -> Request:
        return join()

    async def sync_group(self) -> Request:
        member_id = await self.joined()
        await self.cluster.clock.advance(BEFOREHAND)
        return sync(member_id)

    async def heartbeat(self) -> Request:
        return HeartbeatRequest(group_id="g", generation_id=1, member_id=await self.synced()), 4

    async def offset_commit(self) -> Request:
        place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5)
        topics = [OffsetCommitRequest.Topic(name="t", partitions=[place])]
        who = {"generation_id_or_member_epoch": 1, "member_id": await self.synced()}
        return OffsetCommitRequest(group_id="g", topics=topics, **who), 8

    async def fetch(self) -> Request:
        self.cluster.produce("t", ["early"])
        place = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1_000)
        topics = [FetchRequest.Topic(topic="t", partitions=[place])]
        return FetchRequest(max_wait_ms=0, max_bytes=1_000, session_epoch=-1, topics=topics), 11

    async def end_txn(self) -> Request:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=int(SESSION * 1000))
        begun = await self.ask(request, 4)
        who = {"transactional_id": "x", "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
        fields = who | {"topics": [Topic(name="t", partitions=[0])]}
        await self.ask(AddPartitionsToTxnRequest(**{f"v3_and_below_{key}": each for key, each in fields.items()}), 3)
        return EndTxnRequest(**who, committed=True), 3

    # Events while a request is held.

    async def nothing_else(self) -> None:
        """Release the request at once."""

    async def timeouts_expire(self) -> None:
        await self.cluster.clock.advance(2.5 * SESSION)  # the broker looks for timed out transactions every 10 s

    async def coordinator_moves(self) -> None:
        for topic, partition in self.moved:
            self.cluster.move_leader(topic, partition, 1)

    async def broker_stops(self) -> None:
        self.cluster.stop_broker(0)

    async def client_disconnects(self) -> None:
        self.connection.close()


def join() -> Request:
    times = {"session_timeout_ms": int(SESSION * 1000), "rebalance_timeout_ms": int(SESSION * 1000)}
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
    return JoinGroupRequest(group_id="g", protocol_type="x", protocols=protocols, **times), 3


def sync(member_id: str) -> Request:
    share = SyncGroupRequest.Assignment(member_id=member_id, assignment=b"")
    return SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id, assignments=[share]), 3


def error_of(response: Any) -> str:
    """Return the name of the error in a response, and the number of records if it is a Fetch response."""
    result = response
    for field in ("topics", "responses", "partitions"):
        result = getattr(result, field, [result])[0]
    name = E(result.error_code).name
    if not hasattr(result, "records") or result.error_code:
        return name
    number = sum(len(list(batch.records())) for batch in batches(result.records or b""))
    return f"{name}, {number} record{'s' * (number != 1)}"


@asynccontextmanager
async def opened() -> AsyncIterator[World]:
    config = {
        "mockbroker.join.settle.ms": 0,
        "group.initial.rebalance.delay.ms": 0,
        "default.replication.factor": 2,
        "offsets.topic.replication.factor": 2,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 2,
        "transaction.state.log.num.partitions": 1,
    }
    async with open_cluster(brokers=2, topics={"t": 1}, clock="manual", config=config) as cluster:
        world = World(cluster)
        for key_type, key in enumerate("gx"):
            await world.ask(FindCoordinatorRequest(key=key, key_type=key_type), 3)  # creates the internal topic
        for topic, partition in world.moved:
            cluster.move_leader(topic, partition, 0)
        yield world


async def played(api: str, when: When, event: str) -> tuple[str, str]:
    """Hold a request, let an event happen, release the request; return the answer and the resulting state."""
    prepare, read = REQUESTS[api]
    async with opened() as world, trio.open_nursery() as nursery:
        request, version = await prepare(world)
        fault = world.cluster.faults.hold(api, when=when)  # type: ignore[arg-type]

        async def ask() -> None:
            try:
                world.answer = error_of(await world.ask(request, version))
            except ConnectionClosedError:
                world.answer = "closed"

        nursery.start_soon(ask)
        await fault.wait_holding()
        if api == "Fetch":
            world.cluster.produce("t", ["late"])
        if event == "while held":
            answer, state = "", read(world)
            fault.release()
            return answer, state
        await EVENTS[event](world)
        await trio.testing.wait_all_tasks_blocked()
        fault.release()
        await trio.testing.wait_all_tasks_blocked()
        if event != "timeouts expire":
            await world.cluster.clock.advance(AFTERWARDS)
        return world.answer, read(world)


REQUESTS: dict[str, tuple[Callable[[World], Awaitable[Request]], Callable[[World], str]]] = {
    "JoinGroup": (World.join_group, World.group),
    "SyncGroup": (World.sync_group, World.group),
    "Heartbeat": (World.heartbeat, World.group),
    "OffsetCommit": (World.offset_commit, World.offset),
    "Fetch": (World.fetch, World.nothing),
    "EndTxn": (World.end_txn, World.transaction),
}
EVENTS: dict[str, Callable[[World], Awaitable[None]]] = {
    "release": World.nothing_else,
    "timeouts expire": World.timeouts_expire,
    "coordinator moves": World.coordinator_moves,
    "broker stops": World.broker_stops,
    "client disconnects": World.client_disconnects,
}

# (API, when): event while the request is held: the answer and the resulting state.
ROWS: dict[tuple[str, When], dict[str, tuple[str, str]]] = {
    ("JoinGroup", "before"): {
        "while held": ("", "no group"),
        "release": ("NONE", "CompletingRebalance, 1 member"),
        "timeouts expire": ("NONE", "CompletingRebalance, 1 member"),
        "coordinator moves": ("NOT_COORDINATOR", "no group"),
        "broker stops": ("closed", "no group"),
        "client disconnects": ("closed", "CompletingRebalance, 1 member"),
    },
    ("JoinGroup", "after"): {
        "while held": ("", "CompletingRebalance, 1 member"),
        "release": ("NONE", "CompletingRebalance, 1 member"),
        "timeouts expire": ("NONE", "Empty, 0 members"),
        "coordinator moves": ("NONE", "Empty, 0 members"),
        "broker stops": ("closed", "Empty, 0 members"),
        "client disconnects": ("closed", "CompletingRebalance, 1 member"),
    },
    ("SyncGroup", "before"): {
        "while held": ("", "CompletingRebalance, 1 member"),
        "release": ("NONE", "Stable, 1 member"),
        "timeouts expire": ("UNKNOWN_MEMBER_ID", "Empty, 0 members"),
        "coordinator moves": ("NOT_COORDINATOR", "Empty, 0 members"),
        "broker stops": ("closed", "Empty, 0 members"),
        "client disconnects": ("closed", "Stable, 1 member"),
    },
    ("SyncGroup", "after"): {
        "while held": ("", "Stable, 1 member"),
        "release": ("NONE", "Stable, 1 member"),
        "timeouts expire": ("NONE", "Empty, 0 members"),
        "coordinator moves": ("NONE", "Stable, 1 member"),
        "broker stops": ("closed", "Stable, 1 member"),
        "client disconnects": ("closed", "Stable, 1 member"),
    },
    ("Heartbeat", "before"): {
        "while held": ("", "Stable, 1 member"),
        "release": ("NONE", "Stable, 1 member"),
        "timeouts expire": ("UNKNOWN_MEMBER_ID", "Empty, 0 members"),
        "coordinator moves": ("NOT_COORDINATOR", "Stable, 1 member"),
        "broker stops": ("closed", "Stable, 1 member"),
        "client disconnects": ("closed", "Stable, 1 member"),
    },
    ("Heartbeat", "after"): {
        "while held": ("", "Stable, 1 member"),
        "release": ("NONE", "Stable, 1 member"),
        "timeouts expire": ("NONE", "Empty, 0 members"),
        "coordinator moves": ("NONE", "Stable, 1 member"),
        "broker stops": ("closed", "Stable, 1 member"),
        "client disconnects": ("closed", "Stable, 1 member"),
    },
    ("OffsetCommit", "before"): {
        "while held": ("", "offset none"),
        "release": ("NONE", "offset 5"),
        "timeouts expire": ("UNKNOWN_MEMBER_ID", "offset none"),
        "coordinator moves": ("NOT_COORDINATOR", "offset none"),
        "broker stops": ("closed", "offset none"),
        "client disconnects": ("closed", "offset 5"),
    },
    ("OffsetCommit", "after"): {
        "while held": ("", "offset 5"),
        "release": ("NONE", "offset 5"),
        "timeouts expire": ("NONE", "offset 5"),
        "coordinator moves": ("NONE", "offset 5"),
        "broker stops": ("closed", "offset 5"),
        "client disconnects": ("closed", "offset 5"),
    },
    ("Fetch", "before"): {
        "while held": ("", ""),
        "release": ("NONE, 2 records", ""),
        "timeouts expire": ("NONE, 2 records", ""),
        "coordinator moves": ("NONE, 2 records", ""),
        "broker stops": ("closed", ""),
        "client disconnects": ("closed", ""),
    },
    ("Fetch", "after"): {
        "while held": ("", ""),
        "release": ("NONE, 1 record", ""),
        "timeouts expire": ("NONE, 1 record", ""),
        "coordinator moves": ("NONE, 1 record", ""),
        "broker stops": ("closed", ""),
        "client disconnects": ("closed", ""),
    },
    ("EndTxn", "before"): {
        "while held": ("", "Ongoing"),
        "release": ("NONE", "CompleteCommit"),
        "timeouts expire": ("PRODUCER_FENCED", "CompleteAbort"),
        "coordinator moves": ("NOT_COORDINATOR", "Ongoing"),
        "broker stops": ("closed", "Ongoing"),
        "client disconnects": ("closed", "CompleteCommit"),
    },
    ("EndTxn", "after"): {
        "while held": ("", "CompleteCommit"),
        "release": ("NONE", "CompleteCommit"),
        "timeouts expire": ("NONE", "CompleteCommit"),
        "coordinator moves": ("NONE", "CompleteCommit"),
        "broker stops": ("closed", "CompleteCommit"),
        "client disconnects": ("closed", "CompleteCommit"),
    },
}
CELLS = [(api, when, event) for (api, when), row in ROWS.items() for event in row]


@pytest.mark.parametrize(("api", "when", "event"), CELLS)
async def test_held_request(api: str, when: When, event: str) -> None:
    assert await played(api, when, event) == ROWS[api, when][event]


# The table of docs/faults.md.

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
WITHOUT_ANSWER = {"while held", "broker stops", "client disconnects"}


def documented(api: str, when: str, row: dict[str, tuple[str, str]]) -> str:
    """Return a row of the table."""
    cells = [f"`{api}` {when}"]
    for event, (answer, state) in row.items():
        parts = [] if event in WITHOUT_ANSWER else [answer]
        cells.append("; ".join(part for part in (*parts, state) if part) or "no effect")
    return f"| {' | '.join(cells)} |"


def test_table_of_the_documentation_has_every_held_request() -> None:
    _, _, section = PAGE.read_text("utf-8").partition("## Held requests")
    section, _, _ = section.partition("\n## ")
    rows = [documented(api, when, row) for (api, when), row in ROWS.items()]
    assert [line for line in section.splitlines() if line.startswith("| `")] == rows
