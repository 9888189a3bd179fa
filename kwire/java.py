"""Hash codes and HashMap iteration order of Java, on which assignors and Kafka's partitioner depend."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import mul
from typing import TypeVar
from uuid import UUID

_MASK = 0xFFFF_FFFF
_LONG_MASK = 0xFFFF_FFFF_FFFF_FFFF
_FIBONACCI = -7046029254386353131  # factor of hash codes in Kafka's BaseHashTable
_POWERS = [31**n & _MASK for n in range(64)]  # factor of each UTF-16 unit in a chunk, last unit first

_Key = TypeVar("_Key")


@lru_cache(maxsize=16_384)  # a coordinator hashes the same member ids repeatedly
def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``, a signed 32-bit hash of the UTF-16 units."""
    if text.isascii():
        units: Sequence[int] = text.encode()
    else:
        data = utf16(text)
        units = struct.unpack(f">{len(data) // 2}H", data)
    value = 0
    for at in range(0, len(units), len(_POWERS)):
        chunk = units[at : at + len(_POWERS)]
        value = value * 31 ** len(chunk) + sum(map(mul, reversed(chunk), _POWERS))
        value &= _MASK
    return _signed(value)


def uuid_hash(uuid: UUID) -> int:
    """Return ``hashCode`` of Kafka's Uuid: XOR of its four 32-bit words, signed."""
    halves = uuid.int >> 64 ^ uuid.int
    return _signed((halves >> 32 ^ halves) & _MASK)


def partition_hash(topic: str, partition: int) -> int:
    """Return Java's ``TopicPartition.hashCode`` before it is truncated to 32 bits."""
    return 31 * (31 + partition) + string_hash(topic)


def share_partition_hash(topic_id: UUID, partition: int) -> int:
    """Return ``hashCode`` of the record TopicIdPartition in Kafka's server-common, before it is truncated to 32
    bits.
    """
    return 31 * uuid_hash(topic_id) + partition


def id_partition_hash(topic_id: UUID, partition: int) -> int:
    """Return ``hashCode`` of the broker's ``TopicIdPartition``, before it is truncated to 32 bits."""
    return 31 * (31 + uuid_hash(topic_id)) + partition


def map_order(keys: Iterable[str], most: int = 0) -> list[str]:
    """Return strings in the order in which a Java HashMap iterates them.

    Args:
        keys: strings in insertion order.
        most: largest number of keys that the map ever had; 0 if it never had more than the current number.
    """
    return bucket_order(keys, string_hash, most)


def timeline_map_order(keys: Iterable[str], most: int = 0) -> list[str]:
    """Return strings in the order in which Kafka's TimelineHashMap iterates them.

    Source: Kafka's BaseHashTable.findSlot and SnapshottableHashTable.CurrentIterator.

    Args:
        keys: strings in insertion order. Each of them must have been set again since the map had ``most`` keys.
        most: largest number of keys that the map ever had; 0 if it never had more than the current number.
    """
    listed = list(keys)
    bits = 1
    while (max(most, len(listed)) + 1) * 3 > 4 << bits:
        bits += 1
    shift = 64 - bits
    listed.reverse()  # keys of one slot are iterated last to first
    listed.sort(key=lambda key: (string_hash(key) * _FIBONACCI & _LONG_MASK) >> shift)
    return listed


def bucket_order(keys: Iterable[_Key], hash_of: Callable[[_Key], int], most: int = 0) -> list[_Key]:
    """Return keys in the order in which a Java HashMap iterates them.

    Args:
        keys: keys in insertion order.
        hash_of: function that returns Java's hash code of a key.
        most: largest number of keys that the map ever had; it determines the number of buckets. 0 if the map never had
            more than the current number.
    """
    listed = list(keys)
    return _by_bucket(listed, hash_of, table_size(max(most, len(listed))))


def copy_order(keys: Iterable[_Key], hash_of: Callable[[_Key], int]) -> list[_Key]:
    """Return keys in the order of a Java HashSet that was constructed from a collection.

    Such a set doubles its number of buckets at 12, 24, 48 ... keys. A set that add() has filled doubles it one key
    later.

    Args:
        keys: keys in insertion order.
        hash_of: function that returns Java's hash code of a key.
    """
    listed = list(keys)
    return bucket_order(listed, hash_of, most=len(listed) + 1)


def grouped_order(calls: Iterable[str]) -> list[str]:
    """Return strings in the order of a Java HashMap filled by computeIfAbsent.

    computeIfAbsent inserts a key at the head of its bucket. The map is resized before the insertion, not after it, so
    that the key that is inserted last causes no resize.

    Args:
        calls: the arguments of the calls, in order; they may repeat.
    """
    keys: dict[str, None] = {}
    most = 0
    for key in calls:
        most = len(keys)
        keys[key] = None
    return _by_bucket(reversed(keys), string_hash, table_size(most))


def computed_order(keys: Sequence[_Key], hash_of: Callable[[_Key], int], expected: int) -> list[_Key]:
    """Return keys in the order of a Java HashMap filled by computeIfAbsent, as in ``grouped_order``.

    Args:
        keys: distinct keys in insertion order.
        hash_of: function that returns Java's hash code of a key.
        expected: number of keys for which Kafka's ``AssignorHelpers.newHashMap`` constructed the map.
    """
    size = 1
    while size < (expected + 1) * 4 // 3 + 1:  # the capacity of newHashMap, rounded up to a power of two
        size *= 2
    return _by_bucket(reversed(keys), hash_of, table_size(len(keys) - 1, size))


def utf16(text: str) -> bytes:
    """Return a sort key for the order of Java's ``String.compareTo``, which compares UTF-16 units and not code
    points.
    """
    return text.encode("utf-16-be", "surrogatepass")


def uuid_order(uuid: UUID) -> int:
    """Return a sort key for the order of Kafka's ``Uuid.compareTo``: both halves of the UUID as signed numbers."""
    return uuid.int ^ (1 << 127 | 1 << 63)


def table_size(held: int, size: int = 16) -> int:
    """Return the number of buckets of a Java HashMap that has held up to ``held`` keys.

    Args:
        held: the largest number of keys that the map ever had.
        size: the initial number of buckets.
    """
    while held > size * 3 // 4:
        size *= 2
    return size


def bucket_of(value: int, size: int) -> int:
    """Return the bucket index of a hash code in a table of ``size`` buckets."""
    value &= _MASK
    return (value ^ value >> 16) & (size - 1)


@lru_cache(maxsize=1_000)  # group ids may be 32 KiB long
def partition_for(group_id: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that stores the state of a group.

    As in Kafka, the absolute value of Java's smallest integer counts as 0.

    Source: Kafka's GroupCoordinatorService.partitionFor and Utils.abs.
    """
    value = string_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partitions


def murmur2(data: bytes) -> int:
    """Return the murmur2 hash of a record key, an unsigned 32-bit integer. Producers choose the partition by this hash.

    Source: Kafka's Utils.murmur2.
    """
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
    """Return the partition that Kafka's producer chooses for a key. Source: BuiltInPartitioner.partitionForKey."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions


def _by_bucket(keys: Iterable[_Key], hash_of: Callable[[_Key], int], size: int) -> list[_Key]:
    return sorted(keys, key=lambda key: bucket_of(hash_of(key), size))


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
