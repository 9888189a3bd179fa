"""The partition movements of one run of an assignor.

A movement that reverses an earlier one is preferred. If the assignor wants to move a partition from member A to member
B, and a partition of the same topic has moved from B to A before, it moves this earlier partition back to B instead.

Source: PartitionMovements of Kafka's AbstractStickyAssignor, and of UniformHeterogeneousAssignmentBuilder before 4.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kwire.java import bucket_of, table_size

_Topic = TypeVar("_Topic")  # a name, or an id


class Movements(Generic[_Topic]):
    """The partition movements of one assignor run so far. Each member has a number.

    Args:
        hash_of: function that returns Java's hash code of a partition, from topic and partition number.
    """

    def __init__(self, hash_of: Callable[[_Topic, int], int]) -> None:
        self._hash_of = hash_of
        self._of: dict[tuple[_Topic, int], tuple[int, int]] = {}
        self._between: dict[tuple[_Topic, int, int], _Partitions[_Topic]] = {}

    def add(self, partition: tuple[_Topic, int], giver: int, taker: int) -> None:
        source, _ = self._of.pop(partition, (giver, giver))
        if source != giver:
            self._between[partition[0], source, giver].remove(partition)
        if source != taker:
            self._of[partition] = source, taker
            between = self._between.setdefault((partition[0], source, taker), _Partitions(self._hash_of))
            between.add(partition)

    def instead(self, partition: tuple[_Topic, int], giver: int, taker: int) -> tuple[_Topic, int]:
        """Return the partition to move when an assignor wants to move ``partition`` from ``giver`` to ``taker``.

        If a partition of the same topic has moved from ``taker`` to ``giver`` before, the result is that partition,
        which is then moved back. Otherwise the result is ``partition``. If ``partition`` itself has moved before, its
        first owner takes the place of ``giver`` in this rule.

        Args:
            partition: topic and partition number.
            giver: number of the member that loses a partition.
            taker: number of the member that gets a partition.
        """
        source, _ = self._of.get(partition, (giver, giver))
        back = self._between.get((partition[0], taker, source))
        return back.first() if back else partition


class _Partitions(Generic[_Topic]):
    """A set of partitions whose first element is the same as in an equal Java HashSet.

    As in Java, the hash table does not shrink while the set has elements. When the last element is removed, the table
    gets its initial size again, because Java then creates a new set.

    Args:
        hash_of: function that returns Java's hash code of a partition, from topic and partition number.
    """

    def __init__(self, hash_of: Callable[[_Topic, int], int]) -> None:
        self._hash_of = hash_of
        self._held: dict[tuple[_Topic, int], None] = {}
        self._most = 0

    def __len__(self) -> int:
        return len(self._held)

    def add(self, partition: tuple[_Topic, int]) -> None:
        self._held[partition] = None
        self._most = max(self._most, len(self._held))

    def remove(self, partition: tuple[_Topic, int]) -> None:
        del self._held[partition]
        if not self._held:
            self._most = 0  # Java discards an empty set and creates a new one

    def first(self) -> tuple[_Topic, int]:
        size = table_size(self._most)
        return min(self._held, key=lambda partition: bucket_of(self._hash_of(*partition), size))
