"""The client-side assignor range, compared with Kafka's class list by list; more in tests/interop/test_assignors.py."""

from __future__ import annotations

import client_groups
import pytest

from kwire.assignors import Partition, Subscription, without_racks
from kwire.assignors.client_range import share_out


@pytest.mark.parametrize(("release", "count"), [("4.2.0", 333), ("3.9.1", 143)])
def test_as_java(release: str, count: int) -> None:
    groups = client_groups.groups("range", release)
    assert len(groups) == count
    assert [problem for group in groups for problem in group.problems()] == []


def test_no_members_and_no_topics() -> None:
    assert share_out(without_racks({"t": 1}), {}) == {}
    assert share_out({}, {"a": Subscription(["t"])}) == {"a": []}
    assert share_out(without_racks({"t": 0, "u": 1}), {"a": Subscription(["t", "u"])}) == {"a": [("u", 0)]}


def test_topics_are_in_hash_map_order() -> None:
    topics = without_racks({"orders": 1, "payments": 1})
    assert share_out(topics, {"a": Subscription(["orders", "payments"])}) == {"a": [("payments", 0), ("orders", 0)]}


def test_equal_topics_have_equal_partitions_near() -> None:
    racks = [Partition(["x"]), Partition(["y"]), Partition(["z"])]
    topics = {"t": racks, "u": racks[::-1]}  # only partition 1 is near a member in both
    members = {name: Subscription(["t", "u"], rack_id=rack) for name, rack in [("a", "x"), ("b", "y"), ("c", "z")]}
    assert share_out(topics, members) == {
        "a": [("t", 0), ("u", 0)],
        "b": [("t", 1), ("u", 1)],
        "c": [("t", 2), ("u", 2)],
    }


def test_rack_without_replicas_has_no_effect() -> None:
    topics = {"t": [Partition(["x"]), Partition(["y"])]}
    members = {"a": Subscription(["t"], rack_id="other"), "b": Subscription(["t"], rack_id="")}
    assert share_out(topics, members) == {"a": [("t", 0)], "b": [("t", 1)]}


def test_racks() -> None:
    topics = {"t": [Partition(["x"]), Partition(["y"])]}
    members = {"a": Subscription(["t"], rack_id="y"), "b": Subscription(["t"], rack_id="x")}
    assert share_out(topics, members) == {"a": [("t", 1)], "b": [("t", 0)]}
