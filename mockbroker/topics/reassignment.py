"""The reassignment of the replicas of a partition: which replicas are added and removed. The functions are pure.

Source: Kafka's PartitionReassignmentReplicas and PartitionReassignmentRevert.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kwire.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment in progress.

    Attributes:
        adding: Broker ids of the new replicas, sorted.
        removing: Broker ids of the replicas that are removed when all new replicas are in sync, sorted.
    """

    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def merged(current: Sequence[int], target: Sequence[int]) -> tuple[list[int], Reassignment]:
    """Return the replicas of a partition while it is reassigned, and the reassignment.

    The replicas are the target replicas, followed by the replicas that will be removed.

    Args:
        current: broker ids of the current replicas.
        target: broker ids of the replicas after the reassignment.
    """
    removing = sorted(set(current) - set(target))
    return [*target, *removing], Reassignment(tuple(sorted(set(target) - set(current))), tuple(removing))


def completed(replicas: Sequence[int], reassignment: Reassignment, in_sync: Collection[int]) -> list[int] | None:
    """Return the replicas after a reassignment; None if the reassignment cannot be completed yet.

    Args:
        replicas: Broker ids of the replicas during the reassignment.
        reassignment: The reassignment.
        in_sync: Broker ids of the in-sync replicas.
    """
    left = [node for node in replicas if node not in reassignment.removing]
    is_complete = set(reassignment.adding) <= set(in_sync) and not set(left).isdisjoint(in_sync)
    return left if is_complete else None


def reverted(replicas: Sequence[int], reassignment: Reassignment) -> list[int]:
    """Return the replicas of a partition after its reassignment is cancelled: all except the added replicas.

    Args:
        replicas: broker ids of the replicas during the reassignment.
        reassignment: the cancelled reassignment.
    """
    return [node for node in replicas if node not in reassignment.adding]
