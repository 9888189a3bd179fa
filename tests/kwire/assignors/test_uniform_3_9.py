"""The assignor uniform of Kafka 3.9, compared with its class: the same sets in every group."""

from __future__ import annotations

from uuid import UUID

import pytest
import server_groups

from kwire.assignors import AssignorError, assign, uniform_3_9
from kwire.assignors.server import MemberSubscription

T1, T2, T3 = UUID(int=1), UUID(int=2), UUID(int=3)
GROUPS = server_groups.groups("uniform", "3.9.1")


def test_groups_of_both_kinds_were_recorded() -> None:
    assert [sum(group.homogeneous is homogeneous for group in GROUPS) for homogeneous in (True, False)] == [135, 178]


@pytest.mark.parametrize("homogeneous", [True, False], ids=["homogeneous", "mixed"])
def test_as_kafka(homogeneous: bool) -> None:
    wrong = [
        group.id
        for group in GROUPS
        if group.homogeneous is homogeneous
        and assign("uniform", group.members, group.partitions, homogeneous=homogeneous, release="3.9") != group.expected
    ]
    assert wrong == []


def test_kafka_4_2_differs() -> None:
    """Otherwise, no test would show which of the two is served."""
    assert sum(group.assigned() != group.expected for group in GROUPS) > 50


def test_complete() -> None:
    for group in GROUPS:
        target = uniform_3_9.assign(group.members, group.partitions, group.homogeneous)
        assert server_groups.problems(group, target) == [], group.id


def test_the_first_members_have_the_larger_shares() -> None:
    members = {name: MemberSubscription([T1]) for name in "abc"}
    assert uniform_3_9.assign(members, {T1: 2}) == {"a": {T1: [0]}, "b": {T1: [1]}, "c": {}}


@pytest.mark.parametrize(
    ("release", "owners"), [("3.9", "ab"), ("4.0", "ab"), ("4.2", "bc")], ids=["3.9", "4.0", "4.2"]
)
def test_larger_shares_by_release(release: str, owners: str) -> None:
    members = {name: MemberSubscription([T1]) for name in "abc"}
    target = assign("uniform", members, {T1: 2}, release=release)
    assert [name for name in members if target[name]] == list(owners)


def test_members_that_subscribe_to_different_topics_by_release() -> None:
    """For such members Kafka 4.0 has the algorithm of 4.2: topic by topic, not partition by partition."""
    members = {
        "a": MemberSubscription([T1, T2, T3], {T1: [0, 1, 2, 3, 4, 5]}),
        "b": MemberSubscription([T1, T2]),
        "c": MemberSubscription([T1]),
    }
    counts = {T1: 6, T2: 2, T3: 1}
    old, *newer = (assign("uniform", members, counts, release=release) for release in ("3.9", "4.0", "4.2"))
    assert newer[0] == newer[1]
    assert old == {"a": {T1: [4, 5], T3: [0]}, "b": {T1: [2], T2: [0, 1]}, "c": {T1: [0, 1, 3]}}
    assert newer[0] == {"a": {T1: [0, 1], T3: [0]}, "b": {T1: [2], T2: [0, 1]}, "c": {T1: [3, 4, 5]}}


def test_unknown_release_is_refused() -> None:
    with pytest.raises(KeyError):
        assign("uniform", {}, {}, release="2.8")


def test_topics_without_metadata() -> None:
    members = {"a": MemberSubscription([T1]), "b": MemberSubscription([T2])}
    with pytest.raises(AssignorError):
        uniform_3_9.assign(members, {T1: 1})


def test_no_members_and_no_topics() -> None:
    assert uniform_3_9.assign({}, {T1: 1}) == {}
    assert uniform_3_9.assign({"a": MemberSubscription([]), "b": MemberSubscription([])}, {T1: 1}) == {"a": {}, "b": {}}
    assert uniform_3_9.assign({"a": MemberSubscription([]), "b": MemberSubscription([T1])}, {T1: 0}) == {
        "a": {},
        "b": {},
    }
