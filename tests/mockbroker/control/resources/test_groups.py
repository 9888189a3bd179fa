"""Groups, whose members send their requests without a socket."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from tools.control_api import Api, control_api, segment

from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.control.resources.groups import group_json, topic_names
from mockbroker.net.slices import complete

UUID = "AAAAAAAAAAAAAAAAAAAAAQ"


async def join(api: Api, group: str = "g", client_id: str = "c") -> str:
    """Join a classic group as its only member; return the member id."""
    subscription = encode_stored(ConsumerProtocolSubscription(topics=["t"]), 1)
    assignment = encode_stored(
        ConsumerProtocolAssignment(
            assigned_partitions=[ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 1])]
        ),
        1,
    )
    connection = api.cluster.connect(client_id=client_id)
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=subscription)]
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
        group_instance_id="i1",
    )
    joined = await connection.ask(request, 5)
    assignments = [SyncGroupRequest.Assignment(member_id=joined.member_id, assignment=assignment)]
    await connection.ask(
        SyncGroupRequest(
            group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
        ),
        3,
    )
    return str(joined.member_id)


async def commit(api: Api, group: str, offset: int = 1) -> None:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=1, committed_offset=offset, committed_metadata="m")
    topics = [OffsetCommitRequest.Topic(name="t", partitions=[partition])]
    await api.cluster.connect().ask(OffsetCommitRequest(group_id=group, topics=topics), 8)


async def test_a_classic_group() -> None:
    async with control_api(clock="manual") as api:
        member_id = await join(api)
        await api.post("/v1/clock", {"advance_ms": 1_000})
        group = await api.get("/v1/groups/g")
    (member,) = group.pop("members")
    assert group == {
        "id": "g",
        "type": "classic",
        "state": "Stable",
        "generation": 1,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": member_id,
        "coordinator": 0,
        "offsets": [],
    }
    assert member.pop("last_heartbeat").endswith("Z")
    assert member.pop("last_heartbeat_ms") < 1_000
    assert member == {
        "member_id": member_id,
        "instance_id": "i1",
        "client_id": "c",
        "host": "127.0.0.1",
        "subscription": ["t"],
        "assignment": {"t": [0, 1]},
    }


async def test_a_group_that_has_not_chosen_a_protocol() -> None:
    delay = {"group.initial.rebalance.delay.ms": 3_000}
    async with control_api(clock="manual", config=delay) as api, trio.open_nursery() as nursery:
        nursery.start_soon(join, api)
        group = await api.get("/v1/groups/g/wait", members=1, state="PreparingRebalance")
        assert group["members"][0]["subscription"] is None
        await api.get("/v1/state")
        nursery.cancel_scope.cancel()


async def test_a_group_of_the_consumer_protocol() -> None:
    async with control_api() as api:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=9_000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        await api.cluster.connect().ask(request, 1)
        group = await api.get("/v1/groups/g")
    assert (group["type"], group["generation"], group["epoch"], group["protocol"]) == ("consumer", 1, 1, "uniform")
    (member,) = group["members"]
    assert (member["subscription"], member["subscribed_regex"], member["epoch"]) == (["t"], None, 1)
    assert (member["state"], member["assignment"]) == ("STABLE", {"t": [0, 1]})
    assert member["last_heartbeat_ms"] >= 0


async def test_a_share_group() -> None:
    async with control_api() as api:
        request = ShareGroupHeartbeatRequest(group_id="g", member_id=UUID, member_epoch=0, subscribed_topic_names=["t"])
        await api.cluster.connect(client_id="c").ask(request, 1)
        group = await api.get("/v1/groups/g")
        (member,) = group["members"]
        state = await api.get("/v1/state")
    assert (group["type"], group["epoch"], group["protocol"]) == ("share", member["epoch"], "simple")
    assert (member["subscription"], member["client_id"], member["instance_id"]) == (["t"], "c", None)
    assert member["last_heartbeat_ms"] >= 0
    assert state["groups"]["g"]["members"][UUID]["subscription"] == ["t"]


async def test_a_streams_group() -> None:
    async with control_api() as api:
        topology = StreamsGroupHeartbeatRequest.Topology(
            epoch=1,
            subtopologies=[StreamsGroupHeartbeatRequest.Topology.Subtopology(subtopology_id="s", source_topics=["t"])],
        )
        request = StreamsGroupHeartbeatRequest(
            group_id="g",
            member_id=UUID,
            member_epoch=0,
            process_id="p",
            rebalance_timeout_ms=9_000,
            topology=topology,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        )
        await api.cluster.connect().ask(request, 0)
        group = await api.get("/v1/groups/g")
        (member,) = group["members"]
        state = await api.get("/v1/state")
    assert (group["type"], group["protocol"], member["subscription"]) == ("streams", "sticky", None)
    assert (member["process_id"], member["tasks"]) == ("p", {"active": {}, "standby": {}, "warmup": {}})
    assert member["last_heartbeat_ms"] >= 0
    assert "subscription" not in state["groups"]["g"]["members"][UUID]


async def test_committed_offsets_have_their_lag() -> None:
    async with control_api() as api:
        api.cluster.produce("t", ["x"] * 5, partition=1)
        await commit(api, "g", offset=2)
        await commit(api, "h")
        assert (await api.get("/v1/groups/g"))["offsets"] == [
            {"topic": "t", "partition": 1, "offset": 2, "lag": 3, "metadata": "m"}
        ]
        assert [item["id"] for item in (await api.get("/v1/groups"))["items"]] == ["g", "h"]


NAMES = ["a/b", "a b", "%2F", "ä", "?x=1#y", '"<b>', "\x1b[31m", "a\udcff", "wait"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_a_group_id_is_one_segment(name: str) -> None:
    async with control_api() as api:
        await commit(api, name)
        assert (await api.get(f"/v1/groups/{segment(name)}"))["id"] == name
        assert (await api.get(f"/v1/groups/{segment(name)}/wait"))["id"] == name


async def test_pages_of_groups() -> None:
    async with control_api() as api:
        for name in "cab":
            await commit(api, name)
        first = await api.get("/v1/groups", limit=2)
        assert ([each["id"] for each in first["items"]], first["next"]) == (["c", "a"], "a")  # oldest first
        second = await api.get("/v1/groups", limit=2, after=first["next"])
        assert ([each["id"] for each in second["items"]], second["next"]) == (["b"], None)
        assert await api.status("GET", "/v1/groups?after=gone") == 422


async def test_a_large_group_is_described_in_slices() -> None:
    async with control_api() as api:
        connection = api.cluster.connect()
        for number in range(250):
            request = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=f"m{number}",
                rebalance_timeout_ms=1,
                subscribed_topic_names=["t"],
                topic_partitions=[],
            )
            await connection.ask(request, 1)
        control = api.server.control
        slices = group_json(control, control.broker.groups["g"], topic_names(control))
        next(slices)
        control.cluster.evict("g", "m200")
        members = {member["member_id"] for member in (await complete(slices))["members"]}
        assert members == {f"m{number}" for number in range(250) if number != 200}
        assert len((await api.get("/v1/groups"))["items"][0]["members"]) == 249
        assert len(list(group_json(control, control.broker.groups["g"], {}))) == 3


async def test_an_unknown_group_is_not_found() -> None:
    async with control_api() as api:
        assert await api.status("GET", "/v1/groups/g") == 404


async def test_a_wait_ends_when_all_conditions_are_met() -> None:
    async with control_api() as api:
        results: list[Any] = []

        async def wait() -> None:
            results.append(await api.get("/v1/groups/g/wait", state="Stable", members=1, min_generation=1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            while not api.server.control.waiters.taken:
                await trio.sleep(0.001)
            await commit(api, "other")
            await join(api)
        assert (results[0]["state"], results[0]["generation"]) == ("Stable", 1)
        assert (await api.get("/v1/groups/none/wait", state="Dead"))["state"] == "Dead"


@pytest.mark.parametrize("query", ["state=Empty", "members=2", "min_generation=2", "state=Dead"])
async def test_a_wait_that_runs_out_has_the_group_and_events(query: str) -> None:
    async with control_api() as api:
        await join(api)
        response = await api.ask("GET", f"/v1/groups/g/wait?timeout_ms=1&{query}")
        assert response.status_code == 504
        assert response.json()["group"]["state"] == "Stable"
        assert response.json()["events"][-1]["kind"] == "assign"


async def test_a_wait_needs_an_existing_group() -> None:
    async with control_api() as api:
        response = await api.ask("GET", "/v1/groups/g/wait?timeout_ms=0")
        assert (response.status_code, response.json()["group"]["state"], response.json()["events"]) == (504, "Dead", [])


@pytest.mark.parametrize("query", ["timeout_ms=60001", "timeout_ms=-1", "state=Stablish", "members=x"])
async def test_an_impossible_wait(query: str) -> None:
    async with control_api() as api:
        assert await api.status("GET", f"/v1/groups/g/wait?{query}") == 422


async def test_the_number_of_waits_is_limited() -> None:
    async with control_api(config={"mockbroker.http.max.waiters": 1}) as api:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(api.ask, "GET", "/v1/groups/g/wait")
            while not api.server.control.waiters.taken:
                await trio.sleep(0.001)
            response = await api.ask("GET", "/v1/groups/h/wait")
            assert response.status_code == 429
            assert "mockbroker.http.max.waiters" in response.json()["detail"]
            await join(api)
        assert api.server.control.waiters.taken == 0


async def test_a_wait_ends_with_its_client() -> None:
    async with control_api() as api:
        with trio.move_on_after(0.2):
            await api.ask("GET", "/v1/groups/g/wait")
        with trio.fail_after(5):
            while api.server.control.waiters.taken:
                await trio.sleep(0.001)


async def test_a_wait_is_unavailable_when_the_server_stops() -> None:
    async with control_api() as api, trio.open_nursery() as nursery:

        async def wait() -> None:
            assert await api.status("GET", "/v1/groups/g/wait") == 503

        nursery.start_soon(wait)
        while not api.server.control.waiters.taken:
            await trio.sleep(0.001)
        api.server.stop()


async def test_a_member_is_evicted() -> None:
    async with control_api() as api:
        member_id = await join(api)
        path = f"/v1/groups/g/members/{segment(member_id)}"
        assert await api.status("DELETE", f"{path}?reason=flaky") == 204
        assert (await api.get("/v1/groups/g"))["members"] == []
        assert "flaky" in (await api.get("/v1/events", kind="expire"))["items"][0]["reason"]
        assert await api.status("DELETE", path) == 404
        assert await api.status("DELETE", "/v1/groups/none/members/x") == 404


async def test_a_rebalance_is_forced() -> None:
    async with control_api() as api:
        await join(api)
        assert (await api.post("/v1/groups/g/rebalance", {"reason": "why"}))["state"] == "PreparingRebalance"
        assert "why" in (await api.get("/v1/events", kind="rebalance"))["items"][-1]["reason"]
        assert await api.status("POST", "/v1/groups/none/rebalance") == 404
        await commit(api, "empty")
        assert await api.status("POST", "/v1/groups/empty/rebalance") == 409


@pytest.mark.parametrize("group_id", ["%FF", "x" * 32_768], ids=["no text", "too long"])
async def test_committed_offsets_need_a_valid_group_id(group_id: str) -> None:
    async with control_api() as api:
        offsets = {"offsets": [{"topic": "t", "partition": 0, "offset": 5}]}
        assert await api.status("PUT", f"/v1/groups/{group_id}/offsets", offsets) == 422


async def test_committed_offsets_are_set() -> None:
    async with control_api() as api:
        offsets = {
            "offsets": [{"topic": "t", "partition": 0, "offset": 5}, {"topic": "t", "partition": 1, "offset": 6}]
        }
        response = await api.ask("PUT", "/v1/groups/g/offsets", offsets)
        assert response.status_code == 200
        assert [each["offset"] for each in response.json()["offsets"]] == [5, 6]
        wrong = {"offsets": [{"topic": "none", "partition": 0, "offset": 5}]}
        assert await api.status("PUT", "/v1/groups/g/offsets", wrong) == 404
        wrong = {"offsets": [{"topic": "t", "partition": 0, "offset": -1}]}
        assert await api.status("PUT", "/v1/groups/g/offsets", wrong) == 422
