"""Requests of clients."""

from __future__ import annotations

from typing import Any

from tools.control_api import Api, control_api

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest


async def commit(api: Api, group: str, client_id: str = "c") -> None:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7)
    topic = OffsetCommitRequest.Topic(name="t", partitions=[partition])
    await api.cluster.connect(client_id=client_id).ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)


def ids(page: Any) -> list[int]:
    return [each["id"] for each in page["items"]]


async def test_a_request_has_its_response() -> None:
    async with control_api() as api:
        await api.post("/v1/faults", {"name": "f", "match": {"api": "Metadata"}, "action": {"delay_ms": 0}})
        await api.cluster.connect(client_id="c").ask(MetadataRequest(topics=[]), 13)
        (found,) = (await api.get("/v1/requests"))["items"]
    assert (found["api"], found["version"], found["client_id"], found["broker"]) == ("Metadata", 13, "c", 0)
    assert found["request"]["topics"] == []
    assert found["response"]["controller_id"] == 0
    assert (found["error_code"], found["fault"], found["id"]) == (0, "f", 1)
    assert found["latency_ms"] >= 0


async def test_requests_are_filtered() -> None:
    async with control_api() as api:
        await commit(api, "g*", "one")
        await commit(api, "gg", "two")
        await api.cluster.connect(client_id="two").ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 9)
        await api.cluster.connect(client_id="two").ask(ApiVersionsRequest(), 0)
        assert ids(await api.get("/v1/requests", api="OffsetCommit")) == [1, 2]
        assert ids(await api.get("/v1/requests", group="g*")) == [1]
        assert ids(await api.get("/v1/requests", topic="t")) == [1, 2, 3]
        assert ids(await api.get("/v1/requests", topic="t", client_id="two", api="Metadata")) == [3]
        assert await api.status("GET", "/v1/requests?api=Nope") == 422


async def test_pages_of_requests_and_ids_after_a_reset() -> None:
    async with control_api() as api:
        for _ in range(3):
            await api.cluster.connect().ask(ApiVersionsRequest(), 0)
        page = await api.get("/v1/requests", limit=2)
        assert (ids(page), page["next"], page["last"]) == ([1, 2], 2, 3)
        assert ids(await api.get("/v1/requests", after=2)) == [3]
        await api.post("/v1/reset")
        await api.cluster.connect().ask(ApiVersionsRequest(), 0)
        assert ids(await api.get("/v1/requests", after=2)) == [4]


async def test_secrets_are_redacted() -> None:
    async with control_api() as api:
        await api.cluster.connect().ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 0)
        response = await api.ask("GET", "/v1/requests")
    assert response.json()["items"][0]["api"] == "SaslAuthenticate"
    assert b"c2VjcmV0" not in response.content
    assert b"secret" not in response.content
