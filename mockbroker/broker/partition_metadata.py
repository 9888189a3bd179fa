"""The metadata of a partition, as returned by Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kwire import ErrorCode
from mockbroker.topics.model import NO_LEADER, ClusterState, Partition

P = TypeVar("P")


def partition_metadata(struct: Callable[..., P], cluster: ClusterState, partition: Partition) -> P:
    """Return the metadata of a partition, such as leader and replicas, as a struct of a response.

    Args:
        struct: Class of the struct.
        cluster: The cluster metadata.
        partition: The partition.
    """
    return struct(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=cluster.in_sync(partition),
        offline_replicas=cluster.offline_replicas(partition),
    )
