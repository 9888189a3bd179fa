from __future__ import annotations

import struct
from collections import Counter

import pytest

from kwire.anonymize.pseudonyms import Pseudonyms
from kwire.anonymize.records import CUT, UNREADABLE, Batches
from kwire.records import Record, build_batch, build_message_set, compression, read
from kwire.records.batch import COUNT_AT
from kwire.records.control import ControlType, build_marker

NAMES = Pseudonyms(b"a key for these tests")
RECORDS = [
    Record(key=b"key", value=b"a value that is longer than sixteen bytes", timestamp=1_000, offset=7),
    Record(key=None, value=None, timestamp=900, offset=9, headers=[("trace", b"12"), ("empty", None)]),
]
PLAIN = [Record(key=record.key, value=record.value, timestamp=record.timestamp) for record in RECORDS]


def replaced(data: bytes) -> tuple[bytes, Counter[str]]:
    dropped: Counter[str] = Counter()
    return Batches(NAMES, dropped).replace(data), +dropped


@pytest.mark.parametrize("codec", compression.NAMES)
def test_batches_keep_everything_but_the_contents(codec: int) -> None:
    data = build_batch(
        RECORDS, codec=codec, keep_offsets=True, leader_epoch=3, producer_id=5, producer_epoch=1, base_sequence=2
    )
    new, dropped = replaced(data)
    (before,), (after,) = read(data), read(new)
    assert not dropped
    assert after.crc_is_right()
    assert len(new) == len(data) or codec
    names = ("base_offset", "last_offset", "attributes", "max_timestamp", "producer_id", "base_sequence", "count")
    assert [getattr(after, name) for name in names] == [getattr(before, name) for name in names]
    for one, two in zip(RECORDS, after.records(), strict=True):
        assert (two.offset, two.timestamp) == (one.offset, one.timestamp)
        assert two.key == (None if one.key is None else NAMES.data(one.key))
        assert two.value == (None if one.value is None else NAMES.data(one.value))
        assert [name for name, _ in two.headers] == [NAMES.text(name) for name, _ in one.headers]


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 3)])
def test_message_sets_keep_offsets_and_compression(magic: int, codec: int) -> None:
    data = build_message_set(PLAIN, magic=magic, codec=codec, base_offset=40)
    new, dropped = replaced(data)
    assert not dropped
    before = [record for each in read(data) for record in each.records()]
    after = [record for each in read(new) for record in each.records()]
    assert [(record.offset, record.timestamp) for record in after] == [(r.offset, r.timestamp) for r in before]
    assert [record.key for record in after] == [NAMES.data(b"key"), None]
    assert {(each.magic, each.codec) for each in read(new)} == {(magic, codec)}


def test_markers_of_transactions_remain() -> None:
    marker = build_marker(ControlType.COMMIT, producer_id=1, producer_epoch=0, timestamp=5)
    assert replaced(marker) == (marker, {})


def test_damaged_batches_are_dropped_and_counted() -> None:
    whole = build_batch(PLAIN)
    broken = bytearray(build_batch(PLAIN))
    broken[61] = 0x7E  # the length of the first record
    assert replaced(whole + bytes(broken)) == (replaced(whole)[0], {UNREADABLE: 1})
    assert replaced(whole + whole[:-3]) == (replaced(whole)[0], {CUT: 1})


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_batch_with_a_negative_count_is_left_out(count: int) -> None:
    data = bytearray(build_batch(RECORDS))
    struct.pack_into(">i", data, COUNT_AT, count)
    assert replaced(bytes(data)) == (b"", {UNREADABLE: 1})
