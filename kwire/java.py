"""Hashes of Java's classes and the order of its HashMap: Kafka's ties are decided by them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import mul
from typing import TypeVar
from uuid import UUID

_MASK = 0xFFFF_FFFF
_POWERS = [31**n & _MASK for n in range(64)]  # what each unit of a part counts, the last one first

_Key = TypeVar("_Key")


@lru_cache(maxsize=16_384)  # a coordinator asks for the same member ids again and again
def string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, signed 32 bits."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        data = utf16(text)
        units = struct.unpack(f">{len(data) // 2}H", data)
    value = 0
    for at in range(0, len(units), len(_POWERS)):
        part = units[at : at + len(_POWERS)]
        value = value * 31 ** len(part) + sum(map(mul, reversed(part), _POWERS))
        value &= _MASK
    return _signed(value)


def uuid_hash(uuid: UUID) -> int:
    """``hashCode`` of Kafka's Uuid: its four quarters xored, signed 32 bits."""
    halves = uuid.int >> 64 ^ uuid.int
    return _signed((halves >> 32 ^ halves) & _MASK)


def partition_hash(topic: str, partition: int) -> int:
    """``TopicPartition.hashCode``, before it is cut to 32 bits."""
    return 31 * (31 + partition) + string_hash(topic)


def id_partition_hash(topic_id: UUID, partition: int) -> int:
    """``TopicIdPartition.hashCode`` of the broker, before it is cut to 32 bits."""
    return 31 * (31 + uuid_hash(topic_id)) + partition


def map_order(keys: Iterable[str], most: int = 0) -> list[str]:
    """Strings as a HashMap iterates them; see ``bucket_order``."""
    return bucket_order(keys, string_hash, most)


def bucket_order(keys: Iterable[_Key], hash_of: Callable[[_Key], int], most: int = 0) -> list[_Key]:
    """Keys as a HashMap iterates them; ``keys`` in the order they were put, ``most``: the most it ever held."""
    listed = list(keys)
    return _by_bucket(listed, hash_of, table_size(max(most, len(listed))))


def copy_order(keys: Iterable[_Key], hash_of: Callable[[_Key], int]) -> list[_Key]:
    """Keys as a HashSet iterates them that was made from a collection: one at 12, 24, 48 ... keys has grown already."""
    listed = list(keys)
    return bucket_order(listed, hash_of, most=len(listed) + 1)


def grouped_order(calls: Iterable[str]) -> list[str]:
    """Strings as a HashMap iterates them that computeIfAbsent filled, called with each of ``calls``.

    That puts a new key in front of its bucket, and grows before it looks, so the last new key alone grows nothing.
    """
    found: dict[str, None] = {}
    most = 0
    for key in calls:
        most = len(found)
        found[key] = None
    return _by_bucket(reversed(found), string_hash, table_size(most))


def utf16(text: str) -> bytes:
    """A sort key in the order of ``String.compareTo``, which goes by UTF-16 units and not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def uuid_order(uuid: UUID) -> int:
    """A sort key in the order of ``Uuid.compareTo``: both halves as signed numbers."""
    return uuid.int ^ (1 << 127 | 1 << 63)


def table_size(held: int) -> int:
    """How many buckets a HashMap has that once held so many keys."""
    size = 16
    while held > size * 3 // 4:
        size *= 2
    return size


def bucket_of(value: int, size: int) -> int:
    """The bucket of a hash, of ``size`` buckets."""
    value &= _MASK
    return (value ^ value >> 16) & (size - 1)


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


def _by_bucket(keys: Iterable[_Key], hash_of: Callable[[_Key], int], size: int) -> list[_Key]:
    return sorted(keys, key=lambda key: bucket_of(hash_of(key), size))


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
