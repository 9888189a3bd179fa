"""The state of the cluster: coordinators and leaders."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.java import partition_for
from mockbroker.topics.model import Partition


def test_every_group_has_one_coordinator():
    harness = BrokerHarness(brokers=3)
    for group_id in ("", "g", "group", "test", "polygenelubricants"):
        home = harness.broker.coordinator(group_id)
        assert home == harness.leader("__consumer_offsets", partition_for(group_id, 50))
        errors = [harness.broker.coordinator_error(group_id, node) for node in range(3)]
        assert errors.count(E.NONE) == 1
        assert errors[home] == E.NONE


def test_groups_are_spread_over_all_brokers():
    harness = BrokerHarness(brokers=3)
    assert {harness.broker.coordinator(f"group-{number}") for number in range(30)} == {0, 1, 2}


@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 2), (5, 3)])
def test_offsets_topic_is_created(brokers, replicas):
    harness = BrokerHarness(brokers=brokers, config={"offsets.topic.num.partitions": 7})
    topic = harness.broker.cluster.topics["__consumer_offsets"]
    assert len(topic.partitions) == 7
    assert {len(partition.replicas) for partition in topic.partitions} == {replicas}
    assert topic.internal


@pytest.mark.parametrize(
    ("node", "epoch", "error"),
    [
        (0, -1, E.NONE),
        (0, 5, E.NONE),
        (0, 4, E.FENCED_LEADER_EPOCH),
        (0, 6, E.UNKNOWN_LEADER_EPOCH),
        (1, -1, E.NOT_LEADER_OR_FOLLOWER),
        (1, 6, E.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_leader_error(node, epoch, error):
    partition = Partition("t", 0, [0, 1], leader_epoch=5)
    assert BrokerHarness(brokers=2).broker.leader_error(partition, node, epoch) == error


def test_missing_partition_is_unknown():
    assert BrokerHarness().broker.leader_error(None, 0) == E.UNKNOWN_TOPIC_OR_PARTITION


def test_member_ids_are_unique():
    broker = BrokerHarness().broker
    ids = {broker.new_member_id("c") for _ in range(100)}
    assert len(ids) == 100
    assert all(member_id.startswith("c-") for member_id in ids)
