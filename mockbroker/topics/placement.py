"""Which brokers hold a partition."""

from __future__ import annotations

from collections.abc import Container, Sequence

from mockbroker.base.settings import MAX_PARTITIONS


def place(nodes: Sequence[int], partitions: int, replicas: int, start: int) -> list[list[int]]:
    """Replicas of each partition, the leader first: round the brokers, beginning ``start`` steps on.

    ``replicas`` may not be above the number of brokers.
    """
    count = len(nodes)
    return [
        [nodes[(start + partition + replica) % count] for replica in range(replicas)] for partition in range(partitions)
    ]


def assignment_error(known: Container[int], brokers: Sequence[int], sample: Sequence[int]) -> str | None:
    """Why a client cannot have the replicas of a partition on these brokers, None if it can.

    ``known``: the brokers that there are. ``sample``: the replicas of another partition of the topic.
    Source: Kafka's ReplicationControlManager.validateManualPartitionAssignment.
    """
    manual = "The manual partition assignment includes"
    if not brokers:
        return f"{manual} an empty replica list."
    seen: set[int] = set()
    for node in sorted(brokers):
        if node not in known:
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
    """Why so many partitions cannot be added, which Kafka would add."""
    return f"{partitions} more partitions are too many: a cluster here has at most {MAX_PARTITIONS} in all."
