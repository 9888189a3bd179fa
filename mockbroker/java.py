"""Hashes of Kafka's Java code and the order of its HashMap: they decide coordinators, leaders, ties and partitions."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import mul

POWERS = [31**n & 0xFFFF_FFFF for n in range(64)]  # what each unit of a part counts, the last one first


def string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, signed 32 bits."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        data = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(data) // 2}H", data)
    value = 0
    for at in range(0, len(units), len(POWERS)):
        part = units[at : at + len(POWERS)]
        value = value * 31 ** len(part) + sum(map(mul, reversed(part), POWERS))
        value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@lru_cache(maxsize=1_000)  # names of groups may be 32 KiB long
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
