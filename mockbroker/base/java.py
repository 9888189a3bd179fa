"""Hashes of Kafka's Java code and the order of its HashMap: they decide coordinators, leaders, ties and partitions."""

from __future__ import annotations

from functools import lru_cache

from kwire.java import map_order, string_hash

__all__ = ["map_order", "murmur2", "partition_for", "partition_of_key", "string_hash"]


@lru_cache(maxsize=1_000)  # names of groups may be 32 KiB long
def partition_for(group_id: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that a group lives in; the smallest integer has no absolute and is 0.

    Source: Kafka's GroupCoordinatorService.partitionFor and Utils.abs.
    """
    value = string_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions


def murmur2(data: bytes) -> int:
    """The hash by which producers choose a partition for a key, 32 bits without sign. Source: Kafka's Utils.murmur2."""
    factor, mask = 0x5BD1_E995, 0xFFFF_FFFF
    value = 0x9747_B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        value = value * factor & mask ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    return value ^ value >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition that Kafka's producer takes for a key. Source: BuiltInPartitioner.partitionForKey."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions
