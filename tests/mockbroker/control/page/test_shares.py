"""Share partitions in the document of the live page, with members of a share group without sockets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tools.share_harness import ACCEPT, ShareHarness, Sharer

from mockbroker.control.page import shares
from mockbroker.control.page.shares import Shares


def document(h: ShareHarness, left_out: dict[str, int] | None = None) -> Shares:
    control: Any = SimpleNamespace(broker=h.broker)
    result = Shares(control)
    list(result.refresh({} if left_out is None else left_out))
    return result


def test_records_in_flight_are_counted_by_member() -> None:
    h = ShareHarness()
    h.produce(3)
    one, other = Sharer(h=h), Sharer(h=h, name="b")
    one.acquire(0)
    h.produce(2)
    other.acquire(0)
    ((group, topics),) = document(h).content.items()
    ((topic, partitions),) = topics.items()
    assert (group, topic) == ("g", "t")
    assert partitions == {"0": {"start": 0, "lag": 5, "acquired": {one.name: 3, other.name: 2}}}
    one.acknowledge((0, 0, [ACCEPT]))
    assert document(h).content["g"]["t"]["0"] == {
        "start": 1,
        "lag": 4,
        "acquired": {one.name: 2, other.name: 2},
    }


def test_a_change_is_a_patch() -> None:
    h = ShareHarness()
    h.produce(1)
    Sharer(h=h).acquire(0)
    result = document(h)
    h.produce(1)
    list(result.refresh({}))
    assert result.patch == {"g": {"t": {"0": {"lag": 2}}}}
    h.broker.share_partitions.unload_partition(h.topic_id("t"), 0)
    list(result.refresh({}))
    assert (result.patch, result.content) == ({"g": None}, {})


def test_share_partitions_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "PARTITIONS", 0)
    h, left_out = ShareHarness(), dict[str, int]()
    h.produce(1)
    Sharer(h=h).acquire(0)
    assert (document(h, left_out).content, left_out) == ({}, {"share partitions": 1})
