"""The stream of requests: each request is sent when it arrives, and again when it is answered."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from tools.control_api import PATIENCE, Api, EventClient, control_api, event_stream

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker.control.resources import request_stream

PATH = "/v1/requests/stream"
HOSTILE = "<script>\u202e\x1b[2J"


async def commit(api: Api, group: str, client_id: str = "c") -> None:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7)
    topic = OffsetCommitRequest.Topic(name="t", partitions=[partition])
    await api.cluster.connect(client_id=client_id).ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)


async def rows(stream: EventClient, count: int) -> list[dict[str, Any]]:
    results = []
    with trio.fail_after(PATIENCE):
        while len(results) < count:
            event = await stream.event()
            assert event is not None
            results.append(event["data"])
    return results


async def test_a_row_has_the_names_of_the_request() -> None:
    async with control_api() as api, event_stream(api, path=PATH) as stream:
        await commit(api, HOSTILE, HOSTILE)
        (row,) = await rows(stream, 1)
        (listed,) = (await api.get("/v1/requests"))["items"]
    assert (row["groups"], row["topics"], row["client_id"]) == ([HOSTILE], ["t"], HOSTILE)
    assert row["size"] > 20
    assert row["response_size"] > 10
    del listed["request"], listed["response"]
    assert listed.items() <= row.items()


async def test_a_request_comes_again_when_it_is_answered() -> None:
    async with control_api() as api, event_stream(api, path=PATH) as stream:
        await api.post("/v1/faults", {"name": "h", "match": {"api": "OffsetCommit"}, "action": {"hold": True}})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commit, api, "g")
            (waiting,) = await rows(stream, 1)
            await api.post("/v1/faults/h/release")
            (answered,) = await rows(stream, 1)
    assert (waiting["id"], waiting["latency_ms"], waiting["response_size"]) == (1, None, None)
    assert (answered["id"], answered["fault"]) == (1, "h")
    assert answered["latency_ms"] >= 0


async def test_only_requests_that_match_are_sent() -> None:
    async with control_api() as api, event_stream(api, "?group=g&api=OffsetCommit", path=PATH) as stream:
        await api.cluster.connect().ask(ApiVersionsRequest(), 0)
        await commit(api, "other")
        await commit(api, "g")
        assert [row["id"] for row in await rows(stream, 1)] == [3]


@pytest.mark.parametrize(("query", "headers"), [("?after=1", {}), ("?after=0", {"Last-Event-ID": "1"})])
async def test_a_stream_of_requests_continues_after_an_id(query: str, headers: dict[str, str]) -> None:
    async with control_api() as api:
        for number in range(3):
            await commit(api, f"g{number}")
        async with event_stream(api, query, headers, path=PATH) as stream:
            assert [row["id"] for row in await rows(stream, 2)] == [2, 3]


async def test_skipped_requests_are_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_stream, "BACKLOG", 2)
    async with control_api() as api:
        for number in range(5):
            await commit(api, f"g{number}")
        async with event_stream(api, "?after=0", path=PATH) as stream:
            gap = await stream.event()
            assert gap == {"event": "gap", "data": {"after": 0, "missed": 3}}
            assert [row["id"] for row in await rows(stream, 2)] == [4, 5]


async def test_the_rate_of_rows_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_stream, "ROWS_AT_ONCE", 1)
    async with control_api() as api:
        for number in range(4):
            await commit(api, f"g{number}")
        began = trio.current_time()
        async with event_stream(api, "?after=0", path=PATH) as stream:
            assert [row["id"] for row in await rows(stream, 4)] == [1, 2, 3, 4]
        assert trio.current_time() - began >= 3 * request_stream.PAUSE


async def test_a_reset_does_not_end_a_stream_of_requests() -> None:
    async with control_api() as api:
        await commit(api, "g")
        async with event_stream(api, path=PATH) as stream:
            await api.post("/v1/reset")
            await commit(api, "h")
            assert [row["id"] for row in await rows(stream, 1)] == [2]


async def test_two_streams_of_requests_get_the_same_rows() -> None:
    async with control_api() as api, event_stream(api, path=PATH) as one, event_stream(api, path=PATH) as two:
        await commit(api, "g")
        assert await rows(one, 1) == await rows(two, 1)


async def test_a_request_about_all_topics_names_none() -> None:
    async with control_api() as api, event_stream(api, path=PATH) as stream:
        await api.cluster.connect().ask(MetadataRequest(topics=None), 9)
        assert (await rows(stream, 1))[0]["topics"] == []
