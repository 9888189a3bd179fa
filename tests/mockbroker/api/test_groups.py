"""Operations of an administrator on groups, through the handles of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire import ErrorCode as E
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker import Cluster, UnknownGroupError, UnknownMemberError, open_cluster

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


async def test_an_evicted_member_is_not_in_the_data_directory(tmp_path: Path) -> None:
    async with open_cluster(config=QUICK, data_dir=tmp_path) as cluster:
        joined = await stable_member(cluster)
        cluster.evict("g", joined.member_id)
    async with open_cluster(config=QUICK, data_dir=tmp_path) as cluster:
        assert (cluster.groups()["g"].state, cluster.groups()["g"].members) == ("Empty", ())
