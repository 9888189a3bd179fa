"""Java's string hash and the order of its HashMap: they decide coordinators, leaders and ties."""

from __future__ import annotations

from collections.abc import Iterable


def string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, signed 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(group_id: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that a group lives in; the smallest integer has no absolute and is 0.

    Source: Kafka's GroupCoordinatorService.partitionFor and Utils.abs.
    """
    value = string_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions


def map_order(keys: Iterable[str], most: int = 0) -> list[str]:
    """Keys as a HashMap iterates them; ``keys`` in the order they were put, ``most``: the most it ever held."""
    listed = list(keys)
    size = 16
    while max(most, len(listed)) > size * 3 // 4:
        size *= 2

    def bucket(key: str) -> int:
        value = string_hash(key) & 0xFFFF_FFFF
        return (value ^ value >> 16) & (size - 1)

    return sorted(listed, key=bucket)
