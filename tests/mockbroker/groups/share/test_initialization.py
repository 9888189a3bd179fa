"""The share state of partitions: what is initialized, deleted, and forgotten with its topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kwire import ErrorCode as E
from mockbroker.groups.share.initialization import begin, delete_states, remove_topics
from mockbroker.groups.share.state import SharedTopic, ShareGroup, ShareMember
from mockbroker.topics.model import ClusterState, Node

OLD, GONE = UUID(int=50), UUID(int=51)


class States:
    """A share coordinator whose deletions have given results."""

    def __init__(self, *errors: E) -> None:
        self.errors = list(errors)
        self.deleted: list[tuple[UUID, int]] = []

    def delete(self, key: Any, _now: float) -> E:
        self.deleted.append((key.topic_id, key.partition))
        return self.errors.pop(0) if self.errors else E.NONE


@pytest.fixture
def cluster() -> ClusterState:
    """Topic ``t`` with three partitions."""
    ids = iter(map(UUID, [f"{number:032x}" for number in range(1, 20)]))
    cluster = ClusterState([Node(0, "a", 1)], lambda: next(ids))
    cluster.create_topic("t", [[0]] * 3)
    return cluster


def group_of(cluster: ClusterState) -> tuple[ShareGroup, UUID]:
    """Return a group whose member subscribes to ``t``, and the id of ``t``."""
    group = ShareGroup(group_id="g")
    group.put_member(ShareMember(member_id="m", topics=frozenset({"t"})))
    return group, cluster.topics["t"].topic_id


def test_new_partitions_are_initialized_and_no_longer_deleted(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    group.set_shared_topics(
        initialized={topic_id: SharedTopic("t", frozenset({0}))}, deleting={topic_id: "t", OLD: "old"}
    )
    begin(group, SimpleNamespace(cluster=cluster), 5.0)  # type: ignore[arg-type]
    assert group.initializing == {topic_id: SharedTopic("t", frozenset({1, 2}))}
    assert group.deleting == {OLD: "old"}


def test_known_partitions_need_no_initialization(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    group.set_shared_topics(initialized={topic_id: SharedTopic("t", frozenset({0, 1, 2}))}, deleting={topic_id: "t"})
    begin(group, SimpleNamespace(cluster=cluster), 5.0)  # type: ignore[arg-type]
    assert (group.initializing, group.deleting) == ({}, {topic_id: "t"})


def test_deleted_topic_is_removed_everywhere(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    kept, gone = SharedTopic("t", frozenset({0})), SharedTopic("gone", frozenset({0}))
    group.set_shared_topics(
        initializing={topic_id: kept, GONE: gone},
        initialized={topic_id: kept, GONE: gone},
        deleting={OLD: "o", GONE: "x"},
    )
    remove_topics(group, [SimpleNamespace(topic_id=GONE)])  # type: ignore[list-item]
    assert (group.initializing, group.initialized, group.deleting) == ({topic_id: kept}, {topic_id: kept}, {OLD: "o"})


RESULTS: list[tuple[list[E], E]] = [
    ([E.NONE, E.NONE], E.NONE),
    ([E.NOT_COORDINATOR, E.NONE], E.NOT_COORDINATOR),
    ([E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE], E.COORDINATOR_NOT_AVAILABLE),
]


@pytest.mark.parametrize(("errors", "expected"), RESULTS)
def test_failed_deletion_of_a_state_is_repeated_later(cluster: ClusterState, errors: list[E], expected: E) -> None:
    group, topic_id = group_of(cluster)
    group.set_shared_topics(
        initialized={topic_id: SharedTopic("t", frozenset({1}))},
        initializing={topic_id: SharedTopic("t", frozenset({0}))},
    )
    states = States(*errors)
    assert delete_states(group, SimpleNamespace(share_states=states), 0.0) == expected  # type: ignore[arg-type]
    assert states.deleted == [(topic_id, 0), (topic_id, 1)]
    assert group.deleting == ({} if expected is E.NONE else {topic_id: "t"})


def test_peak_member_count_never_decreases(cluster: ClusterState) -> None:
    group, _ = group_of(cluster)
    group.put_member(ShareMember(member_id="n"))
    group.remove_member(group.members["m"])
    group.put_member(ShareMember(member_id="o"))
    group.put_member(ShareMember(member_id="o", epoch=3))
    assert group.peak_member_count == 2
