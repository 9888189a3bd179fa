"""Groups in the document of the live page: every change is noticed, and large groups are described in slices."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.control_api import Api, control_api
from tools.large_groups import CONFIG, LargeGroup
from tools.merge_patches import applied
from tools.state_slices import refresh, refresh_counted

from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_delete import OffsetDeleteRequest
from mockbroker.control.page import groups
from mockbroker.control.page.document import StateDocument
from mockbroker.net.in_process import InProcessConnection


async def commit(api: Api, group: str, offset: int) -> None:
    partition = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequest.Topic(name="t", partitions=[partition])
    await coordinator(api, group).ask(OffsetCommitRequest(group_id=group, topics=[topic]), 8)


def coordinator(api: Api, group: str) -> InProcessConnection:
    """Connect to the coordinator of a group."""
    return api.cluster.connect(max(api.cluster.coordinator(group), 0))


async def test_lag_follows_the_end_of_the_log() -> None:
    async with control_api() as api:
        await commit(api, "g", 1)
        state = StateDocument(api.server.control)
        refresh(state)
        api.cluster.produce("t", ["a", "b", "c"], partition=0)
        assert refresh(state)["groups"] == {"g": {"offsets": {"t": {"0": {"lag": 2}}}}}
        api.cluster.produce("t", ["a"], partition=1)
        assert "groups" not in refresh(state)
        await api.ask("DELETE", "/v1/topics/t")
        refresh(state)
        assert "t" not in state.content["groups"]["g"]["offsets"]


async def test_a_heartbeat_changes_only_its_member() -> None:
    async with control_api(config=CONFIG, clock="manual") as api:
        group = LargeGroup(api.cluster, "g", "t", 2)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.fill, 3)
            while len(group.members) < 3:
                await api.cluster.clock.advance(0.01)
                await trio.sleep(0.001)
        state = StateDocument(api.server.control)
        refresh(state)
        await api.cluster.clock.advance(1)
        await group.heartbeat(1)
        patch = refresh(state)["groups"]
        assert list(patch["g"]["members"]) == [group.members[1][0]]
        assert set(patch["g"]["members"][group.members[1][0]]) == {"last_heartbeat", "last_heartbeat_ms"}


async def test_the_coordinator_of_an_unchanged_group() -> None:
    async with control_api(brokers=2) as api:
        await commit(api, "g", 1)
        state = StateDocument(api.server.control)
        refresh(state)
        before = state.content["groups"]["g"]["coordinator"]
        api.cluster.move_coordinator("g", 1 - before)
        await api.cluster.wait_group("g", state="Empty")
        refresh(state)
        assert state.content["groups"]["g"]["coordinator"] == 1 - before


async def test_members_and_offsets_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MEMBERS", 4)
    monkeypatch.setattr(groups, "MEMBERS_IN_ALL", 6)
    monkeypatch.setattr(groups, "OFFSETS", 3)
    async with control_api(config=CONFIG, topics={"t": 5}) as api:
        for name in ("g", "h"):
            await LargeGroup(api.cluster, name, "t", 5).fill(5)
        state = StateDocument(api.server.control)
        refresh(state)
        g, h = (state.content["groups"][name] for name in ("g", "h"))
        assert (len(g["members"]), g["member_count"]) == (4, 5)
        assert (len(h["members"]), h["member_count"]) == (2, 5)
        assert list(g["offsets"]["t"]) == ["0", "1", "2"]
        assert state.content["left_out"] == {"members": 4, "offsets": 4}
        api.cluster.evict("g", next(iter(g["members"])))
        refresh(state)
        assert len(state.content["groups"]["g"]["members"]) == 4


async def test_a_large_group_is_described_in_slices() -> None:
    async with control_api(config=CONFIG) as api:
        await LargeGroup(api.cluster, "g", "t", 2).fill(1_000)
        state = StateDocument(api.server.control)
        patch, slices = refresh_counted(state)
        assert len(patch["groups"]["g"]["members"]) == 1_000
        assert slices >= 1_000 / groups.MEMBERS_AT_ONCE


async def test_an_unchanged_group_is_not_described_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with control_api(config=CONFIG) as api:
        group = LargeGroup(api.cluster, "g", "t", 2)
        await group.fill(3)
        state = StateDocument(api.server.control)
        refresh(state)
        described = list[str]()
        original = groups.summary_json
        monkeypatch.setattr(
            groups, "summary_json", lambda control, it: (described.append(it.group_id), original(control, it))[1]
        )
        await commit(api, "other", 1)
        api.cluster.produce("t", ["a"])
        refresh(state)
        assert described == ["other"]
        await group.heartbeat(0)
        refresh(state)
        assert described == ["other", "g"]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["commit", "produce", "delete group", "delete offset", "topic", "move", "reset", "admin", "read"]
        ),
        st.integers(0, 2),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(ACTIONS)
def test_a_document_equals_one_from_scratch(actions: list[tuple[str, int]]) -> None:
    trio.run(check, actions)


async def check(actions: list[tuple[str, int]]) -> None:
    async with control_api(brokers=2) as api:
        state = StateDocument(api.server.control)
        copy = refresh(state)
        for name, number in [*actions, ("read", 0)]:
            if name == "read":
                copy = applied(copy, refresh(state))
                assert copy == state.content
            else:
                await act(api, name, number)
        scratch = StateDocument(api.server.control)
        refresh(scratch)
        for document in (state, scratch):
            document.content.pop("clock")
        assert state.content == scratch.content


async def act(api: Api, name: str, number: int) -> None:
    """Change the cluster in one way."""
    cluster, group = api.cluster, f"g{number}"
    if name == "commit":
        await commit(api, group, number)
    elif name == "produce" and "t" in api.server.control.broker.cluster.topics:
        cluster.produce("t", ["a"], partition=number % 2)
    elif name == "delete group":
        await coordinator(api, group).ask(DeleteGroupsRequest(groups_names=[group]), 2)
    elif name == "delete offset":
        partition = OffsetDeleteRequest.Topic.Partition(partition_index=0)
        topics = [OffsetDeleteRequest.Topic(name="t", partitions=[partition])]
        await coordinator(api, group).ask(OffsetDeleteRequest(group_id=group, topics=topics), 0)
    elif name == "topic":
        if "t" in api.server.control.broker.cluster.topics:
            cluster.delete_topic("t")
        else:
            cluster.create_topic("t", 2)
    elif name == "move":
        cluster.move_coordinator(group, number % 2)
    elif name == "admin" and "t" in api.server.control.broker.cluster.topics:
        cluster.set_committed(group, {("t", 1): number})
    elif name == "reset":
        cluster.reset()
