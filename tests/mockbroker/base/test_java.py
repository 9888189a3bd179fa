"""String hashes and HashMap order as on a JVM; the table was made on one."""

from __future__ import annotations

import pytest

from mockbroker.base.java import map_order, partition_for, string_hash

HASHES = [  # text, hash, mod 50, mod 3
    ("", 0, 0, 0),
    ("g", 103, 3, 1),
    ("group", 98629247, 47, 2),
    ("test", 3556498, 48, 1),
    ("my-group", -1906497762, 12, 0),
    ("console-consumer-1", 35782224, 24, 0),
    ("polygenelubricants", -2147483648, 0, 0),
    ("grp-éa", -1237496192, 42, 2),
    ("\U0001f600", 1772899, 49, 1),
]


@pytest.mark.parametrize(("text", "value", "of_50", "of_3"), HASHES, ids=[repr(row[0]) for row in HASHES])
def test_hash_and_partition(text, value, of_50, of_3):
    assert string_hash(text) == value
    assert partition_for(text, 50) == of_50
    assert partition_for(text, 3) == of_3


def test_a_lone_surrogate_is_hashed_as_its_unit():
    assert string_hash("\ud83d") == 0xD83D


ORDERS = [  # keys as they were put, as a java.util.HashMap iterates them
    (["range", "roundrobin"], ["range", "roundrobin"]),
    (["roundrobin", "range"], ["range", "roundrobin"]),
    (["b", "a", "c"], ["a", "b", "c"]),
    (["C", "Aa", "BB"], ["Aa", "BB", "C"]),  # Aa and BB have the same hash: one bucket, as they came
    (["BB", "Aa", "C"], ["BB", "Aa", "C"]),
    ([], []),
]


@pytest.mark.parametrize(("put", "iterated"), ORDERS)
def test_map_order(put, iterated):
    assert map_order(put) == iterated


def bucket_of(text: str, size: int) -> int:
    value = string_hash(text) & 0xFFFF_FFFF
    return (value ^ value >> 16) & (size - 1)


@pytest.mark.parametrize(("count", "size"), [(12, 16), (13, 32), (24, 32), (25, 64), (1_000, 2_048)])
def test_the_table_grows_at_three_quarters(count, size):
    keys = [f"member-{number}" for number in range(count)]
    buckets = [bucket_of(key, size) for key in map_order(keys)]
    assert buckets == sorted(buckets)


def test_the_table_does_not_shrink():
    keys = [f"member-{number}" for number in range(12)]
    large = [bucket_of(key, 64) for key in map_order(keys, most=25)]
    assert large == sorted(large)
    assert map_order(keys, most=25) != map_order(keys)
