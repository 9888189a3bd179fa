"""The entries of the offset index and the time index: Kafka's LogSegment.append with index.interval.bytes of 4096."""

from __future__ import annotations

import struct

import pytest

from mockbroker.storage.indexes import Indexer

BASE = 100  # base offset of the segment
INDEXED = [  # sizes of the batches, numbers of the batches that get an entry
    ([4_096, 1, 1], [2]),
    ([4_097, 1], [1]),
    ([4_096, 1, 4_096, 1, 1], [2, 4]),
    ([4_097, 4_097, 4_097], [1, 2]),
    ([4_097, 4_096, 1, 1], [1, 3]),
    ([1_000] * 11, [5, 10]),
    ([4_096], []),
    ([], []),
]


@pytest.mark.parametrize(("sizes", "expected"), INDEXED)
def test_entry_after_more_than_4096_bytes(sizes: list[int], expected: list[int]) -> None:
    indexer = Indexer(BASE)
    for number, size in enumerate(sizes):
        indexer.add(BASE + 2 * number + 1, sum(sizes[:number]), size, -1)
    entries = list(struct.iter_unpack(">ii", indexer.index))
    assert entries == [(2 * number + 1, sum(sizes[:number])) for number in expected]
    assert indexer.time_index() == b"", "no batch has a timestamp"


TIMES = [  # timestamps of the batches; entries: timestamp, relative offset
    ([], []),
    ([5], [(5, 0)]),
    ([0], [(0, 0)]),
    ([5, 9, 7], [(9, 1)]),
    ([5, 5], [(5, 0)]),
    ([-1, -1], []),
]


@pytest.mark.parametrize(("timestamps", "expected"), TIMES)
def test_last_time_entry_is_the_largest_timestamp(timestamps: list[int], expected: list[tuple[int, int]]) -> None:
    indexer = Indexer(BASE)
    for number, timestamp in enumerate(timestamps):
        indexer.add(BASE + number, 0, 10, timestamp)
    assert list(struct.iter_unpack(">qi", indexer.time_index())) == expected


def test_time_entries_increase() -> None:
    """A batch with an earlier timestamp adds an entry to the offset index only."""
    indexer = Indexer(BASE)
    for number, timestamp in enumerate([5, 9, 7, 8, 12]):
        indexer.add(BASE + number, 5_000 * number, 5_000, timestamp)
    assert list(struct.iter_unpack(">ii", indexer.index)) == [(number, 5_000 * number) for number in (1, 2, 3, 4)]
    assert list(struct.iter_unpack(">qi", indexer.time_index())) == [(9, 1), (12, 4)]
