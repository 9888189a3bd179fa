"""Reassignments of replicas: start, progress and cancellation. Source: Kafka's ReplicationControlManager.

A new replica is in sync after ``mockbroker.replica.catch.up.ms``, if its broker is running.
"""

from __future__ import annotations

from collections.abc import Sequence

from mockbroker.base.effects import Effects
from mockbroker.base.timers import CatchUpDue
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.topics.model import NO_LEADER, Partition
from mockbroker.topics.reassignment import Reassignment, completed, merged, reverted


def current_replicas(partition: Partition) -> Sequence[int]:
    """Return the replicas of a partition, without the replicas that a reassignment in progress adds."""
    old = partition.reassignment
    return partition.replicas if old is None else reverted(partition.replicas, old)


def begin(broker: Broker, partition: Partition, target: Sequence[int], now: float) -> Effects:
    """Begin a reassignment. If a reassignment is in progress, the new reassignment replaces it.

    If no replica has to catch up, the reassignment is complete at once.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        target: Broker ids of the replicas after the reassignment, each of them once.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    replicas, reassignment = merged(current_replicas(partition), target)
    in_sync = broker.cluster.in_sync(partition)
    if (left := completed(replicas, reassignment, in_sync)) is not None:
        return _replace(broker, partition, left, None, now)
    effects = _replace(broker, partition, replicas, reassignment, now)
    for node in partition.catching_up:
        failover.schedule_catch_up(broker, partition, node, now)
    return effects


def cancel(broker: Broker, partition: Partition, now: float) -> Effects | None:
    """Cancel the reassignment of a partition.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        now: The broker's time in seconds.

    Returns: the effects, such as journal events; None, without a change, if none of the replicas that would remain has
    caught up.
    """
    replicas = current_replicas(partition)
    if not set(replicas) - partition.catching_up:
        return None
    return _replace(broker, partition, replicas, None, now)


def caught_up(broker: Broker, due: CatchUpDue, now: float) -> Effects:
    """Add a new replica to the in-sync replicas, and continue the reassignment.

    Nothing changes in these cases:

    - The partition no longer exists, has no leader, or does not wait for the replica.
    - The replica is paused, or its broker is stopped.

    Args:
        broker: the state of the cluster.
        due: key of the deadline, which contains the partition and the replica.
        now: the broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    cluster, topic = broker.cluster, broker.cluster.by_id.get(due.topic_id)
    partition = None if topic is None else topic.partition(due.partition)
    is_running = due.node in cluster.nodes
    if (
        partition is None
        or due.node not in partition.catching_up - partition.paused.keys()
        or not is_running
        or partition.leader == NO_LEADER
    ):
        return []
    partition.catching_up -= {due.node}
    cluster.reassign(partition, partition.replicas, partition.reassignment)
    if partition.reassignment is None:
        return []
    left = completed(partition.replicas, partition.reassignment, cluster.in_sync(partition))
    return [] if left is None else _replace(broker, partition, left, None, now)


def _replace(
    broker: Broker, partition: Partition, replicas: Sequence[int], reassignment: Reassignment | None, now: float
) -> Effects:
    """Replace the replicas of a partition, and return the effects.

    If the old leader cannot lead the partition any longer, a new leader is elected. If a replica is removed, the leader
    epoch is incremented.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        replicas: Broker ids of the new replicas.
        reassignment: The reassignment in progress; None if it is finished.
        now: The broker's time in seconds.
    """
    is_removed = not set(partition.replicas) <= set(replicas)
    added = set(replicas) - set(partition.replicas)
    partition.catching_up = (partition.catching_up | added) & set(replicas)
    broker.cluster.reassign(partition, replicas, reassignment)
    electable = broker.cluster.electable(partition)
    if partition.leader not in electable:
        return failover.lead(broker, partition, next(iter(electable), NO_LEADER), now)
    return failover.lead(broker, partition, partition.leader, now) if is_removed else []
