"""The two readers of a record agree, and the careful one reports the error and its place."""

from __future__ import annotations

import re
import tracemalloc
from array import array
from contextlib import suppress
from dataclasses import replace
from itertools import chain, product
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire.errors import DecodeError, EncodeError, LimitError, Truncated
from kwire.records import build_batch, build_message_set
from kwire.records import read as read_records_field
from kwire.records import record as module
from kwire.records.limits import MAX_HEADERS, RECORDS_AT_ONCE
from kwire.records.record import Headers, Record, _read_carefully, read_records, write_records

INT64 = st.integers(-(2**63), 2**63 - 1)
SIZES = st.sampled_from([0, 1, 62, 63, 64, 65, 127, 128, 4095, 4096, 8191, 8192, 8193])
BYTES = st.none() | st.binary(max_size=10) | SIZES.map(bytes)
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=INT64 | st.integers(-10_000, 10_000),
        key=BYTES,
        value=BYTES,
        headers=st.lists(st.tuples(st.text(max_size=5) | st.just("x" * 64), BYTES), max_size=3),
    ),
    min_size=1,
    max_size=5,
)


def read(data: bytes, count: int, base_offset: int = 0, base_timestamp: int = 0) -> list[Record]:
    return list(chain.from_iterable(read_records(data, 0, count, base_offset, base_timestamp, None, Record)))


def read_carefully(data: bytes, count: int, base_offset: int = 0, base_timestamp: int = 0) -> list[Record]:
    found, at = [], 0
    for number in range(count):
        record, at = _read_carefully(data, at, number, base_offset, base_timestamp, Record)
        found.append(record)
    if at != len(data):
        raise DecodeError("bytes behind")
    return found


@given(records=RECORDS, base_offset=st.integers(0, 2**62), base_timestamp=INT64)
def test_round_trip(records: list[Record], base_offset: int, base_timestamp: int) -> None:
    data = write_records(records, None, base_timestamp)
    expected = [replace(each, offset=base_offset + number) for number, each in enumerate(records)]
    assert read(data, len(records), base_offset, base_timestamp) == expected
    assert read_carefully(data, len(records), base_offset, base_timestamp) == expected


@given(records=RECORDS, changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3))
@example([Record(value=b"v")], [(0, 0x0D)])  # a length of -7
@example([Record(value=b"v")], [(3, 0x01)])  # an offset of -1
@example([Record(value=b"v" * 70)], [(0, 0x9B)])
def test_both_readers_agree(records: list[Record], changes: list[tuple[int, int]]) -> None:
    data = bytearray(write_records(records, None, 0))
    for at, byte in changes:
        data[at % len(data)] = byte
    answers = []
    for reader in (read, read_carefully):
        try:
            answers.append(reader(bytes(data), len(records)))
        except DecodeError as error:
            answers.append([type(error)])
    assert answers[0] == answers[1]


def test_records_are_read_in_chunks() -> None:
    assert RECORDS_AT_ONCE == 256
    records = [Record(value=b"v", timestamp=n) for n in range(3 * RECORDS_AT_ONCE + 1)]
    parts = list(read_records(write_records(records, None, 0), 0, len(records), 0, 0, None, Record))
    assert [len(part) for part in parts] == [RECORDS_AT_ONCE] * 3 + [1]
    assert [each.offset for part in parts for each in part] == list(range(len(records)))


@pytest.mark.parametrize("count", [module._SHORT, module._SHORT + 2, 8194])
def test_more_records_than_there_are_short_varints(count: int) -> None:
    records = [Record(key=b"k")] * count
    assert [each.offset for each in read(write_records(records, None, 0), len(records))] == list(range(len(records)))


@pytest.mark.parametrize("base_timestamp", [0, 2**62])
def test_first_record_to_read_is_not_that_of_the_batch(base_timestamp: int) -> None:
    """The native engine reads the records before it. Errors count from the first record of the batch."""
    records = [Record(offset=n, timestamp=base_timestamp, value=b"v") for n in range(5)]
    data = write_records(records, None, base_timestamp)
    at = 3 * len(data) // 5
    reader = read_records(data, at, 5, 0, base_timestamp, None, Record, first=3)
    assert list(chain.from_iterable(reader)) == records[3:]
    with pytest.raises(Truncated, match=r"records\[4\]"):
        list(read_records(data[:-1], at, 5, 0, base_timestamp, None, Record, first=3))


def test_records_before_a_malformed_one_are_read() -> None:
    data = write_records([Record(value=b"v")] * 5, None, 0)
    reader = chain.from_iterable(read_records(data[:-3], 0, 5, 0, 0, None, Record))
    assert [next(reader).offset for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(Truncated, match=r"records\[4\]"):
        next(reader)


OFFSETS = [0, 63, 64, 8191, 8192, 2**20, 2**31 - 1]
STAMPS = [0, 1, -1, 63, -64, -65, 8191, 8192, -8193, 10**6, -(10**6), 2**40, 2**54, 2**56, -(2**56), 2**62, -(2**62)]


@pytest.mark.parametrize("timestamp", STAMPS)
@pytest.mark.parametrize("size", [0, 70])
def test_varints_of_every_length(timestamp: int, size: int) -> None:
    records = [Record(offset=offset, timestamp=timestamp, value=bytes(size)) for offset in OFFSETS]
    data = write_records(records, OFFSETS, 0)
    assert read(data, len(records)) == read_carefully(data, len(records)) == records


USUAL = [  # key, value, headers: of records whose length has two bytes at most
    (None, None, ()),
    (b"", b"", ()),
    (b"k" * 63, b"v" * 63, (("h", None),)),
    (b"k" * 64, b"v" * 64, (("h" * 63, b""), ("h", b"v" * 63))),
    (b"k" * 130, b"v" * 8_000, ()),
    (b"k" * 5_000, b"v" * 3_000, (("", b"v" * 64),)),
    (b"k", None, (("h", b"v" * 8_000), ("h", b"v"))),
    (None, b"v", (("", None),) * 63),
    (b"k" * 65, b"v" * 129, (("h", b"v" * 65), ("h", b"v" * 7_801))),
    (b"k" * 8_100, b"v" * 65, ()),
]
PLACES = [  # offset, timestamp: varints of each length, with every bit set and with the last one only
    *product((0, 63, 64, 8191, 8192, 2**20, 2**31 - 1), (0, 63, -64, 64, 65, 8191, -8192, 8192, 2**40)),
    (0, 2**55 - 1),
]


@pytest.mark.parametrize(("key", "value", "headers"), USUAL, ids=range(len(USUAL)))
def test_usual_records_are_read_on_the_fast_path(
    key: bytes | None, value: bytes | None, headers: Headers, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        Record(offset=offset, timestamp=timestamp, key=key, value=value, headers=headers)
        for offset, timestamp in PLACES
    ]
    data = write_records(records, [offset for offset, _ in PLACES], 0)
    careful = MagicMock(side_effect=_read_carefully)
    monkeypatch.setattr(module, "_read_carefully", careful)
    assert read(data, len(records)) == records
    careful.assert_not_called()


@pytest.mark.parametrize("field", ["key", "value", "headers", "timestamp"])
def test_each_length_is_read_on_the_fast_path(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(300)
    values = {
        "key": map(bytes, numbers),
        "value": map(bytes, numbers),
        "headers": ((("h" * (number % 64), bytes(number)),) for number in numbers),
        "timestamp": (number * sign for number in numbers for sign in (1, -1)),
    }
    records = [Record(offset=offset, **{field: value}) for offset, value in enumerate(values[field])]
    data = write_records(records, None, 0)
    monkeypatch.setattr(module, "_read_carefully", MagicMock(side_effect=AssertionError))
    assert read(data, len(records)) == records


@pytest.mark.parametrize(("headers", "steps"), [(63, [2]), (64, [1, 1])])
def test_record_with_more_than_63_headers_ends_a_step(headers: int, steps: list[int]) -> None:
    unusual = [("h" * 64, None), *[("h", None)] * (headers - 1)]
    data = write_records([Record(headers=unusual), Record(value=b"v")], None, 0)
    assert [len(some) for some in read_records(data, 0, 2, 0, 0, None, Record)] == steps


def test_memoryviews_are_not_copied() -> None:
    data = memoryview(write_records([Record(key=b"k", value=b"v" * 100, headers=[("h", b"1")])] * 2, None, 0))
    for record in read(data, 2):  # type: ignore[arg-type]
        assert isinstance(record.key, memoryview)
        assert isinstance(record.value, memoryview)
        assert record == Record(offset=record.offset, key=b"k", value=b"v" * 100, headers=[("h", b"1")])


def test_one_time_for_all() -> None:
    data = write_records([Record(timestamp=5), Record(timestamp=9)], None, 5)
    (records,) = read_records(data, 0, 2, 0, 5, 777, Record)
    assert [each.timestamp for each in records] == [777, 777]


def test_one_time_for_the_records_before_a_malformed_one() -> None:
    data = write_records([Record(timestamp=3), Record()], None, 0)[:-1]
    found: list[Record] = []
    with suppress(DecodeError):
        found += chain.from_iterable(read_records(data, 0, 2, 0, 0, 7, Record))
    assert [record.timestamp for record in found] == [7]


def test_a_record_whose_last_header_is_cut_off_is_not_read() -> None:
    data = write_records([Record(), Record(headers=[("k", b"value")])], None, 0)[:-2]
    found: list[Record] = []
    with pytest.raises(Truncated, match="a record has 14 bytes, but only 12 remain"):
        found.extend(chain.from_iterable(read_records(data, 0, 2, 0, 0, None, Record)))
    assert found == [Record()]


def test_an_offset_has_at_most_five_bytes() -> None:
    body = bytes.fromhex("00 02 80 80 80 80 80 00 01 01 00")
    with pytest.raises(LimitError, match="a varint is longer than the limit of 5 bytes"):
        read(bytes([2 * len(body)]) + body, 1)


@pytest.mark.parametrize(("delta", "base"), [(1, 2**63 - 1), (2**31 - 1, 2**63 - 2**31 + 1)])
def test_small_deltas_wrap_as_in_java(delta: int, base: int) -> None:
    data = write_records([Record(timestamp=delta)], [delta], 0)
    (record,) = read(data, 1, base, base)
    assert (record.timestamp, record.offset) == (-(2**63), -(2**63))
    assert read(data, 1, base, 0) == [Record(timestamp=delta, offset=-(2**63))]
    assert read(data, 1, 0, base) == [Record(timestamp=-(2**63), offset=delta)]
    data = write_records([Record(timestamp=-delta)], [0], 0)
    assert read(data, 1, 0, -base - 1) == [Record(timestamp=-base - 1 - delta + 2**64)]


def test_bits_beyond_32_of_an_offset_are_dropped() -> None:
    """As in Kafka's ByteUtils.readVarint: the fifth byte adds four bits."""
    body = bytes.fromhex("00" + "00" + "ffffffff7f" + "0101" + "00")
    (record,) = read(bytes([2 * len(body)]) + body, 1)
    assert record.offset == -(2**31)


def test_sums_wrap_as_in_java() -> None:
    data = bytes.fromhex("1e" + "00" + "feffffffffffffffff01" + "02" + "0101" + "00")
    (record,) = read(data, 1, 2**63 - 1, 2**63 - 1)
    assert (record.timestamp, record.offset) == (-2, -(2**63))


def test_records_are_equal_by_value() -> None:
    assert Record(headers=[("h", b"")]) == Record(headers=(("h", b""),))
    assert Record(key=b"") != Record(key=None)
    assert Record() != "record"
    assert replace(Record(key=b"k"), offset=3) == Record(offset=3, key=b"k")
    assert repr(Record(key=b"k")) == "Record(offset=0, timestamp=0, key=b'k', value=None, headers=())"


HEAD = "000000"  # attributes, timestamp, offset
FIELDS = HEAD + "0101" + "00"
BODIES: list[tuple[str, int, str, type[DecodeError], str]] = [  # input, count, body, error, text
    ("no bytes", 1, "", Truncated, "byte 0, records[0]: the data ends inside a varint"),
    ("longer than what is left", 1, "10" + "00", Truncated, "byte 0, records[0]: a record has 8 bytes, but only 1 remain"),
    ("negative length", 1, "01", Truncated, "byte 0, records[0]: a record has -1 bytes, but only 0 remain"),
    ("negative length of the right size", 1, "0d" + HEAD + "010200", Truncated, "byte 0, records[0]: a record has -7 bytes, but only 6 remain"),
    ("timestamp that does not end", 1, "0600" + "ffff", Truncated, "byte 2, records[0].timestamp: the data ends inside a varint"),
    ("offset of 6 bytes", 1, "14" + "0000" + "ff" * 6 + "0001", LimitError, "byte 3, records[0].offset: a varint is longer than the limit of 5 bytes"),
    ("key longer than what is left", 1, "0c" + HEAD + "7e" + "0000", Truncated, "byte 4, records[0].key: expected 63 bytes, found 2"),
    ("value longer than what is left", 1, "0c" + HEAD + "01" + "7e" + "00", Truncated, "byte 5, records[0].value: expected 63 bytes, found 1"),
    ("header count too large", 1, "0c" + HEAD + "0101" + "7e", LimitError, "byte 6, records[0].headers: 63 headers do not fit into 0 bytes"),
    ("header count negative", 1, "0c" + HEAD + "0101" + "01", LimitError, "byte 6, records[0].headers: -1 headers do not fit into 0 bytes"),
    ("header count above the bytes", 1, "10" + HEAD + "0101" + "04" + "0001", LimitError, "byte 6, records[0].headers: 2 headers do not fit into 2 bytes"),
    ("header without a key", 1, "10" + HEAD + "0101" + "02" + "01" + "00", DecodeError, "byte 7, records[0].headers[0].key: the key of a header is null, but Kafka requires a string"),
    ("header value too long", 1, "10" + HEAD + "0101" + "02" + "00" + "7e", Truncated, "byte 8, records[0].headers[0].value: expected 63 bytes, found 0"),
    ("longer than its fields", 1, "0e" + FIELDS + "00", DecodeError, "byte 0, records[0]: the length of the record is 7, but its fields take 6 bytes"),
    ("shorter than its fields", 1, "0a" + FIELDS, DecodeError, "byte 0, records[0]: the length of the record is 5, but its fields take 6 bytes"),
    ("varint of 11 bytes", 1, "ff" * 11, LimitError, "byte 0, records[0]: a varint is longer than the limit of 5 bytes"),
    ("timestamp of 11 bytes", 1, "2000" + "ff" * 11 + "00" * 4, LimitError, "byte 2, records[0].timestamp: a varint is longer than the limit of 10 bytes"),
    ("negative count", -1, "", DecodeError, "byte 0, count: the record count -1 is negative"),
    ("one more than counted", 0, "0c" + FIELDS, DecodeError, "byte 0: 7 trailing bytes after the last record"),
    ("one less than counted", 2, "0c" + FIELDS, Truncated, "byte 7, records[1]: the data ends inside a varint"),
    ("the second is broken", 2, "0c" + FIELDS + "0c" + "000002" + "01", Truncated, "byte 7, records[1]: a record has 6 bytes, but only 4 remain"),
]  # fmt: skip


@pytest.mark.parametrize(("count", "body", "kind", "text"), [r[1:] for r in BODIES], ids=[r[0] for r in BODIES])
def test_bad_records(count: int, body: str, kind: type[DecodeError], text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(bytes.fromhex(body), count)
    assert type(caught.value) is kind
    assert str(caught.value) == f"RecordBatch at {text}"


LENIENT = [  # input, body, the decoded record
    ("overlong zero", "0e" + "00" + "8000" + "00" + "0101" + "00", Record()),
    ("other negative lengths are null", "0c" + HEAD + "0303" + "00", Record()),
    ("attributes", "0c" + "ff0000" + "0101" + "00", Record()),
    ("negative offset", "0c" + "000005" + "0101" + "00", Record(offset=-3)),
    ("negative offset of two bytes", "0e" + "0000" + "ff7f" + "0101" + "00", Record(offset=-8192)),
    ("negative offset of three bytes", "10" + "0000" + "818001" + "0101" + "00", Record(offset=-8193)),
    ("null header value", "12" + HEAD + "0101" + "02" + "0268" + "01", Record(headers=[("h", None)])),
    ("negative header value", "12" + HEAD + "0101" + "02" + "0268" + "03", Record(headers=[("h", None)])),
    ("header key that is not UTF-8", "12" + HEAD + "0101" + "02" + "02ff" + "00", Record(headers=[("\udcff", b"")])),
]


@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in LENIENT], ids=[row[0] for row in LENIENT])
def test_records_that_kafka_accepts(body: str, expected: Record) -> None:
    assert read(bytes.fromhex(body), 1) == [expected]
    assert read(bytes.fromhex(body + "0c" + FIELDS) + bytes(0), 2)[0] == expected  # not at the end


@pytest.mark.parametrize("count", [62, 63, 64, 65, 8191, 8192, 8193])
def test_number_of_headers(count: int) -> None:
    records = [Record(headers=[("h", b"")] * count), Record(offset=1)]
    assert read(write_records(records, None, 0), 2) == records


def test_headers_are_limited() -> None:
    most = Record(headers=[("", None)] * MAX_HEADERS)
    assert read(write_records([most], None, 0), 1) == [most]
    with pytest.raises(LimitError, match=f"{MAX_HEADERS + 1} headers exceed the limit of {MAX_HEADERS}"):
        read(write_records([Record(headers=[("", None)] * (MAX_HEADERS + 1))], None, 0), 1)


def test_many_headers_are_not_decoded_ahead() -> None:
    records = [Record(headers=[("", None)] * 2_000)] * 20
    data = write_records(records, None, 0)
    tracemalloc.start()
    for record in chain.from_iterable(read_records(data, 0, 20, 0, 0, None, Record)):
        assert len(record.headers) == 2_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 600_000


@pytest.mark.parametrize("delta", [2**31, -(2**31)])
def test_an_offset_too_far(delta: int) -> None:
    with pytest.raises(EncodeError, match="an offset delta of"):
        write_records([Record()], [delta], 0)
    assert read(write_records([Record()], [2**31 - 1], 0), 1) == [Record(offset=2**31 - 1)]


def test_header_key_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(EncodeError, match=r"'.ud800' cannot be encoded"):
        write_records([Record(headers=[("\ud800", b"")])], None, 0)


@given(data=st.binary(max_size=40), count=st.integers(0, 5))
def test_noise(data: bytes, count: int) -> None:
    with suppress(DecodeError):
        read(data, count)


@pytest.mark.parametrize(("headers", "lengths"), [(63, [2]), (64, [1, 1])])
def test_record_with_more_than_63_headers_ends_a_chunk(headers: int, lengths: list[int]) -> None:
    data = write_records([Record(headers=[("h", None)] * headers)] * 2, None, 0)
    assert [len(part) for part in read_records(data, 0, 2, 0, 0, None, Record)] == lengths


@pytest.mark.parametrize("base_timestamp", [0, 2**62])
def test_error_names_the_record_for_any_base_timestamp(base_timestamp: int) -> None:
    data = write_records([Record(value=b"v", timestamp=base_timestamp)] * 3, None, base_timestamp)
    with pytest.raises(DecodeError, match=r"records\[2\]\.headers: 1 headers do not fit into 0 bytes"):
        read(data[:-1] + b"\x02", 3, 0, base_timestamp)


def test_long_header_key_is_not_read_as_a_short_one() -> None:
    # The low byte of the first key's length alone means 0. The bytes after it are then two headers of the same size.
    headers = (("|" + 62 * "x" + "\x06", None), ("", None))
    data = write_records([Record(headers=headers)], None, 0)
    assert read(data, 1)[0].headers == read_carefully(data, 1)[0].headers == headers


@pytest.mark.parametrize(
    "other",
    [{"offset": 2}, {"timestamp": 2}, {"key": b"x"}, {"value": b"x"}, {"value": None}, {"headers": [("x", b"")]}],
)
def test_records_that_differ_in_one_field_are_not_equal(other: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"offset": 1, "timestamp": 1, "key": b"k", "value": b"v", "headers": [("h", b"1")]}
    assert Record(**fields) == Record(**fields)
    assert Record(**fields) != Record(**fields | other)


def test_offset_of_five_bytes_has_32_bits() -> None:
    """ByteUtils.readVarint drops the higher bits."""
    for varint, delta in (("8080808010", 0), ("8280808010", 1), ("feffffff0f", 2**31 - 1)):
        body = "00" + "00" + varint + "0101" + "00"
        data = bytes([len(bytes.fromhex(body)) * 2]) + bytes.fromhex(body)
        (record,) = read(data, 1, 10, 0)
        assert record.offset == 10 + delta


AMBIGUOUS: list[Headers] = [  # a length of two bytes whose bytes would also be the start of other valid headers
    (("|" + "a" * 62 + "\x06", None), ("", None)),
    (("\udc82\x04", None), *[("", None)] * 128),
]


@pytest.mark.parametrize("headers", AMBIGUOUS, ids=["key of 64 bytes", "many headers"])
def test_long_lengths_in_headers_are_read_as_such(headers: Headers) -> None:
    records = [Record(value=b"v", headers=headers)]
    assert read(write_records(records, None, 0), 1) == records


class Native:
    """A native reader that decodes at most ``usual`` records of each call, and leaves the next one to Python.

    Attributes:
        usual: maximum number of records of a call.
        most: number of records that each call allows.
    """

    def __init__(self, usual: int) -> None:
        self.usual = usual
        self.most: list[int] = []

    def read(self, data: bytes, at: int, most: int, *base: int) -> tuple[list[Record], int]:
        self.most.append(most)
        found: list[Record] = []
        with suppress(DecodeError):
            while len(found) < min(most, self.usual):
                record, at = _read_carefully(data, at, -1, *base, Record)
                found.append(record)
        return found, at


USUAL_OF_NATIVE = [(1_000, [256, 256, 1]), (200, [256, 256, 111]), (0, [256] * 258 + list(range(255, 0, -1)))]


@pytest.mark.parametrize(("usual", "most"), USUAL_OF_NATIVE)
def test_python_decodes_what_the_native_reader_leaves(
    monkeypatch: pytest.MonkeyPatch, usual: int, most: list[int]
) -> None:
    native = Native(usual)
    monkeypatch.setattr(module, "records_of", lambda _: native)
    records = [Record(offset=7 + n, timestamp=5, value=b"v") for n in range(513)]
    data = write_records(records, None, 5)
    assert read(data, 513, 7, 5) == records
    assert native.most == most
    with pytest.raises(DecodeError, match=r"records\[512\]"):
        read(data[:-1], 513, 7, 5)


def test_memoryviews_are_not_read_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    native = Native(1)
    monkeypatch.setattr(module, "records_of", lambda _: native)
    data = write_records([Record(value=b"v")], None, 0)
    assert read(memoryview(data), 1) == [Record(value=b"v")]  # type: ignore[arg-type]
    assert native.most == []
    assert read(data, 1) == [Record(value=b"v")]
    assert native.most == [1]


def test_short_varints_are_taken_from_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = MagicMock(side_effect=module.varint)
    monkeypatch.setattr(module, "varint", encoded)
    monkeypatch.setattr(module, "written_natively", lambda *_: None)
    largest = module._SHORT - 1
    records = [
        Record(timestamp=stamp, key=b"", value=bytes(size)) for stamp in (0, largest) for size in (0, largest - 8)
    ]
    records += [Record(key=bytes(largest - 8), value=b""), Record(headers=[("", b"")] * 2)]
    write_records(records, None, 0)
    assert [call.args for call in encoded.call_args_list] == [(0,)]  # the length of the header key


LARGEST_OF_TABLE = module._SHORT - 1


@pytest.mark.parametrize("size", [LARGEST_OF_TABLE, LARGEST_OF_TABLE + 1, LARGEST_OF_TABLE + 2])
@pytest.mark.parametrize("field", ["key", "value", "header key", "header value", "headers", "timestamp", "length"])
def test_numbers_around_the_end_of_the_table_are_written(field: str, size: int) -> None:
    fields: dict[str, dict[str, Any]] = {
        "key": {"key": bytes(size)},
        "value": {"value": bytes(size)},
        "header key": {"headers": [("h" * size, None)]},
        "header value": {"headers": [("h", bytes(size))]},
        "headers": {"headers": [("", None)] * size},
        "timestamp": {"timestamp": size},
    }
    lengths = [{"value": bytes(size - around)} for around in range(6, 12)]
    lengths += [{"key": bytes(size - around)} for around in range(6, 12)]
    records = [Record(**each) for each in (lengths if field == "length" else [fields[field]])]
    for offset, record in enumerate(records):
        record.offset = offset
    assert read_carefully(write_records(records, None, 0), len(records)) == records


def test_record_of_length_0_is_not_truncated() -> None:
    with pytest.raises(DecodeError, match=r"the length of the record is 0, but its fields take 6 bytes") as caught:
        read(bytes(20), 1)
    assert not isinstance(caught.value, Truncated)


@pytest.mark.parametrize(("data", "field"), [("0e0000000a6b6b6b", "key"), ("0e000000010a7676", "value")])
def test_field_beyond_the_end_of_the_data_is_named(data: str, field: str) -> None:
    with pytest.raises(Truncated, match=r"expected 5 bytes, found [23]") as caught:
        read(bytes.fromhex(data), 1)
    assert caught.value.path == f"records[0].{field}"


@pytest.mark.parametrize("field", ["key", "value", "header"])
@pytest.mark.parametrize(
    "view",
    [memoryview(array("i", [1, 2])), memoryview(b"abcd")[::2], memoryview(b"abcd").cast("B", (2, 2))],
    ids=["of integers", "with gaps", "of two dimensions"],
)
def test_memoryview_is_written_as_its_bytes(field: str, view: memoryview) -> None:
    record = Record(headers=[("h", view)]) if field == "header" else Record(**{field: view})  # type: ignore
    (written,) = read(write_records([record], None, 0), 1)
    assert (written.headers[0][1] if field == "header" else getattr(written, field)) == view.tobytes()


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ("v", "records[1]: expected Record, got str"),
        (Record(key="k"), "records[1].key: expected bytes, got str"),  # type: ignore[arg-type]
        (Record(value="v"), "records[1].value: expected bytes, got str"),  # type: ignore[arg-type]
        (Record(value=array("i", [1])), "records[1].value: expected bytes, got array"),  # type: ignore[arg-type]
        (Record(timestamp=1.5), "records[1].timestamp: expected int, got float"),  # type: ignore[arg-type]
        (Record(timestamp=None), "records[1].timestamp: expected int, got NoneType"),  # type: ignore[arg-type]
        (Record(headers={"h": b"1"}), "records[1].headers: expected tuple, got dict"),  # type: ignore[arg-type]
        (Record(headers=[("h", b"1", 2)]), "records[1].headers[0]: expected a key and a value, got 3 elements"),  # type: ignore[list-item]
        (Record(headers=[(b"h", b"1")]), "records[1].headers[0].key: expected str, got bytes"),  # type: ignore[list-item]
        (Record(headers=[("h", "1")]), "records[1].headers[0].value: expected bytes, got str"),  # type: ignore[list-item]
    ],
)
def test_value_of_the_wrong_type_is_named(record: Record, text: str) -> None:
    with pytest.raises(EncodeError, match=rf"^RecordBatch, {re.escape(text)}$"):
        build_batch([Record(), record])
    with pytest.raises(EncodeError, match=rf"^RecordBatch, {re.escape(text)}$"):
        build_batch([Record(), record], codec=1, keep_offsets=True)


def test_value_of_the_wrong_type_in_a_message_set_is_named() -> None:
    with pytest.raises(EncodeError, match=r"^Message, records\[1\].value: expected bytes, got str$"):
        build_message_set([Record(), Record(value="v")])  # type: ignore[arg-type]
    view = memoryview(array("i", [1, 2]))
    (message,) = read_records_field(build_message_set([Record(key=view)]))  # type: ignore[arg-type]
    assert [record.key for record in message.records()] == [view.tobytes()]
