"""Topics in the document of the live page."""

from __future__ import annotations

import pytest
from tools.control_api import control_api
from tools.state_slices import refresh

from mockbroker.control.page import topics
from mockbroker.control.page.document import StateDocument


async def test_only_what_changed_is_in_the_patch() -> None:
    async with control_api(topics={"t": 3, "u": 1}) as api:
        state = StateDocument(api.server.control)
        refresh(state)
        api.cluster.produce("t", ["a"], partition=1)
        assert refresh(state)["topics"] == {"t": {"partitions": {"1": {"end": 1}}}}
        api.cluster.delete_records("t", 1, 1)
        assert refresh(state)["topics"] == {"t": {"partitions": {"1": {"start": 1}}}}
        api.cluster.delete_topic("t")
        api.cluster.create_topic("t", 1, {"retention.ms": 5})
        result = refresh(state)["topics"]["t"]
        assert (result["config"], result["partitions"]["1"]) == ({"retention.ms": "5"}, None)
        assert "id" in result


async def test_partitions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "PARTITIONS", 4)
    monkeypatch.setattr(topics, "PARTITIONS_IN_ALL", 10)
    async with control_api(topics={"t": 10, "u": 10}) as api:
        state = StateDocument(api.server.control)
        refresh(state)
        shown = {name: len(each["partitions"]) for name, each in state.content["topics"].items()}
        assert shown == {"__consumer_offsets": 4, "t": 4, "u": 2}
        assert state.content["left_out"]["partitions"] == 46 + 6 + 8
