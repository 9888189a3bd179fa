"""The assignor uniform for members with different topics. test_uniform.py compares groups with Kafka's class."""

from __future__ import annotations

from uuid import UUID

import pytest
import server_groups
from server_groups import Group

from kwire.assignors import uniform_heterogeneous
from kwire.assignors.server import MemberSubscription

T1, T2 = UUID(int=1), UUID(int=2)
MIXED = [group for group in server_groups.groups("uniform", "4.2.0") if not group.homogeneous]
OLD_MIXED = [group for group in server_groups.groups("uniform", "3.9.1") if not group.homogeneous]


@pytest.mark.parametrize("groups", [MIXED, OLD_MIXED], ids=["4.2.0", "3.9.1"])
def test_complete(groups: list[Group]) -> None:
    assert len(groups) > 30
    assert {group.id: server_groups.problems(group, group.assigned()) for group in groups} == {
        group.id: [] for group in groups
    }


def test_no_owner_has_two_more_than_a_subscriber() -> None:
    for group in MIXED:
        target = group.assigned()
        load = {member_id: len(server_groups.flat(assigned)) for member_id, assigned in target.items()}
        for owner, assigned in target.items():
            subscribers = [m for m, each in group.members.items() if set(each.topic_ids) & set(assigned)]
            assert all(load[owner] - load[other] <= 1 for other in subscribers), group.id


def test_owned_partitions_stay_if_balanced() -> None:
    members = {"a": MemberSubscription([T1, T2], {T1: [1], T2: [0]}), "b": MemberSubscription([T1], {T1: [0, 2]})}
    assert uniform_heterogeneous.assign(members, {T1: 3, T2: 1}) == {"a": {T1: [1], T2: [0]}, "b": {T1: [0, 2]}}


def test_the_last_partition_moves() -> None:
    members = {"a": MemberSubscription([T1, T2], {T1: [0, 1, 2]}), "b": MemberSubscription([T1])}
    assert uniform_heterogeneous.assign(members, {T1: 3, T2: 0}) == {"a": {T1: [0, 1]}, "b": {T1: [2]}}


def test_member_without_the_topic_gives_up_none() -> None:
    members = {
        "a": MemberSubscription([T1], {T1: [0]}),
        "b": MemberSubscription([T1, T2], {T2: [0, 1, 2]}),
        "c": MemberSubscription([T1]),
    }
    assert uniform_heterogeneous.assign(members, {T1: 1, T2: 3}) == {"a": {T1: [0]}, "b": {T2: [0, 1, 2]}, "c": {}}


def test_owned_partition_that_is_deleted_has_no_owner() -> None:
    members = {"a": MemberSubscription([T1], {T1: [0, 7], T2: [0]}), "b": MemberSubscription([T2])}
    assert uniform_heterogeneous.assign(members, {T1: 1, T2: 1}) == {"a": {T1: [0]}, "b": {T2: [0]}}


def test_no_members_and_no_topics() -> None:
    assert uniform_heterogeneous.assign({}, {}) == {}
    assert uniform_heterogeneous.assign({"a": MemberSubscription([])}, {T1: 1}) == {"a": {}}
