"""The metadata of a cluster."""

from __future__ import annotations

from uuid import UUID

import pytest

from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC, ClusterState, Node, legal_topic_name


@pytest.fixture
def cluster() -> ClusterState:
    ids = (UUID(int=number) for number in range(1, 1_000))
    return ClusterState([Node(1, "b", 2), Node(0, "a", 1)], lambda: next(ids))


def test_without_a_running_broker_there_is_no_controller(cluster):
    cluster.nodes.clear()
    assert cluster.controller == NO_LEADER


def test_a_new_cluster(cluster):
    assert cluster.controller == 0
    assert cluster.topics == {}
    assert len(cluster.cluster_text) == 22  # base64url of 16 bytes


def test_topic_lookup_by_name_and_id(cluster):
    topic = cluster.create_topic("t", [[0, 1], [1, 0]], {"retention.ms": "1"})
    assert cluster.topics["t"] is cluster.by_id[topic.topic_id] is topic
    assert topic.configs == {"retention.ms": "1"}
    assert not topic.internal
    assert cluster.create_topic("u", [[0]]).topic_id != topic.topic_id
    assert cluster.create_topic(OFFSETS_TOPIC, [[0]]).internal


def test_partitions_have_leaders_and_own_logs(cluster):
    topic = cluster.create_topic("t", [[0, 1], [1, 0]])
    assert [(each.topic, each.index, each.leader) for each in topic.partitions] == [("t", 0, 0), ("t", 1, 1)]
    assert cluster.partition("t", 1) is topic.partition(1) is topic.partitions[1]
    assert [topic.partition(index) for index in (-1, 2)] == [None, None]
    assert cluster.partition("unknown", 0) is None
    assert topic.partitions[0].log is not topic.partitions[1].log


def test_next_topic_starts_at_the_next_broker(cluster):
    assert cluster.place(2, 1) == [[0], [1]]
    cluster.create_topic("t", [[0]])
    assert cluster.place(2, 1) == [[1], [0]]


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "__consumer_offsets", "x" * 249])
def test_legal_names(name):
    assert legal_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "x" * 250, "a\n", "a\0"])
def test_illegal_names(name):
    assert not legal_topic_name(name)
