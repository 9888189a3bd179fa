"""Hashes of strings and topic ids, and the orders of a HashMap, as on a JVM, which made these tables."""

from __future__ import annotations

from uuid import UUID

import pytest

from kwire.java import (
    bucket_of,
    bucket_order,
    computed_order,
    copy_order,
    grouped_order,
    map_order,
    partition_for,
    share_partition_hash,
    string_hash,
    utf16,
    uuid_hash,
    uuid_order,
)

IDS = [
    UUID(text)
    for text in [
        "bb0f1798a3773418bfc9945a02770b39",
        "592ad3097d984a5de5b3f440be1a4792",
        "b54b190491b3ca5d5a1715fff3e147a1",
        "1ee88ee940ae7fdfd993e7beb252edfc",
        "154de301afcac4e5edc26f161bfba4ce",
        "a440e2651db344e9c8e60506bdf81cb7",
        "96c697fbb25830697914dd2d973295f1",
        "4121c8e0996da4a661f44c359fc917b3",
        "c54c61ed9f024ba7384e818eb69539d9",
        "5021aa93d7917884dddda85caf3464c4",
        "1a7850eaf96443e070f3a3b34779ab7e",
        "85c8a30a98496cb61a64d9ffee20a422",
        "98ec899916e40159bf8fc3c9002ae27a",
    ]
]


@pytest.mark.parametrize(("at", "value"), [(0, -1513702173), (1, 2132486790), (2, -1928429305)])
def test_hash_of_a_topic_id(at: int, value: int) -> None:
    assert uuid_hash(IDS[at]) == value


SETS = [  # number of IDS, the order after they were added one by one, the order in a copy of a list
    (5, [4, 3, 0, 2, 1], [4, 3, 0, 2, 1]),
    (12, [5, 7, 10, 4, 3, 11, 0, 6, 9, 8, 2, 1], [4, 11, 0, 8, 2, 5, 7, 10, 3, 6, 9, 1]),
    (13, [4, 11, 0, 8, 2, 5, 7, 10, 3, 6, 9, 1, 12], [4, 11, 0, 8, 2, 5, 7, 10, 3, 6, 9, 1, 12]),
]


@pytest.mark.parametrize(("count", "put", "copied"), SETS)
def test_order_in_a_hash_set(count: int, put: list[int], copied: list[int]) -> None:
    assert [IDS.index(each) for each in bucket_order(IDS[:count], uuid_hash)] == put
    assert [IDS.index(each) for each in copy_order(IDS[:count], uuid_hash)] == copied


def test_ids_are_compared_as_signed_halves() -> None:
    assert [IDS.index(each) for each in sorted(IDS[:8], key=uuid_order)] == [6, 5, 2, 0, 4, 3, 7, 1]
    low, high = UUID(int=1 << 63), UUID(int=1)
    assert sorted([high, low], key=uuid_order) == [low, high]


def test_strings_are_compared_by_utf_16_units() -> None:
    assert sorted(["\ufffd", "\U0001f600", "a", "B"], key=utf16) == ["B", "a", "\U0001f600", "\ufffd"]


def test_grouping_puts_a_new_key_in_front_of_its_bucket() -> None:
    assert map_order(["Aa", "BB"]) == ["Aa", "BB"]  # both have the same hash
    assert grouped_order(["Aa", "BB", "Aa"]) == ["BB", "Aa"]


def test_grouping_grows_with_the_call_after_the_thirteenth_key() -> None:
    keys = [chr(code) for code in range(32, 32 + 13)]  # hashes 32 to 44: in 16 buckets the last ones come first
    small = [*keys[:13]]
    assert grouped_order(["\x10", *keys[:12]]) == [" ", "\x10", *keys[1:12]]
    assert grouped_order(["\x10", *keys[:12], "\x10"]) == [*small[:12], "\x10"]


def test_a_map_of_known_size_does_not_grow() -> None:
    assert computed_order([16, 0, 1], int, 3) == [0, 16, 1]
    assert computed_order([16, 0, 1], int, 30) == [0, 1, 16]
    assert computed_order(list(range(30, -1, -1)), int, 3) == list(range(31))


def test_a_record_hash_has_no_offset() -> None:
    assert share_partition_hash(UUID(int=5), 2) == 31 * 5 + 2


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
def test_hash_and_partition(text: str, value: int, of_50: int, of_3: int) -> None:
    assert string_hash(text) == value
    assert partition_for(text, 50) == of_50
    assert partition_for(text, 3) == of_3


def test_a_lone_surrogate_is_hashed_as_its_unit() -> None:
    assert string_hash("\ud83d") == 0xD83D


ORDERS = [  # keys as they were put, as a java.util.HashMap iterates them
    (["range", "roundrobin"], ["range", "roundrobin"]),
    (["roundrobin", "range"], ["range", "roundrobin"]),
    (["b", "a", "c"], ["a", "b", "c"]),
    (["C", "Aa", "BB"], ["Aa", "BB", "C"]),  # Aa and BB have the same hash: one bucket, in insertion order
    (["BB", "Aa", "C"], ["BB", "Aa", "C"]),
    ([], []),
]


@pytest.mark.parametrize(("put", "iterated"), ORDERS)
def test_map_order(put: list[str], iterated: list[str]) -> None:
    assert map_order(put) == iterated


@pytest.mark.parametrize(("count", "size"), [(12, 16), (13, 32), (24, 32), (25, 64), (1_000, 2_048)])
def test_the_table_grows_at_three_quarters(count: int, size: int) -> None:
    keys = [f"member-{number}" for number in range(count)]
    buckets = [bucket_of(string_hash(key), size) for key in map_order(keys)]
    assert buckets == sorted(buckets)


def test_the_table_does_not_shrink() -> None:
    keys = [f"member-{number}" for number in range(12)]
    large = [bucket_of(string_hash(key), 64) for key in map_order(keys, most=25)]
    assert large == sorted(large)
    assert map_order(keys, most=25) != map_order(keys)
