"""Which brokers hold a partition."""

from __future__ import annotations

from collections.abc import Sequence


def place(nodes: Sequence[int], partitions: int, replicas: int, start: int) -> list[list[int]]:
    """Replicas of each partition, the leader first: round the brokers, beginning ``start`` steps on.

    ``replicas`` may not be above the number of brokers.
    """
    count = len(nodes)
    return [
        [nodes[(start + partition + replica) % count] for replica in range(replicas)] for partition in range(partitions)
    ]
