"""The assignor range, compared with Kafka's class; 3.9 and 4.2 return the same assignments."""

from __future__ import annotations

from uuid import UUID

import pytest
import server_groups

from kwire.assignors import range as range_assignor
from kwire.assignors.server import MemberSubscription

T1, T2 = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(("release", "count"), [("4.2.0", 137), ("3.9.1", 49)])
def test_as_kafka(release: str, count: int) -> None:
    groups = server_groups.groups("range", release)
    assert len(groups) == count
    assert [group.id for group in groups if group.assigned() != group.expected] == []
    assert [group.id for group in groups if server_groups.problems(group, group.assigned())] == []


@pytest.mark.parametrize(
    ("count", "members", "shares"),
    [
        (3, "ab", [("a", [0, 1]), ("b", [2])]),
        (4, "ab", [("a", [0, 1]), ("b", [2, 3])]),
        (1, "abc", [("a", [0])]),
        (0, "ab", []),
        (5, "abc", [("a", [0, 1]), ("b", [2, 3]), ("c", [4])]),
    ],
)
def test_shares(count: int, members: str, shares: list[tuple[str, list[int]]]) -> None:
    assert [(who, list(share)) for who, share in range_assignor.shares(count, members)] == shares


def test_static_members_are_first_by_instance_id() -> None:
    members = {
        "a": MemberSubscription([T1]),
        "b": MemberSubscription([T1], instance_id="2"),
        "c": MemberSubscription([T1], instance_id="1"),
    }
    assert range_assignor.assign(members, {T1: 3}) == {"c": {T1: [0]}, "b": {T1: [1]}, "a": {T1: [2]}}


def test_homogeneous_flag_does_not_change_range() -> None:
    for group in server_groups.groups("range", "4.2.0"):
        if group.homogeneous:
            assert range_assignor.assign(group.members, group.partitions, homogeneous=False) == group.expected


def test_no_members_and_no_topics() -> None:
    assert range_assignor.assign({}, {T1: 1}) == {}
    assert range_assignor.assign({"a": MemberSubscription([])}, {T1: 1}) == {"a": {}}
    assert range_assignor.assign({"a": MemberSubscription([T1, T2])}, {T1: 0, T2: 1}) == {"a": {T2: [0]}}
