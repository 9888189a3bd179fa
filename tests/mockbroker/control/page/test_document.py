"""The document of the live page: its content, and the patch that each refresh makes."""

from __future__ import annotations

import pytest
from tools.control_api import Api, control_api
from tools.merge_patches import applied
from tools.state_slices import refresh

from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker.control.page import groups, topics
from mockbroker.control.page.document import StateDocument


async def commit(api: Api, group: str, offset: int) -> None:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequest.Topic(name="t", partitions=[partition])
    await api.cluster.connect().ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)


async def test_the_document_has_every_section() -> None:
    async with control_api() as api:
        await commit(api, "g", 1)
        api.cluster.produce("t", ["a", "b", "c"], partition=0)
        state = StateDocument(api.server.control)
        refresh(state)
        content = state.content
    assert content["groups"]["g"]["offsets"] == {"t": {"0": {"offset": 1, "lag": 2}}}
    assert content["topics"]["t"]["partitions"]["0"] == {"leader": 0, "start": 0, "end": 3}
    assert content["cluster"]["release"] == "4.2"
    assert (content["events"], content["requests"]) == ({"first": 1, "last": 1}, {"first": 1, "last": 1})
    assert (content["faults"], content["transactions"], content["left_out"]) == ({}, {}, {})
    assert [each["client_id"] for each in content["connections"].values()] == ["inside"]


async def test_the_patches_give_the_document() -> None:
    async with control_api() as api:
        state = StateDocument(api.server.control)
        copy = applied({}, refresh(state))
        for number in range(3):
            await commit(api, f"g{number}", number)
            await api.post("/v1/topics", {"name": f"topic{number}"})
            await api.post(
                "/v1/faults", {"name": "f", "match": {"api": "Heartbeat"}, "action": {"error": "UNKNOWN_MEMBER_ID"}}
            )
            copy = applied(copy, refresh(state))
            assert copy == state.content
            await api.ask("DELETE", f"/v1/topics/topic{number}")
            await api.ask("DELETE", "/v1/faults/f")
            copy = applied(copy, refresh(state))
            assert copy == state.content
            assert "f" not in copy["faults"]
        api.cluster.reset()
        assert applied(copy, refresh(state)) == state.content
        assert state.content["groups"] == {}


async def test_an_idle_cluster_has_an_empty_patch() -> None:
    async with control_api() as api:
        await commit(api, "g", 1)
        state = StateDocument(api.server.control)
        refresh(state)
        before = state.content["clock"]
        assert refresh(state) == {}
        assert state.content["clock"] == before


async def test_a_stopped_clock_is_in_the_patch() -> None:
    async with control_api(clock="manual") as api:
        state = StateDocument(api.server.control)
        refresh(state)
        assert refresh(state) == {}
        await api.cluster.clock.advance(5)
        assert refresh(state)["clock"]["time_ms"] == 5_000


async def test_what_exceeds_a_limit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "GROUPS", 3)
    monkeypatch.setattr(topics, "TOPICS", 2)
    async with control_api(topics={"t": 1, "u": 1, "v": 1, "w": 1}) as api:
        for number in range(5):
            await commit(api, f"g{number}", 1)
        state = StateDocument(api.server.control)
        refresh(state)
    assert list(state.content["groups"]) == ["g0", "g1", "g2"]
    assert state.content["left_out"]["groups"] == 2
    assert len(state.content["topics"]) == 2


async def test_presets_are_there_until_they_are_removed() -> None:
    async with control_api(brokers=2) as api:
        state = StateDocument(api.server.control)
        refresh(state)
        api.cluster.faults.add_preset("rolling-restart", {})
        assert refresh(state)["presets"] == {"rolling-restart": True}
        api.cluster.faults.remove("rolling-restart")
        assert refresh(state)["presets"] == {"rolling-restart": None}
