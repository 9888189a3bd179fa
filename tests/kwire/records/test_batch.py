from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import golden
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import CrcError, DecodeError, LimitError, Truncated, WireError
from kwire.records.batch import HEADER, Batch, Record, batches, build_batch, read_batch, rebase
from kwire.records.compression import NAMES

INT64 = st.integers(-(2**63), 2**63 - 1)
BYTES = st.none() | st.binary(max_size=10)
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=INT64,
        key=BYTES,
        value=BYTES,
        headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@given(records=RECORDS, codec=st.sampled_from(sorted(NAMES)), base_offset=st.integers(0, 2**62))
def test_round_trip(records: list[Record], codec: int, base_offset: int) -> None:
    data = build_batch(records, codec=codec, base_offset=base_offset, producer_id=7, producer_epoch=1, base_sequence=3)
    batch = read_batch(data)
    assert list(batch.records()) == [replace(r, offset=base_offset + n) for n, r in enumerate(records)]
    assert (batch.codec, batch.count, batch.last_offset) == (codec, len(records), base_offset + len(records) - 1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 1, 3)
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert batch.data == data


@given(records=RECORDS, at=st.data(), codec=st.sampled_from(sorted(NAMES)))
def test_damaged(records: list[Record], at: st.DataObject, codec: int) -> None:
    data = bytearray(build_batch(records, codec=codec))
    data[at.draw(st.integers(0, len(data) - 1))] ^= at.draw(st.integers(1, 255))
    try:
        for batch in batches(bytes(data)):
            list(batch.records())
    except WireError as error:
        caught: WireError | None = error
    else:
        caught = None
    assert caught is None or isinstance(caught, DecodeError)


@given(records=RECORDS, noise=st.binary(min_size=1, max_size=30))
def test_damaged_behind_a_right_checksum(records: list[Record], noise: bytes) -> None:
    data = with_body(build_batch(records), noise)
    batch = read_batch(data)
    assert batch.crc_is_right()
    try:
        list(batch.records())
    except WireError as error:
        caught: WireError | None = error
    else:
        caught = None
    assert caught is None or isinstance(caught, DecodeError)


def with_body(data: bytes, body: bytes, **header: int) -> bytes:
    """The batch with other records, or other fields of its header, and a length and checksum that fit."""
    from google_crc32c import value as crc32c

    batch = replace(read_batch(data), **header)
    tail = struct.pack(
        ">hiqqqhii",
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )
    tail += body
    return struct.pack(">qiibI", batch.base_offset, len(tail) + 9, batch.leader_epoch, 2, crc32c(tail)) + tail


ONE = build_batch([Record(value=b"v")])

BODIES: list[tuple[str, int, str, type[DecodeError], str]] = [  # what, count, body, error, reason
    ("no bytes", 1, "", Truncated, "a varint ends too early"),
    ("longer than what is left", 1, "10" + "00", Truncated, "a record of 8 bytes, 1 left"),
    ("negative length", 1, "01", Truncated, "a record of -1 bytes, 0 left"),
    ("key longer than what is left", 1, "0c" + "000000" + "7e" + "0000", Truncated, "expected 63 bytes, found 2"),
    ("header count too large", 1, "0c" + "000000" + "0101" + "7e", LimitError, "63 headers in 0 bytes"),
    ("header count negative", 1, "0c" + "000000" + "0101" + "01", LimitError, "-1 headers in 0 bytes"),
    ("header without a key", 1, "10" + "000000" + "0101" + "02" + "01" + "00", DecodeError, "a header without a key"),
    ("longer than its fields", 1, "0e" + "000000" + "0101" + "00" + "00", DecodeError, "a record of 7 bytes ends -1 bytes off"),
    ("shorter than its fields", 1, "0a" + "000000" + "0101" + "00", LimitError, "0 headers in -1 bytes"),
    ("varint of 11 bytes", 1, "ff" * 11, LimitError, "a varint is longer than 10 bytes"),
    ("one more than counted", 0, "0c" + "000000" + "0101" + "00", DecodeError, "7 bytes behind the last record"),
    ("one less than counted", 2, "0c" + "000000" + "0101" + "00", Truncated, "a varint ends too early"),
]  # fmt: skip


@pytest.mark.parametrize(("count", "body", "kind", "reason"), [r[1:] for r in BODIES], ids=[r[0] for r in BODIES])
def test_bad_records(count: int, body: str, kind: type[DecodeError], reason: str) -> None:
    batch = read_batch(with_body(ONE, bytes.fromhex(body), count=count))
    with pytest.raises(DecodeError) as caught:
        list(batch.records())
    assert type(caught.value) is kind
    assert caught.value.reason == reason


def test_a_count_without_records_is_bounded() -> None:
    batch = read_batch(with_body(ONE, b"", count=2**31 - 1))
    with pytest.raises(Truncated):
        list(batch.records())


def test_negative_count_gives_no_records() -> None:
    assert list(read_batch(with_body(ONE, b"", count=-1)).records()) == []


@pytest.mark.parametrize("at", [17, 21, 40, 61, len(ONE) - 1])
def test_wrong_checksum(at: int) -> None:
    data = ONE[:at] + bytes([ONE[at] ^ 1]) + ONE[at + 1 :]
    batch = read_batch(data)
    assert not batch.crc_is_right()
    with pytest.raises(CrcError, match="does not match the bytes"):
        list(batch.records())


def test_rebase_keeps_the_checksum_right() -> None:
    batch = read_batch(rebase(read_batch(ONE), 1000, 7))
    assert batch.crc_is_right()
    assert (batch.base_offset, batch.leader_epoch) == (1000, 7)
    assert [record.offset for record in batch.records()] == [1000]


def header(**other: int) -> bytes:
    names = [name for name in Batch.__dataclass_fields__ if name != "data"]
    values = dict(zip(names, HEADER.unpack_from(ONE), strict=True)) | other
    return HEADER.pack(*values.values()) + ONE[HEADER.size :]


HEADERS: list[tuple[bytes, str]] = [
    (ONE[:60], "RecordBatch at byte 0: expected 61 bytes of batch header, found 60"),
    (ONE[:-1], f"RecordBatch at byte 0: expected {len(ONE)} bytes, found {len(ONE) - 1}"),
    (header(magic=1), "RecordBatch at byte 16: magic 1, only 2 is supported yet"),
    (header(magic=-1), "RecordBatch at byte 16: magic -1, only 2 is supported yet"),
    (header(length=48), "RecordBatch at byte 8: batch length 48 is too small"),
    (header(length=-1), "RecordBatch at byte 8: batch length -1 is too small"),
    (header(length=2**31 - 1), f"RecordBatch at byte 0: expected {2**31 + 11} bytes, found {len(ONE)}"),
]


@pytest.mark.parametrize(("data", "text"), HEADERS)
def test_bad_header(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_batch(data)
    assert str(caught.value) == text


def test_many_batches_and_one_cut_short() -> None:
    assert [batch.data for batch in batches(ONE * 3 + ONE[:-1])] == [ONE] * 3
    assert list(batches(b"")) == []
    assert [batch.data for batch in batches(ONE + bytes(20))] == [ONE]


def test_no_batch_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_timestamps_wrap_as_in_java() -> None:
    stamps = [-(2**63), 2**63 - 1]
    batch = read_batch(build_batch([Record(timestamp=stamp) for stamp in stamps]))
    assert [record.timestamp for record in batch.records()] == stamps


def test_hostile_deltas_stay_in_64_bits() -> None:
    record = bytes.fromhex("1e" + "00" + "feffffffffffffffff01" + "02" + "0101" + "00")
    batch = replace(read_batch(with_body(ONE, record)), base_timestamp=2**63 - 1, base_offset=2**63 - 1)
    (found,) = batch.records()
    assert (found.timestamp, found.offset) == (-2, -(2**63))


def test_header_that_is_not_utf8_survives() -> None:
    (record,) = read_batch(build_batch([Record(headers=[("\udcff", b"")])])).records()
    assert record.headers == [("\udcff", b"")]


def told(origin: str) -> Iterator[tuple[bytes, list[dict[str, Any]]]]:
    """The bytes of every records field in the frames, and the batches that Kafka read in them."""
    for stem in ("produce", "fetch"):
        for direction in ("request", "response"):
            for line in golden.frames(origin, stem, direction):
                yield from ((bytes.fromhex(r["hex"]), r["batches"]) for r in line.get("records", []))


def as_told(batch: Batch) -> dict[str, Any]:
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "magic": batch.magic,
        "size": len(batch.data),
        "max_timestamp": batch.max_timestamp,
        "crc": batch.crc,
        "valid": batch.crc_is_right(),
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.transactional,
        "control": batch.control,
        "partition_leader_epoch": batch.leader_epoch,
        "count": batch.count,
    }


def record_as_told(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[name, None if content is None else content.hex()] for name, content in record.headers],
    }


@pytest.mark.parametrize("origin", golden.FOLDERS)
def test_batches_of_kafka(origin: str) -> None:
    seen: Counter[str] = Counter()
    for data, expected in told(origin):
        if any(batch["magic"] < 2 for batch in expected):
            with pytest.raises(DecodeError, match="only 2 is supported yet"):
                list(batches(data))
            seen["old"] += 1
            continue
        found = list(batches(data))
        assert len(found) == len(expected)
        for batch, theirs in zip(found, expected, strict=True):
            seen[theirs["compression"]] += 1
            assert as_told(batch) == {key: theirs[key] for key in as_told(batch)}
            assert NAMES[batch.codec] == theirs["compression"]
            assert [record_as_told(record) for record in batch.records()] == theirs["records"]
    assert set(NAMES.values()) <= set(seen), seen
    golden.COUNTS[f"record batches of {origin}"] += seen.total() - seen["old"]
