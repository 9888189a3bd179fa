"""The journal as a list."""

from __future__ import annotations

import re
from typing import Any

from tools.control_api import Api, control_api

from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker.base.effects import Note
from mockbroker.base.event_kinds import EventKind


async def commit(api: Api, *groups: str) -> None:
    """Commit an offset in each group, which makes an event of each."""
    for group in groups:
        partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=7)
        topic = OffsetCommitRequest.Topic(name="t", partitions=[partition])
        await api.cluster.connect(client_id="c").ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)


def ids(page: Any) -> list[int]:
    return [event["id"] for event in page["items"]]


async def test_events_have_id_time_kind_and_group() -> None:
    async with control_api() as api:
        await commit(api, "g")
        page = await api.get("/v1/events")
    (event,) = page["items"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event.pop("time"))
    assert event.pop("time_ms") >= 0
    assert event == {
        "id": 1,
        "kind": "commit",
        "group": "g",
        "client": "c",
        "member_id": "",
        "generation": -1,
        "offsets": {"t": {"0": 7}},
    }
    assert (page["next"], page["last"]) == (None, 1)


async def test_pages_and_filters() -> None:
    async with control_api() as api:
        await commit(api, "a", "b", "a", "b", "a")
        first = await api.get("/v1/events", limit=2)
        assert (ids(first), first["next"]) == ([1, 2], 2)
        assert ids(await api.get("/v1/events", limit=2, after=2)) == [3, 4]
        last = await api.get("/v1/events", limit=2, after=4)
        assert (ids(last), last["next"], last["last"]) == ([5], None, 5)
        assert ids(await api.get("/v1/events", group="b")) == [2, 4]
        assert (await api.get("/v1/events", group="a", limit=3))["next"] is None
        assert ids(await api.get("/v1/events", kind="join")) == []


async def test_ids_are_not_used_again_after_a_reset() -> None:
    async with control_api() as api:
        await commit(api, "a", "b")
        assert await api.post("/v1/reset") == {"after": 2}
        assert ids(await api.get("/v1/events")) == []
        await commit(api, "c")
        assert ids(await api.get("/v1/events", after=2)) == [3]
        gap, event = (await api.get("/v1/events", after=1))["items"]
        assert (gap["kind"], gap["id"], gap["missed"], event["id"]) == ("gap", 2, 1, 3)


async def test_events_that_are_not_kept_are_a_gap() -> None:
    async with control_api() as api:
        api.cluster.journal.max_events = 2
        await commit(api, *"abcde")
        assert ids(await api.get("/v1/events")) == [4, 5]  # no gap without a cursor
        assert [item["kind"] for item in (await api.get("/v1/events", after=0))["items"]] == ["gap", "commit", "commit"]
        assert ids(await api.get("/v1/events", after=3)) == [4, 5]
        (gap,) = (await api.get("/v1/events", after=99))["items"][:1]  # an event id of another process
        assert (gap["kind"], gap["missed"]) == ("gap", 0)


async def test_rebalance_is_listed_after_many_commits() -> None:
    async with control_api() as api:
        journal = api.cluster.journal
        journal.max_events = 2
        journal.record(Note(event=EventKind.REBALANCE, group="g"), 0.0)
        await commit(api, *"abcde")
        journal.record(Note(event=EventKind.GENERATION, group="g"), 0.0)
        listed = (await api.get("/v1/events"))["items"]
        assert [(item["id"], item["kind"]) for item in listed] == [
            (1, "rebalance"),
            (4, "gap"),
            (5, "commit"),
            (6, "commit"),
            (7, "generation"),
        ]
        assert (listed[1]["after"], listed[1]["missed"], "commit" in listed[1]["kinds"]) == (1, 3, True)
        assert ids(await api.get("/v1/events", kind="generation")) == [7]  # no gap: no event of this kind is missing
        assert ids(await api.get("/v1/events", kind="commit")) == [4, 5, 6]
        assert ids(await api.get("/v1/events", after=2)) == [4, 5, 6, 7]
        assert ids(await api.get("/v1/events", after=4)) == [5, 6, 7]
        page = await api.get("/v1/events", limit=2)
        assert ids(page) + ids(await api.get("/v1/events", after=page["next"])) == [1, 4, 5, 6, 7]


async def test_gap_has_kinds_if_only_frequent_events_are_missing() -> None:
    async with control_api() as api:
        journal = api.cluster.journal
        journal.max_events = 1
        for _ in range(3):
            journal.record(Note(event=EventKind.REBALANCE, group="g"), 0.0)
        await commit(api, *"abc")
        gaps = [item for item in (await api.get("/v1/events", after=0))["items"] if item["kind"] == "gap"]
        assert [(gap["after"], gap["id"], "kinds" in gap) for gap in gaps] == [(0, 2, False), (3, 5, True)]


async def test_names_that_clients_choose_are_data() -> None:
    """Terminal escapes, markup and bytes that are not UTF-8 have no effect, and are returned unchanged."""
    name = '\x1b[2J\x1b]0;x\x07<script>alert(1)</script>\u202e"\r\nid: 9\x85'
    async with control_api() as api:
        await commit(api, name)
        response = await api.ask("GET", "/v1/events")
        assert response.headers["content-type"] == "application/json"
        assert response.content.isascii()
        assert not any(byte < 32 for byte in response.content.rstrip(b"\n"))
        assert response.json()["items"][0]["group"] == name
        assert len((await api.get("/v1/events", group=name))["items"]) == 1
