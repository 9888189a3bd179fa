"""The share state of partitions: initialized and deleted partitions, and those of deleted topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kwire import ErrorCode as E
from mockbroker.groups.share import machine
from mockbroker.groups.share.initialization import (
    begin,
    delete_states,
    finish,
    is_assignment_pending,
    remove_topics,
)
from mockbroker.groups.share.state import INITIALIZE_TIMER, SharedTopic, ShareGroup, ShareMember
from mockbroker.topics.model import ClusterState, Node

OLD, GONE = UUID(int=50), UUID(int=51)


class States:
    """A share coordinator whose deletions return the given errors."""

    def __init__(self, *errors: E) -> None:
        self.errors = list(errors)
        self.deleted: list[tuple[UUID, int]] = []

    def delete(self, key: Any, _now: float) -> E:
        self.deleted.append((key.topic_id, key.partition))
        return self.errors.pop(0) if self.errors else E.NONE


@pytest.fixture
def cluster() -> ClusterState:
    """Return a cluster with the topic ``t`` of three partitions."""
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
    remove_topics(group, {GONE})
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


class Initializing:
    """A share coordinator that refuses some partitions, which are given by topic id and index."""

    def __init__(self, *refused: tuple[UUID, int]) -> None:
        self.refused = set(refused)
        self.asked: list[tuple[str, UUID, int, int, int, float]] = []

    def initialize(self, key: Any, epoch: int, offset: int, now: float) -> E:
        self.asked.append((key.group_id, key.topic_id, key.partition, epoch, offset, now))
        return E.NOT_COORDINATOR if (key.topic_id, key.partition) in self.refused else E.NONE


def finished(cluster: ClusterState, group: ShareGroup, *refused: tuple[UUID, int]) -> Initializing:
    states = Initializing(*refused)
    finish(group, SimpleNamespace(share_states=states, cluster=cluster), 5.0)  # type: ignore[arg-type]
    return states


def test_initialized_partitions_are_recorded(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    group.epoch = 4
    group.set_shared_topics(
        initializing={topic_id: SharedTopic("t", frozenset({2, 1})), GONE: SharedTopic("gone", frozenset({0}))},
        initialized={topic_id: SharedTopic("t", frozenset({0}))},
    )
    states = finished(cluster, group)
    assert states.asked == [("g", topic_id, index, 4, -1, 5.0) for index in (1, 2)]
    assert (group.initializing, group.initialized) == ({}, {topic_id: SharedTopic("t", frozenset({0, 1, 2}))})
    assert INITIALIZE_TIMER not in group.timers


def test_refused_partition_is_tried_again_later(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    group.set_shared_topics(initializing={topic_id: SharedTopic("t", frozenset({0, 1, 2}))})
    finished(cluster, group, (topic_id, 1))
    assert group.initializing == {topic_id: SharedTopic("t", frozenset({1}))}
    assert group.initialized == {topic_id: SharedTopic("t", frozenset({0, 2}))}
    assert group.timers.at(INITIALIZE_TIMER) == 35.0
    group, _ = group_of(cluster)
    group.set_shared_topics(initializing={topic_id: SharedTopic("t", frozenset({0}))})
    finished(cluster, group, (topic_id, 0))
    assert (group.initialized, group.timers.at(INITIALIZE_TIMER)) == ({}, 35.0)


@pytest.mark.parametrize(("count", "rest"), [(200, 0), (201, 1), (450, 250)])
def test_at_most_200_partitions_are_initialized_at_once(cluster: ClusterState, count: int, rest: int) -> None:
    group, topic_id = group_of(cluster)
    other = cluster.create_topic("u", [[0]]).topic_id
    group.set_shared_topics(
        initializing={
            topic_id: SharedTopic("t", frozenset(range(150))),
            other: SharedTopic("u", frozenset(range(count - 150))),
        }
    )
    states = finished(cluster, group)
    assert len(states.asked) == count - rest
    assert sum(len(shared.partitions) for shared in group.initializing.values()) == rest
    assert group.timers.at(INITIALIZE_TIMER) == (5.0 if rest else None)


def test_missing_partitions_are_initialized_at_once(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    context: Any = SimpleNamespace(cluster=cluster)
    begin(group, context, 5.0)
    assert (group.initializing, group.timers.at(INITIALIZE_TIMER)) == (
        {topic_id: SharedTopic("t", frozenset({0, 1, 2}))},
        5.0,
    )
    group.put_member(ShareMember(member_id="m", topics=frozenset({"t", "none"})))
    cluster.add_partitions(cluster.topics["t"], [[0]])
    begin(group, context, 6.0)
    assert group.initializing == {topic_id: SharedTopic("t", frozenset({0, 1, 2, 3}))}


PENDING = [  # initialized partitions, target of the member, whether an epoch is necessary
    ({0, 1}, {0, 1}, False),
    ({0, 1}, {0}, True),
    ({0}, {0, 1}, True),
    (set(), set(), False),
]


@pytest.mark.parametrize(("initialized", "target", "pending"), PENDING)
def test_initialized_partitions_need_an_assignment(
    cluster: ClusterState, initialized: set[int], target: set[int], pending: bool
) -> None:
    group, topic_id = group_of(cluster)
    if initialized:
        group.set_shared_topics(initialized={topic_id: SharedTopic("t", frozenset(initialized))})
    group.target["m"] = {topic_id: sorted(target)}
    assert is_assignment_pending(group) is pending
    assert group.target_is_checked is not pending


def test_topics_without_subscribers_need_no_assignment(cluster: ClusterState) -> None:
    group, _ = group_of(cluster)
    group.set_shared_topics(initialized={OLD: SharedTopic("old", frozenset({0}))})
    assert not is_assignment_pending(group)
    empty = ShareGroup(group_id="g")
    empty.set_shared_topics(initialized={OLD: SharedTopic("old", frozenset({0}))})
    assert not is_assignment_pending(empty)


def test_targets_of_several_members_count_together(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    group.put_member(ShareMember(member_id="n", topics=frozenset({"t"})))
    group.set_shared_topics(initialized={topic_id: SharedTopic("t", frozenset({0, 1}))})
    group.target["m"], group.target["n"] = {topic_id: [0]}, {topic_id: [1]}
    assert not is_assignment_pending(group)


def test_other_topics_leave_the_group_unchanged(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    for table in ("initializing", "initialized"):
        group.set_shared_topics(**{table: {topic_id: SharedTopic("t", frozenset({0}))}})
        before = getattr(group, table)
        remove_topics(group, {GONE})
        assert getattr(group, table) is before
    group.set_shared_topics(deleting={topic_id: "t"})
    remove_topics(group, {topic_id})
    assert (group.initializing, group.initialized, group.deleting) == ({}, {}, {})


def test_new_group_has_no_epoch() -> None:
    group = ShareGroup(group_id="g")
    assert (group.epoch, group.assignment_epoch, group.metadata_version, group.peak_member_count) == (0, 0, -1, 0)
    assert not group.target_is_checked
    assert (ShareMember(member_id="a").epoch, ShareMember(member_id="a").previous_epoch) == (0, -1)


def test_newly_initialized_partitions_need_an_assignment(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    group.target["m"] = {topic_id: [0]}
    for indexes in ({0}, {0, 1}):
        group.set_shared_topics(initialized={topic_id: SharedTopic("t", frozenset(indexes))})
        assert is_assignment_pending(group) is (len(indexes) > 1)


def test_one_tick_initializes_one_portion_of_partitions(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    group.set_shared_topics(initializing={topic_id: SharedTopic("t", frozenset(range(201)))})
    group.timers.set(INITIALIZE_TIMER, 5.0)
    states = SimpleNamespace(initialize=lambda *_: E.NONE)
    context: Any = SimpleNamespace(cluster=cluster, share_states=states)
    machine.tick(group, context, 5.0)
    assert (len(group.initializing), group.timers.at(INITIALIZE_TIMER)) == (1, 5.0)
    machine.tick(group, context, 5.0)
    assert (len(group.initializing), group.timers.at(INITIALIZE_TIMER)) == (0, None)


def test_partitions_of_deleted_topics_are_not_initialized(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    group.set_shared_topics(
        initializing={GONE: SharedTopic("gone", frozenset({0})), topic_id: SharedTopic("t", frozenset({0}))}
    )
    finished(cluster, group)
    assert (group.initializing, group.initialized) == ({}, {topic_id: SharedTopic("t", frozenset({0}))})


def test_target_is_checked_again_after_a_subscription_changed(cluster: ClusterState) -> None:
    group, topic_id = group_of(cluster)
    member = group.members["m"]
    group.remove_member(member)
    group.set_shared_topics(initialized={topic_id: SharedTopic("t", frozenset({0}))})
    group.topic_metadata = {"t": (topic_id, 3)}
    assert not is_assignment_pending(group)
    group.put_member(member)
    assert is_assignment_pending(group)
