"""The placement of replicas on brokers, and the validation of manual replica assignments."""

from __future__ import annotations

from collections.abc import Container, Sequence

from mockbroker.base.settings import MAX_PARTITIONS


def place(nodes: Sequence[int], partitions: int, replicas: int, start: int) -> list[list[int]]:
    """Place partitions on brokers round-robin; return the broker ids of each partition, the preferred leader first.

    Args:
        nodes: broker ids.
        partitions: number of partitions.
        replicas: replication factor, at most the number of brokers.
        start: index in ``nodes`` of the first partition's leader (modulo the number of brokers).
    """
    count = len(nodes)
    return [
        [nodes[(start + partition + replica) % count] for replica in range(replicas)] for partition in range(partitions)
    ]


def assignment_error(broker_ids: Container[int], brokers: Sequence[int], sample: Sequence[int]) -> str | None:
    """Return Kafka's error message for an invalid manual replica assignment; None if the assignment is valid.

    Args:
        broker_ids: ids of all brokers of the cluster.
        brokers: the replicas of one partition, from the request.
        sample: the replicas of a second partition of the topic; both partitions must have the same number of replicas.

    Source: Kafka's ReplicationControlManager.validateManualPartitionAssignment.
    """
    manual = "The manual partition assignment includes"
    if not brokers:
        return f"{manual} an empty replica list."
    seen: set[int] = set()
    for node in sorted(brokers):
        if node not in broker_ids:
            return f"{manual} broker {node}, but no such broker is registered."
        if node in seen:
            return f"{manual} the broker {node} more than once."
        seen.add(node)
    if len(brokers) != len(sample):
        return (
            f"{manual} a partition with {len(brokers)} replica(s), but this is not consistent with previous "
            f"partitions, which have {len(sample)} replica(s)."
        )
    return None


def no_room(partitions: int) -> str:
    """Return the error message for a topic of ``partitions`` partitions that would exceed MAX_PARTITIONS.

    This limit is mockbroker's own; Kafka does not have it.
    """
    return f"{partitions} more partitions exceed mockbroker's limit of {MAX_PARTITIONS} partitions in a cluster."
