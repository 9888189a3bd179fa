"""Event streams, with events that commits make."""

from __future__ import annotations

import socket

import pytest
import trio
from tools.control_api import PATIENCE, Api, control_api, event_stream

from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker.control import streams
from mockbroker.net.in_process import InProcessConnection


async def commit(api: Api, group: str, connection: InProcessConnection | None = None) -> None:
    """Commit an offset in a group, which makes an event."""
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequest.Topic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id=group, topics=[topic])
    await (connection or api.cluster.connect()).ask(request, 8)


async def test_new_events_arrive() -> None:
    async with control_api() as api:
        await commit(api, "before")
        async with event_stream(api) as stream:
            await commit(api, "g")
            event = await stream.event()
    assert event is not None
    assert event["id"] == "2"
    assert (event["data"]["id"], event["data"]["kind"], event["data"]["group"]) == (2, "commit", "g")


@pytest.mark.parametrize(
    ("query", "headers"), [("", {"Last-Event-ID": "3"}), ("?after=3", {}), ("?after=0", {"Last-Event-ID": "3"})]
)
async def test_a_stream_continues_after_an_id(query: str, headers: dict[str, str]) -> None:
    async with control_api() as api:
        for number in range(5):
            await commit(api, f"g{number}")
        async with event_stream(api, query, headers) as stream:
            assert [(await stream.event() or {})["id"] for _ in range(2)] == ["4", "5"]


async def test_a_stream_has_only_what_matches() -> None:
    async with control_api() as api, event_stream(api, "?group=g&kind=commit") as stream:
        for group in ("other", "g"):
            await commit(api, group)
        assert (await stream.event() or {})["data"]["group"] == "g"


async def test_events_that_are_not_kept_are_a_gap() -> None:
    async with control_api() as api:
        api.cluster.journal.max_events = 2
        for number in range(5):
            await commit(api, f"g{number}")
        async with event_stream(api, "?after=1") as stream:
            gap, first = await stream.event() or {}, await stream.event() or {}
    assert (gap["data"]["kind"], gap["data"]["missed"]) == ("gap", 2)
    assert (gap["id"], first["id"]) == ("3", "4")


async def test_an_idle_stream_has_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT", 0.01)
    async with control_api() as api, event_stream(api) as stream:
        assert [await stream.line() for _ in range(4)] == ["", ":", "", ":"]


async def test_streams_end_themselves_when_the_server_stops() -> None:
    async with control_api() as api, event_stream(api) as stream:
        api.server.stop()
        with trio.fail_after(0.9):
            assert await stream.event() == {"event": "bye", "data": {}}
            assert await stream.event() is None  # the chunked response is complete


async def test_the_number_of_streams_is_limited() -> None:
    async with control_api(config={"mockbroker.http.max.streams": 1}) as api:
        async with event_stream(api):
            assert await api.status("GET", "/v1/events/stream") == 429
        with trio.fail_after(PATIENCE):  # until the server notices that the client has disconnected
            while api.server.control.streams.taken:
                await trio.testing.wait_all_tasks_blocked(0.001)


async def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mockbroker.control.server.SEND_TIMEOUT", 0.1)
    async with control_api() as api, event_stream(api) as stream:
        stream.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)  # otherwise the buffer grows to megabytes
        connection = api.cluster.connect()
        with trio.fail_after(3 * PATIENCE):
            while api.server.control.streams.taken:
                for _ in range(20):
                    await commit(api, "g" * 30_000, connection)
                await trio.sleep(0.001)


async def test_a_client_that_reads_nothing_does_not_delay_the_end() -> None:
    async with control_api() as api, event_stream(api) as stream:
        stream.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection = api.cluster.connect()
        for _ in range(300):
            await commit(api, "g" * 30_000, connection)
            await trio.sleep(0)
        began = trio.current_time()
        api.server.stop()
        await api.server.stopped.wait()
        assert trio.current_time() - began < 1.5


async def test_an_impossible_last_event_id() -> None:
    async with control_api() as api:
        assert await api.status("GET", "/v1/events/stream", headers={"Last-Event-ID": "x"}) == 422


async def test_a_reset_does_not_end_a_stream() -> None:
    async with control_api() as api:
        await commit(api, "g")
        async with event_stream(api, "?after=1") as stream:
            assert await api.post("/v1/reset") == {"after": 1}
            await commit(api, "h")
            assert (await stream.event() or {})["data"]["id"] == 2
