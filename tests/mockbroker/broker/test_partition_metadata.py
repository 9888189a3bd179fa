"""Partition metadata in all responses that contain it."""

from __future__ import annotations

from uuid import uuid4

import pytest

from kwire import ErrorCode as E
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from kwire.messages.metadata import MetadataResponse
from mockbroker.broker.partition_metadata import partition_metadata
from mockbroker.topics.model import NO_LEADER, ClusterState, Node

STRUCTS = [MetadataResponse.Topic.Partition, DescribeTopicPartitionsResponse.Topic.Partition]


@pytest.mark.parametrize("struct", STRUCTS, ids=["Metadata", "DescribeTopicPartitions"])
@pytest.mark.parametrize(("leader", "error"), [(1, E.NONE), (NO_LEADER, E.LEADER_NOT_AVAILABLE)])
def test_partition_without_leader_is_an_error(struct: type, leader: int, error: E) -> None:
    cluster = ClusterState([Node(1, "a", 1), Node(2, "b", 2)], uuid4)
    (partition,) = cluster.create_topic("t", [[1, 2]]).partitions
    partition.leader, partition.leader_epoch = leader, 4
    response = partition_metadata(struct, cluster, partition)
    assert (response.error_code, response.partition_index) == (error, 0)
    assert (response.leader_id, response.leader_epoch, response.replica_nodes) == (leader, 4, [1, 2])
