"""The document of the live page over HTTP, and the stream of its changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from tools.control_api import PATIENCE, Api, EventClient, control_api, event_stream
from tools.merge_patches import applied

from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker.control import shared_state

PATH = "/v1/state/stream"


async def commit(api: Api, group: str, offset: int) -> None:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequest.Topic(name="t", partitions=[partition])
    await api.cluster.connect().ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)


class Follower:
    """A client that keeps its copy of the document up to date.

    Attributes:
        state: the document.
        kinds: the kinds of the events that it has received.
    """

    def __init__(self, stream: EventClient) -> None:
        self._stream = stream
        self.state: Any = None
        self.kinds: list[str] = []

    async def step(self) -> None:
        """Read an event."""
        event = await self._stream.event()
        assert event is not None
        self.kinds.append(event["event"])
        self.state = event["data"] if event["event"] == "state" else applied(self.state, event["data"])

    async def until(self, group: str, offset: int) -> None:
        """Read events until a group has committed this offset of partition 0."""
        while self.state is None or self.offset(group) != offset:
            await self.step()

    def offset(self, group: str) -> int | None:
        """Return the offset that a group has committed."""
        result = self.state["groups"].get(group, {}).get("offsets", {}).get("t", {}).get("0", {})
        return result.get("offset")


@asynccontextmanager
async def follower(api: Api) -> AsyncIterator[Follower]:
    async with event_stream(api, path=PATH) as stream:
        yield Follower(stream)


async def test_the_document_is_served() -> None:
    async with control_api() as api:
        await commit(api, "g\u202e<script>", 5)
        state = await api.get("/v1/state")
    assert state["groups"]["g\u202e<script>"]["offsets"] == {"t": {"0": {"offset": 5, "lag": 0}}}
    assert state["requests"] == {"first": 1, "last": 1}


async def test_the_patches_of_a_stream_give_the_document() -> None:
    async with control_api() as api, follower(api) as client:
        await client.step()
        for offset in range(5):
            await commit(api, "g", offset)
            await api.post("/v1/topics", {"name": f"u{offset}"})
            await client.until("g", offset)
        await api.ask("DELETE", "/v1/topics/u3")
        while "u3" in client.state["topics"]:
            await client.step()
        assert client.kinds == ["state", *["patch"] * (len(client.kinds) - 1)]
        current = await api.get("/v1/state")
        current.pop("clock")
        client.state.pop("clock")
        assert client.state == current


async def test_nothing_is_sent_while_nothing_changes() -> None:
    async with control_api() as api, follower(api) as client:
        await client.step()
        with trio.move_on_after(0.5) as idle:
            await client.step()
        assert idle.cancelled_caught


async def test_a_change_that_a_get_has_seen_reaches_the_streams() -> None:
    async with control_api() as api, follower(api) as client:
        await client.step()
        await commit(api, "g", 1)
        await api.get("/v1/state")
        with trio.fail_after(PATIENCE):
            await client.until("g", 1)


async def test_patches_are_limited_to_ten_per_second() -> None:
    async with control_api() as api, follower(api) as client:
        await client.step()
        began = trio.current_time()
        for offset in range(1, 401):
            await commit(api, "g", offset)
        await client.until("g", 400)
        assert len(client.kinds) <= 3 + (trio.current_time() - began) / shared_state.PAUSE


async def test_a_client_that_reads_slowly_gets_the_document_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_state, "PATCHES_KEPT", 1)
    async with control_api() as api:
        state = api.server.control.state
        async with follower(api) as client:
            await client.step()
            for offset in range(1, 4):
                await commit(api, "g", offset)
                await state.current()  # refreshes the document without notifying the stream
            await client.until("g", 3)
    assert client.kinds[1] == "state"


async def test_two_streams_share_the_refreshes() -> None:
    async with control_api() as api, follower(api) as one, follower(api) as two:
        await one.step()
        await two.step()
        await commit(api, "g", 1)
        await one.until("g", 1)
        await two.until("g", 1)
        assert one.state["groups"] == two.state["groups"]


async def test_a_reset_reaches_the_streams() -> None:
    async with control_api() as api:
        await commit(api, "g", 1)
        async with follower(api) as client:
            await client.until("g", 1)
            await api.post("/v1/reset")
            while client.state["groups"]:
                await client.step()


async def test_a_stream_ends_when_the_server_stops() -> None:
    async with control_api() as api, event_stream(api, path=PATH) as stream:
        await stream.event()
        api.server.stop()
        with trio.fail_after(0.9):
            assert await stream.event() == {"event": "bye", "data": {}}


async def test_state_streams_count_as_event_streams() -> None:
    async with control_api(config={"mockbroker.http.max.streams": 1}) as api, event_stream(api, path=PATH):
        assert await api.status("GET", PATH) == 429
