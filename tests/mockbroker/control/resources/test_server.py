"""Health, the cluster as a whole, reset, and the OpenAPI document."""

from __future__ import annotations

from pathlib import Path

from tools.control_api import control_api


async def test_health() -> None:
    async with control_api(as_version="3.9") as api:
        health = await api.get("/v1/health")
    assert (health["status"], health["kind"], health["release"]) == ("ok", "mock", "3.9")
    assert {"clock", "events", "groups", "reset"} <= set(health["capabilities"])


async def test_the_cluster() -> None:
    async with control_api(brokers=2, topics={"a": 2, "b": 3}) as api:
        api.cluster.stop_broker(1)
        cluster = await api.get("/v1/cluster")
        assert cluster["bootstrap_servers"] == api.cluster.bootstrap_servers
        assert cluster["listeners"] == [{"name": "PLAINTEXT", "bootstrap_servers": api.cluster.bootstrap_servers}]
    assert [(broker["id"], broker["state"]) for broker in cluster["brokers"]] == [(0, "running"), (1, "stopped")]
    assert cluster["counts"] == {"topics": 2, "partitions": 5, "groups": 0, "members": 0, "connections": 0}


async def test_reset() -> None:
    async with control_api() as api:
        api.cluster.create_topic("more")
        assert await api.post("/v1/reset") == {"after": 0}
        assert (await api.get("/v1/cluster"))["counts"]["topics"] == 1


async def test_a_cluster_on_disk_is_not_reset(tmp_path: Path) -> None:
    async with control_api(data_dir=tmp_path / "data") as api:
        response = await api.ask("POST", "/v1/reset")
        assert response.status_code == 409
        assert "data directory" in response.json()["detail"]
