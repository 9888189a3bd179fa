"""The assignor uniform for homogeneous subscriptions, compared with Kafka's class."""

from __future__ import annotations

from uuid import UUID

import pytest
import server_groups
from server_groups import Group

from kwire.assignors import uniform
from kwire.assignors.server import MemberSubscription

T1, T2 = UUID(int=1), UUID(int=2)
GROUPS = server_groups.groups("uniform", "4.2.0")
OLD_GROUPS = server_groups.groups("uniform", "3.9.1")


def test_as_kafka() -> None:
    assert len(GROUPS) == 362
    assert [group.id for group in GROUPS if group.assigned() != group.expected] == []


@pytest.mark.parametrize("groups", [GROUPS, OLD_GROUPS], ids=["4.2.0", "3.9.1"])
def test_complete_and_even(groups: list[Group]) -> None:
    for group in (group for group in groups if group.homogeneous):
        target = group.assigned()
        assert server_groups.problems(group, target) == [], group.id
        loads = server_groups.loads(target)
        assert max(loads) - min(loads) <= 1, group.id


def test_loads_are_those_of_3_9_and_no_less_stays_put() -> None:
    """3.9 chose other members for the larger shares; at least as many partitions stay with their owners."""
    for group in (group for group in OLD_GROUPS if group.homogeneous):
        target = group.assigned()
        assert sorted(server_groups.loads(target)) == sorted(server_groups.loads(group.expected)), group.id
        assert server_groups.kept(group, target) >= server_groups.kept(group, group.expected), group.id


def test_assigned_again_nothing_moves() -> None:
    for group in GROUPS:
        if group.homogeneous:
            members = {
                member_id: MemberSubscription(group.members[member_id].topic_ids, assigned)
                for member_id, assigned in group.expected.items()
            }
            assert uniform.assign(members, group.partitions, homogeneous=True) == group.expected, group.id


def test_larger_shares_go_to_members_that_fill_them_then_last() -> None:
    members = {
        "a": MemberSubscription([T1], {T1: [0]}),
        "b": MemberSubscription([T1], {T1: [1, 2]}),
        "c": MemberSubscription([T1]),
    }
    assert uniform.assign(members, {T1: 5}) == {"a": {T1: [0]}, "b": {T1: [1, 2]}, "c": {T1: [3, 4]}}


def test_first_owned_partitions_are_kept() -> None:
    members = {"a": MemberSubscription([T1], {T1: [2, 0, 1]}), "b": MemberSubscription([T1])}
    assert uniform.assign(members, {T1: 4}) == {"a": {T1: [0, 2]}, "b": {T1: [1, 3]}}


def test_owned_partition_that_is_deleted_has_no_owner() -> None:
    members = {"a": MemberSubscription([T1], {T1: [0, 7], T2: [0]})}
    assert uniform.assign(members, {T1: 2}) == {"a": {T1: [0, 1]}}


def test_no_members_and_no_topics() -> None:
    assert uniform.assign({}, {T1: 1}) == {}
    assert uniform.assign({"a": MemberSubscription([])}, {T1: 1}) == {"a": {}}
