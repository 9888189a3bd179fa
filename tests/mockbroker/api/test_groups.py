"""Operations of an administrator on groups, through the handles of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire import ErrorCode as E
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker import (
    Cluster,
    CoordinatorUnavailableError,
    EmptyGroupError,
    UnknownGroupError,
    UnknownMemberError,
    UnknownTopicError,
    open_cluster,
)

QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}
JOIN = JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=60_000,
    protocol_type="consumer",
    protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
)


async def stable_member(cluster: Cluster) -> JoinGroupResponse:
    connection = cluster.connect()
    joined = await connection.ask(JOIN, 3)
    await connection.ask(
        SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id), 2
    )
    assert cluster.groups()["g"].state == "Stable"
    return joined


async def test_evicted_member_gets_unknown_member_id() -> None:
    async with open_cluster(config=QUICK) as cluster:
        joined = await stable_member(cluster)
        cluster.evict("g", joined.member_id, "it is slow")
        beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await cluster.connect().ask(beat, 4)).error_code == E.UNKNOWN_MEMBER_ID
        assert cluster.groups()["g"].state == "Empty"
        (expired,) = [event for event in cluster.events() if event.event == "expire"]
        assert (expired.member_id, expired.reason) == (joined.member_id, "evicted by an administrator: it is slow")


async def test_unknown_group_and_member() -> None:
    async with open_cluster(config=QUICK) as cluster:
        with pytest.raises(UnknownGroupError, match="group 'g' does not exist; existing groups: none"):
            cluster.evict("g", "a")
        joined = await stable_member(cluster)
        with pytest.raises(UnknownMemberError, match=f"group 'g' has no member 'a'; its members: '{joined.member_id}'"):
            cluster.evict("g", "a")


async def test_an_unknown_group_names_few_of_many_groups() -> None:
    async with open_cluster(config=QUICK, topics={"t": 1}) as cluster:
        connection = cluster.connect()
        for number in range(20):
            request = OffsetCommitRequest(
                group_id=f"g{number:02}",
                topics=[OffsetCommitRequest.Topic(name="t", partitions=[OffsetCommitRequest.Topic.Partition()])],
            )
            await connection.ask(request, 8)
        with pytest.raises(UnknownGroupError) as error:
            cluster.evict("g", "a")
        names = ", ".join(f"'g{number:02}'" for number in range(10))
        assert str(error.value) == f"group 'g' does not exist; existing groups: {names}, ..."


async def test_an_evicted_member_is_not_in_the_data_directory(tmp_path: Path) -> None:
    async with open_cluster(config=QUICK, data_dir=tmp_path) as cluster:
        joined = await stable_member(cluster)
        cluster.evict("g", joined.member_id)
    async with open_cluster(config=QUICK, data_dir=tmp_path) as cluster:
        assert (cluster.groups()["g"].state, cluster.groups()["g"].members) == ("Empty", ())


# --- rebalances ---------------------------------------------------------------------------------------------------


async def test_requested_rebalance_of_a_classic_group() -> None:
    async with open_cluster(config=QUICK) as cluster:
        joined = await stable_member(cluster)
        cluster.rebalance("g", "to test it")
        assert cluster.groups()["g"].state == "PreparingRebalance"
        assert cluster.events()[-1].reason == "requested by an administrator: to test it"
        beat = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await cluster.connect().ask(beat, 4)).error_code == E.REBALANCE_IN_PROGRESS
        cluster.rebalance("g")  # a join phase is in progress
        assert [event.event for event in cluster.events()].count("rebalance") == 2


async def test_requested_rebalance_of_a_group_of_the_consumer_protocol() -> None:
    async with open_cluster(config=QUICK, topics={"t": 1}) as cluster:
        join = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="a", rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        connection = cluster.connect()
        assert (await connection.ask(join)).member_epoch == 1
        cluster.rebalance("g")
        assert cluster.groups()["g"].generation == 2
        beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=1)
        assert (await connection.ask(beat)).member_epoch == 2


async def test_an_empty_group_cannot_rebalance() -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        cluster.set_committed("g", {("t", 0): 1})
        with pytest.raises(EmptyGroupError):
            cluster.rebalance("g")
        with pytest.raises(UnknownGroupError):
            cluster.rebalance("h")


# --- committed offsets --------------------------------------------------------------------------------------------


async def test_offsets_are_set_for_a_new_group_and_kept(tmp_path: Path) -> None:
    async with open_cluster(topics={"t": 2}, data_dir=tmp_path) as cluster:
        cluster.set_committed("g", {("t", 0): 3, ("t", 1): 0})
        assert cluster.committed("g") == {("t", 0): 3, ("t", 1): 0}
        (commit,) = cluster.events()
        assert (commit.event, commit.group, commit.offsets) == ("commit", "g", {"t": {0: 3, 1: 0}})
        assert commit.reason == "set by an administrator"
    async with open_cluster(topics={"t": 2}, data_dir=tmp_path) as cluster:
        assert cluster.committed("g") == {("t", 0): 3, ("t", 1): 0}


async def test_offsets_are_set_while_members_are_active() -> None:
    async with open_cluster(config=QUICK, topics={"t": 2}) as cluster:
        await stable_member(cluster)
        cluster.set_committed("g", {("t", 0): 3})
        assert (cluster.committed("g"), cluster.groups()["g"].state) == ({("t", 0): 3}, "Stable")


@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ({("t", 0): 1, ("u", 0): 1}, UnknownTopicError),
        ({("t", 0): 1, ("t", 2): 1}, UnknownTopicError),
        ({("t", 0): 1, ("t", 1): -1}, ValueError),
        ({("t", 0): 1, ("t", 1): 2**63}, ValueError),
        ({("t", 0): 1, ("t", 1): 1.5}, TypeError),
        ({("t", 0): 1, "t1": 1}, TypeError),
        ({("t", 0): 1, ("t", "1"): 1}, TypeError),
    ],
)
async def test_nothing_is_stored_if_an_offset_is_invalid(
    offsets: dict[tuple[str, int], int], error: type[Exception]
) -> None:
    async with open_cluster(topics={"t": 2}) as cluster:
        with pytest.raises(error):
            cluster.set_committed("g", offsets)
        assert (cluster.groups(), cluster.events()) == ({}, [])


async def test_a_group_id_that_is_not_a_str_is_rejected() -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        for call in (
            lambda group: cluster.set_committed(group, {("t", 0): 1}),
            lambda group: cluster.evict(group, "m"),
            cluster.rebalance,
        ):
            with pytest.raises(TypeError, match="the group id must be a str, got 5"):
                call(5)


@pytest.mark.parametrize("group", ["g" * 32_768, "\ud800"])
async def test_a_group_id_that_cannot_be_stored_creates_no_group(group: str) -> None:
    async with open_cluster(topics={"t": 2}) as cluster:
        with pytest.raises(ValueError, match=r"maximum is 32767|surrogates not allowed"):
            cluster.set_committed(group, {("t", 0): 1})
        assert cluster.groups() == {}


async def test_a_coordinator_that_is_gone_is_a_conflict() -> None:
    async with open_cluster(brokers=2, topics={"t": 1}, config={"offsets.topic.replication.factor": 1}) as cluster:
        cluster.set_committed("g", {("t", 0): 1})
        node = cluster.coordinator("g")
        cluster.kill_broker(node, noticed_after=60.0)
        with pytest.raises(CoordinatorUnavailableError, match="the coordinator of group 'g' is not running"):
            cluster.set_committed("g", {("t", 0): 2})
        cluster.start_broker(node)
        assert cluster.committed("g") == {("t", 0): 1}
