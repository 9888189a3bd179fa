"""The assertions of a cluster: what each accepts, what it rejects, and what its message shows."""

from __future__ import annotations

import pytest

from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker import Event, EventKind, GroupSnapshot, InProcessConnection, open_cluster, run_cluster
from mockbroker.api.assertions import shared_ownership

TOPICS = {"orders": 2}
Share = ConsumerProtocolAssignment.TopicPartition


async def join(connection: InProcessConnection) -> tuple[str, int]:
    """Join group g as its only member, without a SyncGroup."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range")],
    )
    answer = await connection.ask(request, 3)
    return answer.member_id, answer.generation_id


async def lead(connection: InProcessConnection, member: str, generation: int, partitions: list[int]) -> None:
    share = ConsumerProtocolAssignment(assigned_partitions=[Share(topic="orders", partitions=partitions)])
    assignment = SyncGroupRequest.Assignment(member_id=member, assignment=encode_stored(share, 0))
    request = SyncGroupRequest(group_id="g", generation_id=generation, member_id=member, assignments=[assignment])
    assert not (await connection.ask(request, 2)).error_code


async def commit(connection: InProcessConnection, offset: int, partition: int = 0) -> int:
    """Commit an offset without a member; return the error code."""
    wanted = OffsetCommitRequest.Topic.Partition(partition_index=partition, committed_offset=offset)
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequest.Topic(name="orders", partitions=[wanted])])
    answer = await connection.ask(request, 7)
    code: int = answer.topics[0].partitions[0].error_code
    return code


# --- commits ---


async def test_commits_that_increase_are_not_lost() -> None:
    async with open_cluster(topics=TOPICS) as cluster:
        client = cluster.connect()
        for offset in (3, 3, 5):
            assert await commit(client, offset) == 0
        cluster.assert_no_commit_lost("g")


async def test_group_without_commits_fails() -> None:
    async with open_cluster(topics=TOPICS) as cluster:
        with pytest.raises(AssertionError, match="group 'g' has committed no offset\n"):
            cluster.assert_no_commit_lost("g")


async def test_commit_that_decreases_the_offset_is_a_loss() -> None:
    async with open_cluster(topics=TOPICS) as cluster:
        client = cluster.connect(client_id="worker")
        await commit(client, 5)
        await commit(client, 3)
        with pytest.raises(AssertionError) as raised:
            cluster.assert_no_commit_lost("g")
    lines = str(raised.value).splitlines()
    assert lines[0].startswith("the committed offset of orders-0 went back from 5 to 3 at ")
    assert lines[1].startswith("the committed offset of orders-0 is 3, but worker committed 5 at ")
    assert "events:" in lines
    assert "OffsetCommit requests of g: 2" in lines


async def test_refused_commit_is_lost_until_it_is_repeated() -> None:
    async with open_cluster(topics=TOPICS) as cluster:
        client = cluster.connect(client_id="worker")
        await commit(client, 2)
        with cluster.faults.error("OffsetCommit", "REBALANCE_IN_PROGRESS", name="refused"):
            assert await commit(client, 5) == 27
        with pytest.raises(AssertionError) as raised:
            cluster.assert_no_commit_lost("g")
        assert "is 2, but worker committed 5 at" in str(raised.value)
        assert "was answered with REBALANCE_IN_PROGRESS (fault rule refused)" in str(raised.value)
        await commit(client, 6)
        cluster.assert_no_commit_lost("g")


@pytest.mark.parametrize("pause", [0.0, 1.0], ids=["at the same time", "later"])
async def test_commit_of_an_administrator_is_a_new_start(pause: float) -> None:
    async with open_cluster(topics=TOPICS, clock="manual") as cluster:
        client = cluster.connect()
        await commit(client, 5)
        await cluster.clock.advance(pause)
        cluster.set_committed("g", {("orders", 0): 1})
        await commit(client, 2)
        cluster.assert_no_commit_lost("g")


async def test_deleted_offsets_are_lost() -> None:
    async with open_cluster(topics=TOPICS) as cluster:
        await commit(cluster.connect(), 5)
        cluster.delete_topic("orders")
        with pytest.raises(AssertionError, match="the committed offset of orders-0 is none, but inside committed 5"):
            cluster.assert_no_commit_lost("g")


# --- ownership ---


async def test_partitions_with_one_owner_each() -> None:
    async with open_cluster(topics=TOPICS, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        client = cluster.connect()
        member, generation = await join(client)
        await lead(client, member, generation, [0, 1])
        cluster.assert_owned_once("g")
        cluster.assert_owned_once("g", "orders")
        with pytest.raises(AssertionError, match="no partition of topic bills was assigned in group 'g'"):
            cluster.assert_owned_once("g", "bills")


async def test_partition_without_an_owner() -> None:
    async with open_cluster(topics=TOPICS, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        client = cluster.connect()
        member, generation = await join(client)
        await lead(client, member, generation, [0])
        with pytest.raises(AssertionError, match="orders-1 has no owner in generation 1\nevents:"):
            cluster.assert_owned_once("g")


def assign(member: str, *partitions: int, generation: int = 1) -> Event:
    return Event(
        time_ms=1500,
        event=EventKind.ASSIGN,
        group="g",
        member_id=member,
        generation=generation,
        assignment={"orders": list(partitions)},
    )


def event(kind: EventKind, member: str = "", leader: str = "") -> Event:
    return Event(time_ms=1600, event=kind, group="g", member_id=member, leader=leader)


EMPTY = GroupSnapshot(group_id="g", state="Empty")
TWO_OWNERS = "orders-1 has two owners in generation 1, since 1.5 s: a and b"
HISTORIES = {
    "both in one generation": ([assign("a", 0, 1), assign("b", 1)], True),
    "each its own": ([assign("a", 0), assign("b", 1)], False),
    "after a new classic generation": (
        [assign("a", 0, 1), event(EventKind.GENERATION, leader="a"), assign("b", 1)],
        False,
    ),
    "after a new epoch": ([assign("a", 0, 1), event(EventKind.GENERATION), assign("b", 1)], True),
    "after a revocation": ([assign("a", 0, 1), assign("a", 0), assign("b", 1)], False),
    "after the owner left": ([assign("a", 0, 1), event(EventKind.LEAVE, "a"), assign("b", 1)], False),
    "after the owner expired": ([assign("a", 0, 1), event(EventKind.EXPIRE, "a"), assign("b", 1)], False),
    "after another member left": ([assign("a", 0, 1), event(EventKind.LEAVE, "c"), assign("b", 1)], True),
    "while the owner is away": ([assign("a", 0, 1), event(EventKind.AWAY, "a"), assign("b", 1)], True),
}


@pytest.mark.parametrize(("events", "shared"), HISTORIES.values(), ids=HISTORIES)
def test_two_owners(events: list[Event], shared: bool) -> None:
    result = shared_ownership(EMPTY, events, TOPICS).splitlines()
    assert result[:1] == ([TWO_OWNERS] if shared else [])


# --- requests ---


async def test_number_of_requests() -> None:
    async with open_cluster() as cluster:
        client = cluster.connect(client_id="worker")
        for member in ("a", "b", "b"):
            await client.ask(HeartbeatRequest(group_id="g", member_id=member), 4)
        cluster.assert_requested("JoinGroup", 0)
        assert len(cluster.assert_requested("Heartbeat")) == 3
        (first,) = cluster.assert_requested("Heartbeat", 1, 'body.member_id == "a"')
        assert first.body.member_id == "a"
        cluster.assert_requested("Heartbeat", where='body.member_id == "b"', at_least=2)
        with pytest.raises(AssertionError) as raised:
            cluster.assert_requested("Heartbeat", 3, 'body.member_id == "b"')
    lines = str(raised.value).splitlines()
    assert lines[:2] == [
        'expected 3 Heartbeat requests where body.member_id == "b", found 2',
        "Heartbeat requests (* matches): 3",
    ]
    assert [line[0] for line in lines[2:5]] == [" ", "*", "*"]
    assert 'client=worker  error=UNKNOWN_MEMBER_ID  {"group_id": "g", ' in lines[2]


async def test_only_the_last_requests_are_shown() -> None:
    async with open_cluster() as cluster:
        client = cluster.connect()
        for _ in range(30):
            await client.ask(HeartbeatRequest(group_id="g", member_id="m" * 400), 4)
        with pytest.raises(AssertionError) as raised:
            cluster.assert_requested("Heartbeat", 2, 'body.member_id == "a"')
    lines = str(raised.value).splitlines()
    assert lines[1] == "Heartbeat requests (* matches): last 20 of 30"
    assert len(lines) == 23
    assert lines[2].endswith("m...")


def test_handle_of_a_thread_has_the_assertions() -> None:
    with run_cluster() as cluster:
        cluster.assert_requested("Heartbeat", 0)
        with pytest.raises(AssertionError, match="expected at least 1 Heartbeat requests, found 0"):
            cluster.assert_requested("Heartbeat")
        with pytest.raises(AssertionError, match="has committed no offset"):
            cluster.assert_no_commit_lost("g")
        with pytest.raises(AssertionError, match="no partition was assigned in group 'g'"):
            cluster.assert_owned_once("g")
