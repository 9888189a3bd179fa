"""Replicas that a test has paused: they fetch no more records, and are removed from the in-sync replicas (ISR).

If a paused replica wins an unclean election, the records that it had not fetched are lost.
"""

from __future__ import annotations

from mockbroker.broker.broker import Broker
from mockbroker.broker.failover import FailoverError
from mockbroker.topics.model import Partition


def pause_replica(broker: Broker, partition: Partition, node: int) -> None:
    """Stop a follower from fetching, and remove it from the in-sync replicas (ISR).

    The follower keeps the records up to the current log end offset.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        node: Broker id of the follower, which must be in sync.

    Raises: FailoverError if the follower is not in sync.
    """
    followers = [replica for replica in broker.cluster.electable(partition) if replica != partition.leader]
    if node not in followers:
        raise FailoverError(
            f"broker {node} is not an in-sync follower of {partition.topic}-{partition.index} "
            f"(in-sync followers: {followers})"
        )
    partition.paused[node] = partition.log.end
    partition.catching_up |= {node}
    broker.cluster.epoch += 1


def resume_replica(broker: Broker, partition: Partition, node: int) -> None:
    """Let a paused replica fetch again. The replica has all records immediately and rejoins the in-sync replicas.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        node: Broker id of the replica.

    Raises: FailoverError if the replica is not paused.
    """
    if node not in partition.paused:
        raise FailoverError(
            f"the replica of {partition.topic}-{partition.index} on broker {node} is not paused "
            f"(paused: {sorted(partition.paused)})"
        )
    del partition.paused[node]
    partition.catching_up -= {node}
    broker.cluster.epoch += 1
