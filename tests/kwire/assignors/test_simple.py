"""The assignor of share groups. tests/interop/test_assignors.py compares random groups with Kafka's own class."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from random_share_groups import RandomShareGroup

from kwire.assignors import MemberSubscription, simple

T, U = UUID(int=1), UUID(int=2)


def test_members_without_topics_get_nothing() -> None:
    assert simple.assign({"a": MemberSubscription([]), "b": MemberSubscription([])}, {}) == {"a": {}, "b": {}}
    assert simple.assign({}, {T: 1}) == {}


def test_more_members_than_partitions_share_them() -> None:
    members = {name: MemberSubscription([T]) for name in "abcd"}
    target = simple.assign(members, {T: 2})
    assert Counter(index for assigned in target.values() for index in assigned[T]) == {0: 2, 1: 2}
    assert [len(assigned[T]) for assigned in target.values()] == [1, 1, 1, 1]


def test_members_keep_their_partitions() -> None:
    members = {"a": MemberSubscription([T], {T: [0, 1, 2]}), "b": MemberSubscription([T])}
    assert simple.assign(members, {T: 4}) == {"a": {T: [0, 2]}, "b": {T: [1, 3]}}  # 1 is first in Java's set


def test_topics_are_balanced_apart_if_subscriptions_differ() -> None:
    members = {"a": MemberSubscription([T]), "b": MemberSubscription([T, U])}
    assert simple.assign(members, {T: 2, U: 2}) == {"a": {T: [0]}, "b": {T: [1], U: [0, 1]}}


def test_partitions_that_are_not_initialized_stay_unassigned() -> None:
    for topics in [T], [T, U]:
        members = {"a": MemberSubscription([T]), "b": MemberSubscription(topics)}
        target = simple.assign(members, {T: 3, U: 1}, assignable={T: [1]})
        assert target == {"a": {T: [1]}, "b": {T: [1]}}


def test_members_and_partitions_are_balanced() -> None:
    for seed in range(200):
        group = RandomShareGroup(seed)
        for members in group.rounds():
            homogeneous = group.homogeneous
            group.target = simple.assign(members, group.partitions, homogeneous, assignable=group.assignable)
            assert group.target.keys() == members.keys()
            for member_id, member in members.items():
                new = set(group.target[member_id]) - set(member.assigned)
                assert new <= set(member.topic_ids)
            if homogeneous:
                sizes = [sum(map(len, assigned.values())) for assigned in group.target.values()]
                assert max(sizes) - min(sizes) <= 1, seed
