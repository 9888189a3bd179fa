"""Malformed records, in batches of magic 2 and messages of magic 0 and 1."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from dataclasses import replace
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.counting import in_slices

from kwire.errors import CrcError, DecodeError, LimitError
from kwire.records import Batch, Message, Record, build_batch, build_message_set, read
from kwire.records.batch import HEADER, MAGIC_AT
from kwire.records.compression import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, decompress
from kwire.records.control import ControlType, build_marker
from mockbroker.faults import malformed_records
from mockbroker.faults.malformed import FORMS, LARGEST_BOMB, SMALLEST_BOMB, Number
from mockbroker.faults.malformed_records import FORMS as CHANGES
from mockbroker.faults.malformed_records import ZEROS

RECORDS = [
    Record(offset=7, timestamp=1_000, key=b"k1", value=b"first", headers=(("h", b"x"),)),
    Record(offset=9, timestamp=900, value=b""),
    Record(offset=10, timestamp=2_000, key=b"k2"),
    Record(offset=12, timestamp=2_000, value=b"last" * 100),
]
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)


def batch(codec: int = NONE, **more: Any) -> bytes:
    given = {"keep_offsets": True, "last_offset": 15, "leader_epoch": 3, "producer_id": 5, "producer_epoch": 1}
    return build_batch(RECORDS, codec=codec, **(given | {"base_sequence": 8, "transactional": True} | more))


def message_set(magic: int, codec: int = NONE, **more: Any) -> bytes:
    records = [replace(record, headers=()) for record in RECORDS]
    return build_message_set(records, magic=magic, codec=codec, keep_offsets=True, **more)


EVERY = {
    **{f"batch, {NAMES[codec]}": batch(codec) for codec in CODECS},
    "batch with log append time": batch(log_append_time=5_000),
    **{
        f"magic {magic}, {NAMES[codec]}": message_set(magic, codec)
        for magic in (0, 1)
        for codec in (NONE, GZIP, SNAPPY, LZ4)
    },
    "magic 1 with log append time": message_set(1, GZIP, log_append_time=5_000),
}
EVERY_FORMAT = pytest.mark.parametrize("records", EVERY.values(), ids=EVERY.keys())
NEXT = build_batch([Record(offset=16, value=b"next")], keep_offsets=True)
CUT = NEXT[:-1]
CONTROL = build_marker(ControlType.COMMIT, producer_id=5, producer_epoch=1, timestamp=1, base_offset=6)


def change(form: str, records: bytes, **numbers: int) -> bytes:
    return in_slices(CHANGES[form](records, **numbers))[1]


def values_of(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None, Any]]:
    """Return the content of all records of a field. Raises an exception if a batch is invalid."""
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for each in read(data)
        for record in each.records(limit=LARGEST_BOMB + 100)
    ]


@EVERY_FORMAT
def test_crc_is_wrong(records: bytes) -> None:
    changed = change("crc", records + NEXT + CUT, add=-1)
    first, *others = read(changed)
    (was, *_) = read(records)
    assert first.data != was.data
    assert not first.crc_is_right()
    assert all(each.crc_is_right() for each in others)
    with pytest.raises(CrcError):
        list(first.records())
    assert change("crc", changed, add=1) == records + NEXT + CUT
    assert change("crc", records, add=0) == records


@pytest.mark.parametrize(("add", "crc"), [(1, 0), (2**31 - 1, 2**31 - 2)])
def test_crc_wraps_around(add: int, crc: int) -> None:
    data = batch()
    data = data[:17] + b"\xff\xff\xff\xff" + data[21:]
    assert change("crc", data, add=add)[17:21] == struct.pack(">I", crc)


@EVERY_FORMAT
def test_magic_is_unknown(records: bytes) -> None:
    changed = change("magic", records + NEXT, value=99)
    with pytest.raises(DecodeError, match="magic is 99"):
        list(read(changed))
    (first, *_) = read(records)
    assert changed[:12] == records[:12]  # the offset and the length
    assert changed[16:] == b"\x63" + (records + NEXT)[17:]
    if isinstance(first, Message):  # the CRC covers the magic
        assert changed[12:16] == struct.pack(">I", zlib.crc32(changed[16 : len(first.data)]))
    else:
        assert changed[12:16] == records[12:16]
    assert change("magic", records, value=-128)[16] == 128


@EVERY_FORMAT
def test_record_count(records: bytes) -> None:
    changed = change("record_count", records + NEXT, value=2**31 - 1)
    first, *_ = read(records)
    if isinstance(first, Message):
        assert changed == records + NEXT
        return
    found, following = read(changed)
    assert found.count == 2**31 - 1
    assert found.crc_is_right()
    assert following.data == NEXT
    with pytest.raises(LimitError, match="2147483647 records"):
        list(found.records())
    assert change("record_count", changed, value=4) == records + NEXT


@EVERY_FORMAT
@pytest.mark.parametrize("size", [64, 65, 72, 8_000, 3 * len(ZEROS) + 5])
def test_bomb_is_valid(records: bytes, size: int) -> None:
    changed = change("decompression_bomb", records + NEXT + CUT, bytes=size)
    first, *_ = read(records)
    bomb, *others = read(changed)
    assert changed.startswith(bomb.data)
    assert changed.endswith((records + NEXT + CUT)[len(first.data) :])
    assert len(others) == len(list(read(records)))
    assert bomb.crc_is_right()
    assert bomb.codec == GZIP
    assert (bomb.magic, bomb.last_offset, bomb.max_timestamp) == (first.magic, first.last_offset, first.max_timestamp)
    (record,) = bomb.records(limit=size)
    assert record.value == bytes(len(record.value or b""))
    assert record.key is None
    if isinstance(bomb, Batch):
        assert isinstance(first, Batch)
        assert size - 2 <= len(decompress(GZIP, bomb.data[61:], limit=size)) <= size
        unchanged = dict.fromkeys(("data", "length", "crc", "attributes", "count"))
        assert replace(bomb, **unchanged) == replace(first, **unchanged)
        assert bomb.attributes & ~7 == first.attributes & ~7
        assert record.offset == first.base_offset
    else:
        assert len(record.value or b"") == size - {0: 26, 1: 34}[bomb.magic]
        assert record.offset == first.last_offset


def test_bomb_exceeds_the_limit_of_a_reader() -> None:
    default = FORMS["decompression_bomb"].parameters["bytes"]
    assert isinstance(default, Number)
    (bomb,) = read(change("decompression_bomb", batch(), bytes=default.default))
    with pytest.raises(LimitError, match="decompressed data exceeds the limit"):
        list(bomb.records())
    (record,) = bomb.records(limit=default.default)
    assert len(record.value or b"") > default.default - 100


def test_bomb_is_never_in_memory() -> None:
    tracemalloc.start()
    try:
        bomb = change("decompression_bomb", batch(), bytes=LARGEST_BOMB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(bomb) < LARGEST_BOMB / 900
    assert peak < 16 * len(ZEROS)


@given(st.integers(SMALLEST_BOMB, 20_000))
def test_record_of_a_bomb_is_the_largest_that_fits(size: int) -> None:
    (bomb,) = read(change("decompression_bomb", batch(), bytes=size))
    assert size - 2 <= len(decompress(GZIP, bomb.data[61:])) <= size
    assert len(list(bomb.records())) == 1


@EVERY_FORMAT
def test_values_are_inverted(records: bytes) -> None:
    changed = change("corrupt_values", CONTROL + records + NEXT + CUT)
    before, after = values_of(CONTROL + records + NEXT), values_of(changed)
    assert [(*each[:3], each[4]) for each in after] == [(*each[:3], each[4]) for each in before]
    values = [each[3] for each in before]
    expected = [None if value is None else bytes(byte ^ 0xFF for byte in value) for value in values]
    assert [each[3] for each in after][1:] == expected[1:]
    assert after[0] == before[0]  # the control record
    assert changed.endswith(CUT)
    assert values_of(change("corrupt_values", changed)) == before


@EVERY_FORMAT
def test_values_begin_with_a_schema_id(records: bytes) -> None:
    changed = change("schema_id", CONTROL + records + NEXT + CUT, id=7)
    before, after = values_of(CONTROL + records + NEXT), values_of(changed)
    assert [(*each[:3], each[4]) for each in after] == [(*each[:3], each[4]) for each in before]
    expected = [None if each[3] is None else b"\0\0\0\0\x07" + each[3] for each in before[1:]]
    assert [each[3] for each in after[1:]] == expected
    assert after[0] == before[0]  # the control record
    again = change("schema_id", changed, id=8)
    assert [each[3] for each in values_of(again)[1:]] == [
        None if value is None else b"\0\0\0\0\x08" + value[5:] for value in expected
    ]


RAW_SNAPPY = malformed_records._rebuilt(
    next(each for each in read(batch(SNAPPY)) if isinstance(each, Batch)),
    body=bytes(cramjam.snappy.compress_raw(batch()[HEADER.size :])),
)
ONE_PIECE = {
    "lz4": batch(LZ4),
    "zstd": batch(ZSTD),
    "raw snappy": RAW_SNAPPY,
    "message set in gzip": message_set(1, GZIP),
    "message set in snappy": message_set(0, SNAPPY),
}
IN_PIECES = {"gzip": batch(GZIP), "snappy": batch(SNAPPY), "not compressed": batch(), "message set": message_set(1)}


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malformed_records, "LARGEST_PIECE", 300)
    monkeypatch.setattr(malformed_records, "LARGEST_MESSAGE_SET", 300)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("records", ONE_PIECE.values(), ids=ONE_PIECE.keys())
def test_large_batch_in_one_piece_is_unchanged(records: bytes, caplog: pytest.LogCaptureFixture) -> None:
    changed = change("corrupt_values", records + NEXT)
    assert changed.startswith(records)
    assert changed[len(records) :] == change("corrupt_values", NEXT) != NEXT
    (message,) = caplog.messages
    last = 12 if records[MAGIC_AT] < 2 else 15
    assert message.startswith(f"a malform rule leaves the batch that ends at offset {last} unchanged: ")
    assert message.endswith("decompressed data exceeds the limit of 300 bytes")


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("records", IN_PIECES.values(), ids=IN_PIECES.keys())
def test_large_batch_in_small_pieces_is_changed(records: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert change("corrupt_values", records) != records
    assert caplog.messages == []


@pytest.mark.parametrize("records", ONE_PIECE.values(), ids=ONE_PIECE.keys())
def test_small_batch_in_one_piece_is_changed(records: bytes) -> None:
    assert change("corrupt_values", records) != records


def test_corrupted_batch_has_the_same_header() -> None:
    records = batch(log_append_time=5_000)
    (before,), (after,) = read(records), read(change("corrupt_values", records))
    assert isinstance(before, Batch)
    assert isinstance(after, Batch)
    assert len(after.data) == len(before.data)
    assert replace(after, data=b"", crc=0) == replace(before, data=b"", crc=0)


WITHOUT_VALUES = {
    "tombstones": build_batch([Record(key=b"k"), Record(key=b"l", value=b"")]),
    "no records": build_batch([], base_offset=4, last_offset=6),
    "control batch": CONTROL,
    "unreadable records": change("record_count", batch(), value=9),
}


@pytest.mark.parametrize("records", WITHOUT_VALUES.values(), ids=WITHOUT_VALUES.keys())
def test_batch_without_values_is_not_corrupted(records: bytes) -> None:
    assert change("corrupt_values", records) == records


def test_bomb_replaces_the_first_batch_with_data() -> None:
    changed = change("decompression_bomb", CONTROL + batch() + NEXT, bytes=100)
    control, bomb, following = read(changed)
    assert (control.data, following.data) == (CONTROL, NEXT)
    assert bomb.base_offset == 7
    assert change("decompression_bomb", CONTROL, bytes=100) == CONTROL


@EVERY_FORMAT
@pytest.mark.parametrize("count", [1, 3])
def test_duplicates_follow_the_originals(records: bytes, count: int) -> None:
    assert change("duplicate_records", records + NEXT, count=count) == (records + NEXT) * (1 + count)
    assert change("duplicate_records", records + CUT, count=count) == records * (1 + count) + CUT


@pytest.mark.parametrize("form", malformed_records.FORMS)
@pytest.mark.parametrize("records", [b"", CUT, bytes(100), b"\xff" * 100], ids=["empty", "cut", "zeros", "ones"])
def test_no_complete_batch(form: str, records: bytes) -> None:
    numbers = {name: each.default for name, each in FORMS[form].parameters.items() if isinstance(each, Number)}
    assert change(form, records, **numbers) == records


def test_every_form_of_records_is_implemented() -> None:
    assert malformed_records.FORMS.keys() == {form for form, details in FORMS.items() if details.part == "records"}
    assert malformed_records.FORMS.keys() > malformed_records.OF_ALL_PARTITIONS
