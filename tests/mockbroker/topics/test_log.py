"""A partition log: offsets given, batches read back, records found by time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kwire import DecodeError
from kwire.records.batch import Record, batches, build_batch, read_batch
from kwire.records.compression import GZIP, SNAPPY
from mockbroker.topics.log import PartitionLog


def batch(*timestamps: int, codec: int = 0, value: bytes = b"v") -> bytes:
    return build_batch([Record(timestamp=timestamp, value=value) for timestamp in timestamps], codec=codec)


def log_of(*datas: bytes) -> PartitionLog:
    log = PartitionLog()
    for data in datas:
        log.append(read_batch(data), leader_epoch=0)
    return log


def offsets(data: bytes) -> list[int]:
    return [found.base_offset for found in batches(data)]


def test_an_empty_log():
    log = PartitionLog()
    assert (log.start, log.end) == (0, 0)
    assert log.read(0, 1_000, at_least_one=True) == b""
    assert log.at_timestamp(0) is None
    assert log.at_largest_timestamp() is None


def test_offsets_are_counted_on_and_the_checksum_stays_right():
    log = PartitionLog()
    assert [log.append(read_batch(batch(*[1] * count)), leader_epoch=7) for count in (3, 1, 2)] == [0, 3, 4]
    assert log.end == 6
    found = list(batches(log.read(0, 10_000, at_least_one=False)))
    assert [(each.base_offset, each.last_offset, each.leader_epoch) for each in found] == [
        (0, 2, 7),
        (3, 3, 7),
        (4, 5, 7),
    ]
    assert all(each.crc_is_right() for each in found)
    assert [record.offset for each in found for record in each.records()] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("offset", "bases"), [(0, [0, 3, 4]), (2, [0, 3, 4]), (3, [3, 4]), (4, [4]), (5, [4]), (6, []), (99, [])]
)
def test_reading_begins_with_the_batch_that_holds_the_offset(offset, bases):
    log = log_of(batch(1, 1, 1), batch(1), batch(1, 1))
    assert offsets(log.read(offset, 10_000, at_least_one=False)) == bases


SIZE = len(batch(1))


@pytest.mark.parametrize(
    ("limit", "at_least_one", "count"),
    [
        pytest.param(SIZE * 3, False, 3, id="all"),
        pytest.param(SIZE * 2, False, 2, id="exactly two"),
        pytest.param(SIZE * 2 - 1, False, 1, id="a byte short of two"),
        pytest.param(SIZE - 1, False, 0, id="a byte short of one"),
        pytest.param(SIZE - 1, True, 1, id="the first comes anyhow"),
        pytest.param(0, True, 1, id="the first comes even with no room"),
        pytest.param(0, False, 0, id="no room"),
        pytest.param(SIZE, True, 1, id="but not the second"),
    ],
)
def test_whole_batches_up_to_a_limit(limit, at_least_one, count):
    log = log_of(batch(1), batch(1), batch(1))
    assert len(offsets(log.read(0, limit, at_least_one=at_least_one))) == count


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (0, 100)), (100, (0, 100)), (101, (1, 300)), (150, (1, 300)), (301, None), (200, (1, 300))],
)
def test_the_first_record_at_or_after_a_time(codec, timestamp, found):
    log = log_of(batch(100, 300, codec=codec), batch(200, codec=codec))
    assert log.at_timestamp(timestamp) == found


def test_batches_that_end_before_the_time_are_not_opened():
    log = log_of(batch(1), batch(5))
    log._batches[0] = replace(log._batches[0], data=b"cannot be opened")
    assert log.at_timestamp(5) == (1, 5)


def test_the_largest_timestamp_and_the_first_of_several():
    assert log_of(batch(5, 9), batch(9), batch(7)).at_largest_timestamp() == (1, 9)


def test_a_batch_that_cannot_be_opened_is_said():
    whole = bytearray(batch(5))
    opaque = read_batch(bytes(whole))
    log = PartitionLog()
    log.append(opaque.__class__(bytes(whole[:-3]), *[getattr(opaque, name) for name in opaque.__slots__[1:]]), 0)
    with pytest.raises(DecodeError):
        log.at_timestamp(0)
    with pytest.raises(DecodeError):
        log.at_largest_timestamp()
    assert SNAPPY not in (0, GZIP)


@pytest.mark.parametrize(
    ("offset", "left", "size"), [(0, [0, 2, 4], 3), (1, [0, 2, 4], 3), (2, [2, 4], 2), (5, [4], 1), (6, [], 0)]
)
def test_a_log_that_begins_later(offset, left, size):
    log = log_of(batch(1, 2), batch(3, 4), batch(5, 6))
    log.delete_before(offset)
    assert (log.start, log.end) == (offset, 6)
    assert offsets(log.read(offset, 10_000, at_least_one=True)) == left
    assert log.size == size * len(batch(1, 2))
    assert log.at_timestamp(0) == (None if offset == 6 else (offset, offset + 1))
    assert log.append(read_batch(batch(7)), leader_epoch=0) == 6
    assert offsets(log.read(6, 10_000, at_least_one=True)) == [6]
    log.delete_before(0)
    assert log.start == offset


@pytest.mark.parametrize(("size", "offset"), [(0, 0), (1, 3), (200, 3), (10_000, 9)])
def test_the_first_batch_so_many_bytes_on(size, offset):
    log = PartitionLog()
    for _ in range(3):
        log.append(read_batch(build_batch([Record(value=b"x" * 100)] * 3)), 0)
    assert log.beyond(0, size) == offset
    assert log.beyond(log.end, size) == log.end


def test_nothing_from_an_offset_on_is_read():
    log = PartitionLog()
    for _ in range(3):
        log.append(read_batch(build_batch([Record()] * 2)), 0)
    found = batches(log.read(0, 10_000, at_least_one=True, before=4))
    assert [batch.base_offset for batch in found] == [0, 2]
    assert log.read(4, 10_000, at_least_one=True, before=4) == b""


# --- what compaction leaves, and what a copy hears ---


def kept(*offsets: int, last: int | None = None) -> bytes:
    """A batch with these offsets, as compaction leaves it."""
    records = [Record(offset=offset, value=b"v") for offset in offsets]
    return build_batch(records, keep_offsets=True, base_offset=offsets[0] if offsets else last, last_offset=last)


def test_replaced_batches_have_gaps_between_them():
    log = log_of(batch(1, 1, 1), batch(1), batch(1, 1), batch(1, 1))
    log.replace(map(read_batch, [kept(1), kept(4, 5), kept(last=7)]), 4)
    assert (log.start, log.end) == (0, 8)
    assert log.size == len(kept(1)) + len(kept(4, 5)) + len(kept(last=7))
    for offset, first in ((0, 1), (1, 1), (2, 4), (3, 4), (5, 4), (6, 7), (7, 7)):
        assert offsets(log.read(offset, 1, at_least_one=True)) == [first]
    assert log.read(8, 1, at_least_one=True) == b""
    assert log.append(read_batch(batch(1)), 0) == 8


@pytest.mark.parametrize("batches", [[], [kept(0)], [kept(0), kept(9)]])
def test_replaced_batches_end_where_the_log_ends(batches):
    log = log_of(batch(1, 1, 1))
    with pytest.raises(ValueError, match="a log that ends at 3"):
        log.replace(map(read_batch, batches), 1)
    assert offsets(log.read(0, 1_000, at_least_one=True)) == [0]


class Heard:
    """A copy that remembers what it was told."""

    def __init__(self) -> None:
        self.told = []

    def appended(self, stored: Any, leader_epoch: int) -> None:
        self.told.append(("appended", stored.base_offset, leader_epoch))

    def cut(self, start: int) -> None:
        self.told.append(("cut", start))

    def replaced(self, batches: Any) -> None:
        self.told.append(("replaced", [stored.base_offset for stored in batches]))


def test_a_copy_hears_of_every_change_once():
    log = PartitionLog(copy := Heard())
    for _ in range(3):
        log.append(read_batch(batch(1, 1)), 4)
    log.delete_before(3)
    log.delete_before(3)
    log.delete_before(1)
    log.replace([read_batch(kept(last=5))], 2)
    assert copy.told == [("appended", 0, 4), ("appended", 2, 4), ("appended", 4, 4), ("cut", 3), ("replaced", [5])]


def test_a_log_that_is_put_back():
    log = PartitionLog(copy := Heard())
    log.put_back([read_batch(data) for data in (kept(2), kept(3, 4))], 2, 7)
    assert copy.told == []
    assert (log.start, log.end) == (2, 7)
    assert offsets(log.read(2, 1_000, at_least_one=True)) == [2, 3]
    assert log.append(read_batch(batch(1)), 0) == 7
