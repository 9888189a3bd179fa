"""The assignor roundrobin, compared with Kafka's class list by list; more in tests/interop/test_assignors.py."""

from __future__ import annotations

import client_groups
import pytest

from kwire.assignors import Subscription, without_racks
from kwire.assignors.roundrobin import share_out


@pytest.mark.parametrize(("release", "count"), [("4.2.0", 239), ("3.9.1", 99)])
def test_as_java(release: str, count: int) -> None:
    groups = client_groups.groups("roundrobin", release)
    assert len(groups) == count
    assert [problem for group in groups for problem in group.problems()] == []


def test_no_members_and_no_topics() -> None:
    assert share_out(without_racks({"t": 1}), {}) == {}
    assert share_out({}, {"a": Subscription(["t"])}) == {"a": []}


def test_ring_continues_across_topics() -> None:
    members = {name: Subscription(["t", "u"]) for name in "ab"}
    assert share_out(without_racks({"t": 1, "u": 1}), members) == {"a": [("t", 0)], "b": [("u", 0)]}


def test_static_members_are_first() -> None:
    members = {"a": Subscription(["t"]), "b": Subscription(["t"], instance_id="i")}
    assert share_out(without_racks({"t": 1}), members) == {"a": [], "b": [("t", 0)]}
