"""Brokers, leaders and coordinators."""

from __future__ import annotations

import pytest
from tools.control_api import control_api

from kwire.messages.metadata import MetadataRequest


async def test_a_broker_is_stopped_killed_and_started() -> None:
    async with control_api(brokers=2) as api:
        for action, state in (("stop", "stopped"), ("start", "running"), ("kill", "stopped"), ("start", "running")):
            assert (await api.post("/v1/brokers/1", {"action": action}))["state"] == state
        assert await api.status("POST", "/v1/brokers/1", {"action": "start"}) == 409


async def test_a_crash_is_noticed_later() -> None:
    async with control_api(brokers=2, clock="manual") as api:
        killed = await api.post("/v1/brokers/1", {"action": "kill", "noticed_after_ms": 5_000})
        assert killed["state"] == "stopped"
        ids = []
        for _ in range(2):
            metadata = await api.cluster.connect(0).ask(MetadataRequest(topics=[]), 9)
            ids.append([broker.node_id for broker in metadata.brokers])
            await api.post("/v1/clock", {"advance_ms": 5_000})
        assert ids == [[0, 1], [0]]
        assert await api.status("POST", "/v1/brokers/0", {"action": "stop", "noticed_after_ms": 1}) == 422


async def test_metadata_is_frozen_and_thawed() -> None:
    async with control_api(brokers=2) as api:
        await api.post("/v1/brokers/0", {"action": "freeze_metadata"})
        await api.post("/v1/topics", {"name": "new"})
        known = []
        for _ in range(2):
            metadata = await api.cluster.connect(0).ask(MetadataRequest(topics=None), 9)
            known.append("new" in [topic.name for topic in metadata.topics])
            await api.post("/v1/brokers/0", {"action": "thaw_metadata"})
        assert known == [False, True]


@pytest.mark.parametrize("broker", ["9", "x", "-1"])
async def test_an_unknown_broker_is_not_found(broker: str) -> None:
    async with control_api() as api:
        assert await api.status("POST", f"/v1/brokers/{broker}", {"action": "stop"}) == 404


async def test_leaders_and_coordinators_move() -> None:
    config = {"default.replication.factor": 2, "offsets.topic.replication.factor": 2}
    async with control_api(brokers=2, config=config) as api:
        for broker in (0, 1, 0):
            path = "/v1/topics/t/partitions/1/leader"
            assert await api.post(path, {"broker": broker}) == {"topic": "t", "partition": 1, "leader": broker}
            moved = await api.post("/v1/groups/a%2Fb/coordinator", {"broker": broker})
            assert moved == {"group": "a/b", "coordinator": broker}
        assert await api.status("POST", path, {"broker": 9}) == 422
        for unknown in ("/v1/topics/none/partitions/0/leader", "/v1/topics/t/partitions/x/leader"):
            assert await api.status("POST", unknown, {"broker": 0}) == 404
        api.cluster.stop_broker(1)
        assert await api.status("POST", path, {"broker": 1}) == 409
