from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import CrcError, DecodeError, EncodeError, LimitError
from kwire.records import batch as module
from kwire.records import compression
from kwire.records.batch import HEADER, Batch, Record, batches, build_batch, read_batch, rebase, recompress, restamp
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


@given(
    gaps=st.lists(st.integers(1, 10**6), min_size=1, max_size=5),
    before=st.integers(0, 3),
    behind=st.integers(0, 3),
    codec=st.sampled_from(sorted(NAMES)),
    append_time=st.none() | INT64,
    flags=st.tuples(st.booleans(), st.booleans()),
    epoch=st.integers(-1, 2**31 - 1),
)
def test_batches_rewritten_by_brokers_and_compaction(
    gaps: list[int],
    before: int,
    behind: int,
    codec: int,
    append_time: int | None,
    flags: tuple[bool, bool],
    epoch: int,
) -> None:
    offsets = list(accumulate(gaps))
    records = [Record(offset=offset, timestamp=offset) for offset in offsets]
    data = build_batch(
        records,
        codec=codec,
        base_offset=offsets[0] - before,
        last_offset=offsets[-1] + behind,
        keep_offsets=True,
        leader_epoch=epoch,
        log_append_time=append_time,
        transactional=flags[0],
        control=flags[1],
    )
    batch = read_batch(data)
    assert (batch.base_offset, batch.last_offset) == (offsets[0] - before, offsets[-1] + behind)
    assert (batch.leader_epoch, batch.log_append_time) == (epoch, append_time is not None)
    assert (batch.transactional, batch.control) == flags
    expected = records if append_time is None else [replace(each, timestamp=append_time) for each in records]
    assert list(batch.records()) == expected
    assert batch.max_timestamp == (offsets[-1] if append_time is None else append_time)


def test_a_batch_that_lost_all_its_records() -> None:
    batch = read_batch(build_batch([], base_offset=5, last_offset=9, producer_id=7))
    assert (batch.count, batch.base_offset, batch.last_offset, batch.producer_id) == (0, 5, 9, 7)
    assert list(batch.records()) == []


def test_the_first_kept_offset_is_that_of_the_batch() -> None:
    assert read_batch(build_batch([Record(offset=7), Record(offset=9)], keep_offsets=True)).base_offset == 7


HEADER_FIELDS = [  # argument, name in the error, bits
    ("base_offset", "base_offset", 64),
    ("leader_epoch", "leader_epoch", 32),
    ("last_offset", "last offset delta", 32),
    ("delete_horizon", "base timestamp", 64),
    ("max_timestamp", "max timestamp", 64),
    ("log_append_time", "max timestamp", 64),
    ("producer_id", "producer_id", 64),
    ("producer_epoch", "producer_epoch", 16),
    ("base_sequence", "base_sequence", 32),
]


@pytest.mark.parametrize(("argument", "name", "bits"), HEADER_FIELDS)
def test_values_that_a_batch_header_cannot_hold(argument: str, name: str, bits: int) -> None:
    for value in (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1):
        batch = read_batch(build_batch([Record()], **{argument: value}))  # type: ignore[arg-type]
        assert value in (getattr(batch, argument, None), batch.max_timestamp)
    for value in (-(2 ** (bits - 1)) - 1, 2 ** (bits - 1)):
        with pytest.raises(EncodeError) as caught:
            build_batch([Record()], **{argument: value})  # type: ignore[arg-type]
        assert str(caught.value) == f"RecordBatch: {name} {value} does not fit into {bits} bits"


@pytest.mark.parametrize("sign", [1, -1])
def test_error_names_the_field_that_does_not_fit(sign: int) -> None:
    """The values of the other fields are the largest or the smallest."""
    fits = {argument: sign * (2 ** (bits - 1) - 1) for argument, _, bits in HEADER_FIELDS if argument != "last_offset"}
    with pytest.raises(EncodeError, match=r"RecordBatch: base_sequence -?2147483649 does not fit into 32 bits"):
        build_batch([Record()], last_offset=fits["base_offset"], **fits | {"base_sequence": sign * (2**31 + 1)})  # type: ignore[arg-type]


def test_delete_horizon() -> None:
    batch = read_batch(build_batch([Record(timestamp=5)]))
    assert batch.delete_horizon is None
    assert replace(batch, attributes=0x40).delete_horizon == 5


def with_body(data: bytes, body: bytes, **header: int) -> bytes:
    """Return the batch with other records or header fields, and with the right length and checksum."""
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

RECORD = bytes.fromhex("0c" + "000000" + "0101" + "00")
KEY_TOO_LONG = bytes.fromhex("0c" + "000000" + "7e" + "000000")
COUNT = "RecordBatch at byte 57, count: {} records of at least 7 bytes do not fit into {} bytes"
BODIES: list[tuple[str, int, bytes, str]] = [
    ("one more than counted", 0, RECORD, "RecordBatch at byte 61: 7 trailing bytes after the last record"),
    ("one less than counted", 2, RECORD, COUNT.format(2, 7)),
    ("none, and counted", 1, b"", COUNT.format(1, 0)),
    ("negative count", -1, b"", COUNT.format(-1, 0)),
    ("all that can be counted", 2**31 - 1, RECORD, COUNT.format(2**31 - 1, 7)),
    ("record", 1, KEY_TOO_LONG, "RecordBatch at byte 65, records[0].key: expected 63 bytes, found 3"),
]
BEFORE = 100  # bytes before the batch in the buffer


@pytest.mark.parametrize(("count", "body", "text"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_where_records_are_wrong(count: int, body: bytes, text: str) -> None:
    data = with_body(ONE, body, count=count)
    for before in (0, BEFORE):
        batch = read_batch(bytes(before) + data, before)
        assert batch.position == before
        with pytest.raises(DecodeError) as caught:
            list(batch.records())
        caught.value.offset -= before
        assert str(caught.value) == text


def test_where_compressed_records_are_wrong() -> None:
    packed = build_batch([Record(value=b"v")], codec=1)
    data = with_body(packed, compression.compress(1, RECORD + KEY_TOO_LONG), count=2)
    with pytest.raises(DecodeError) as caught:
        list(read_batch(bytes(BEFORE) + data, BEFORE).records())
    text = "RecordBatch at byte 161, records[1].key: expected 63 bytes, found 3 (byte 11 after decompression)"
    assert str(caught.value) == text
    with pytest.raises(DecodeError, match="RecordBatch at byte 161: invalid gzip data: "):
        read_batch(bytes(BEFORE) + with_body(packed, b"no gzip at all"), BEFORE).records()


def test_the_caller_may_set_the_limit() -> None:
    batch = read_batch(build_batch([Record(value=bytes(1000))], codec=4))
    assert len(list(batch.records(limit=1010))) == 1
    with pytest.raises(LimitError, match="RecordBatch at byte 66: decompressed data exceeds the limit of 1000 bytes"):
        batch.records(limit=1000)


@pytest.mark.parametrize("codec", sorted(NAMES))
def test_memoryviews_are_not_copied(codec: int) -> None:
    (record,) = read_batch(build_batch([Record(key=b"k", value=b"v")], codec=codec)).records(copy=False)
    assert isinstance(record.value, memoryview)
    assert record == Record(key=b"k", value=b"v")


@pytest.mark.parametrize("at", [17, 21, 40, 61, len(ONE) - 1])
def test_wrong_checksum(at: int) -> None:
    data = ONE[:at] + bytes([ONE[at] ^ 1]) + ONE[at + 1 :]
    batch = read_batch(data)
    assert not batch.crc_is_right()
    with pytest.raises(
        CrcError, match=r"RecordBatch at byte 17: the CRC .* in the batch header does not match the data"
    ):
        batch.records()


def test_the_checksum_need_not_be_verified() -> None:
    batch = read_batch(ONE[:17] + bytes(4) + ONE[21:])
    assert list(batch.records(verify_crc=False)) == [Record(value=b"v")]


def test_rebase_keeps_the_checksum_right() -> None:
    batch = read_batch(rebase(read_batch(ONE), 1000, 7))
    assert batch.crc_is_right()
    assert (batch.base_offset, batch.leader_epoch) == (1000, 7)
    assert [record.offset for record in batch.records()] == [1000]


def header(**other: int) -> bytes:
    names = [name for name in Batch.__dataclass_fields__ if name not in ("data", "position")]
    values = dict(zip(names, HEADER.unpack_from(ONE), strict=True)) | other
    return HEADER.pack(*values.values()) + ONE[HEADER.size :]


HEADERS: list[tuple[bytes, str]] = [
    (ONE[:60], "RecordBatch at byte 0: expected 61 bytes of batch header, found 60"),
    (ONE[:-1], f"RecordBatch at byte 0: expected {len(ONE)} bytes, found {len(ONE) - 1}"),
    (header(magic=1), "RecordBatch at byte 16, magic: magic is 1, expected 2"),
    (header(magic=-1), "RecordBatch at byte 16, magic: magic is -1, expected 2"),
    (header(length=48), "RecordBatch at byte 8, length: batch length 48 is below the minimum of 49"),
    (header(length=-1), "RecordBatch at byte 8, length: batch length -1 is below the minimum of 49"),
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
    empty = build_batch([], last_offset=4)
    assert len(empty) == HEADER.size
    assert [batch.data for batch in batches(ONE + empty)] == [ONE, empty]
    assert [batch.data for batch in batches(ONE + bytes(20))] == [ONE]


def test_no_batch_of_nothing() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_timestamps_wrap_as_in_java() -> None:
    stamps = [-(2**63), 2**63 - 1]
    batch = read_batch(build_batch([Record(timestamp=stamp) for stamp in stamps]))
    assert [record.timestamp for record in batch.records()] == stamps


def test_header_that_is_not_utf8_survives() -> None:
    (record,) = read_batch(build_batch([Record(headers=[("\udcff", b"")])])).records()
    assert record.headers == (("\udcff", b""),)


@pytest.mark.parametrize("after", NAMES)
@pytest.mark.parametrize("before", NAMES)
def test_recompress_changes_only_the_codec(before, after):
    records = [Record(offset=n, key=b"k", value=bytes(100), timestamp=1_000 + n) for n in range(3)]
    batch = read_batch(build_batch(records, codec=before, producer_id=5, producer_epoch=1, base_sequence=7))
    changed = recompress(batch, after)
    assert changed.codec == after
    assert changed.crc_is_right()
    assert list(changed.records()) == records
    expected = read_batch(build_batch(records, codec=after, producer_id=5, producer_epoch=1, base_sequence=7))
    assert changed == expected


@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_recompress_observes_its_limit(codec):
    batch = read_batch(build_batch([Record(value=bytes(1_000))], codec=codec))
    with pytest.raises(LimitError):
        recompress(batch, compression.NONE, limit=500)
    size = len(build_batch([Record(value=bytes(1_000))])) - HEADER.size
    assert recompress(batch, compression.NONE, limit=size).count == 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", [None, 50])
def test_restamp_changes_timestamp_and_its_type(before, after):
    """Message.timestamp.type: Kafka's LogValidator rewrites the header, and no record."""
    batch = read_batch(build_batch([Record(timestamp=7)], log_append_time=before, transactional=True))
    changed = restamp(batch, 90, log_append_time=after)
    assert (changed.log_append_time, changed.max_timestamp, changed.transactional) == (after, 90, True)
    assert changed.crc_is_right()
    assert [record.timestamp for record in changed.records()] == [90 if after else 7]


def test_header_of_a_batch_without_producer():
    """Kafka's RecordBatch: NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE."""
    batch = read_batch(build_batch([Record(offset=7, timestamp=9)]))
    assert (batch.leader_epoch, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1, -1)
    assert (batch.base_offset, batch.last_offset, batch.attributes) == (0, 0, 0)
    assert (batch.base_timestamp, batch.max_timestamp) == (9, 9)


def test_batch_without_records_begins_at_offset_zero():
    assert read_batch(build_batch([], keep_offsets=True, last_offset=4)).base_offset == 0


def test_records_of_another_class_are_copied():
    class Own(Record):
        pass

    (record,) = read_batch(ONE).records_as(Own)
    assert isinstance(record, Own)
    assert record.value.__class__ is bytes


def test_delete_horizon_and_timestamp_of_an_empty_batch():
    records = [Record(offset=3, key=b"k", value=None, timestamp=1_000)]
    batch = read_batch(build_batch(records, keep_offsets=True, delete_horizon=5_000))
    assert (batch.delete_horizon, batch.max_timestamp) == (5_000, 1_000)
    assert list(batch.records()) == records
    empty = read_batch(build_batch([], base_offset=3, last_offset=9, max_timestamp=7))
    assert (empty.count, empty.last_offset, empty.max_timestamp, empty.base_timestamp) == (0, 9, 7, -1)


def test_error_of_a_record_comes_before_that_of_the_header() -> None:
    """Both a record and the header have a value that does not fit."""
    record = Record(key=b"k", value=b"v", headers=[("h" * 10, b"")], timestamp=2**70)
    with pytest.raises(EncodeError) as raised:
        build_batch([record], producer_epoch=2**20)
    with pytest.raises(EncodeError) as alone:
        build_batch([record])
    assert str(raised.value) == str(alone.value)
    with pytest.raises(EncodeError, match="producer_epoch 1048576 does not fit into 16 bits"):
        build_batch([Record()], producer_epoch=2**20)


class Own(Record):
    """A subclass of Record, for which a separate reader is made."""


@pytest.mark.parametrize(
    ("verify", "copy", "limit", "native"),
    [(True, True, None, True), (False, True, None, True), (True, False, None, False), (True, True, 100, False)],
)
def test_only_copied_records_without_a_limit_are_read_natively(
    monkeypatch: pytest.MonkeyPatch, verify: bool, copy: bool, limit: int | None, native: bool
) -> None:
    batch = read_batch(build_batch([Record(value=b"v")] * 2, base_offset=7))
    reader = MagicMock()
    reader.records.return_value = None  # the native reader leaves the batch to Python
    monkeypatch.setattr(module, "NATIVE", reader)
    records = batch.records(verify_crc=verify, copy=copy, limit=limit)
    assert [record.offset for record in records] == [7, 8]
    assert [call.args for call in reader.records.call_args_list] == ([(batch, verify)] if native else [])
    reader.records.return_value = iter((1, 2))
    assert (list(batch.records(verify_crc=verify, copy=copy, limit=limit)) == [1, 2]) is native


@pytest.mark.parametrize("codec", sorted(NAMES))
def test_batches_that_cannot_be_written_natively(monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    records = [Record(value=b"v")]
    expected = build_batch(records, codec=codec)
    writer = MagicMock()
    writer.build.return_value = b"native"
    monkeypatch.setattr(module, "WRITER", writer)
    assert build_batch(records, codec=codec) == b"native"
    assert writer.build.call_args.args[:2] == (records, codec)
    writer.build.return_value = None
    monkeypatch.setattr(module, "written_natively", lambda *_: b"records")
    assert build_batch(records, codec=codec) == (b"records" if codec == compression.NONE else expected)


def test_only_whole_bytes_are_read_as_a_batch_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = MagicMock()
    reader.only.return_value = None  # the native reader leaves the batch to Python
    monkeypatch.setattr(module, "NATIVE", reader)
    assert read_batch(ONE).data == ONE
    reader.only.assert_called_once_with(ONE)
    reader.only.reset_mock()
    assert read_batch(bytearray(ONE)).data == ONE  # type: ignore[arg-type]
    assert read_batch(b"?" + ONE, 1).data == ONE
    reader.only.assert_not_called()
    reader.only.return_value = "native"
    assert read_batch(ONE) == "native"


def test_equal_batches_may_be_at_different_positions() -> None:
    assert read_batch(b"?" + ONE, 1) == read_batch(ONE)
    assert read_batch(rebase(read_batch(ONE), 1, 0)) != read_batch(ONE)


def test_records_are_verified_and_copied_by_default() -> None:
    compressed = build_batch([Record(value=b"v")], codec=compression.GZIP)
    damaged = read_batch(ONE[:-1] + bytes([ONE[-1] ^ 1]))
    for batch in (read_batch(ONE), read_batch(compressed)):
        for (record,) in (batch.records(), batch.records_as(Record)):
            assert isinstance(record.value, bytes)
    for records in (damaged.records, partial(damaged.records_as, Record)):
        with pytest.raises(CrcError):
            list(records())


def test_error_of_a_record_is_raised_before_one_of_the_header() -> None:
    with pytest.raises(EncodeError, match="header key"):
        build_batch([Record(headers=[("\ud800", None)])], producer_id=2**63)


def test_batch_is_rebased_and_read_natively_if_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, expected = read_batch(ONE), rebase(read_batch(ONE), 7, 3)
    monkeypatch.setattr(module, "NATIVE", None)
    assert module.read_only_batch(ONE) is None
    native = MagicMock()
    monkeypatch.setattr(module, "NATIVE", native)
    native.checked.return_value = batch
    assert module.read_only_batch(ONE) is batch
    native.rebased.return_value = b"natively"
    assert rebase(batch, 7, 3) == b"natively"
    native.records.return_value = iter(["natively"])
    assert list(batch.records()) == ["natively"]
    native.records.reset_mock()
    assert (
        [each.value for each in batch.records(copy=False)] == [each.value for each in batch.records(limit=9)] == [b"v"]
    )
    native.records.assert_not_called()
    native.rebased.return_value = native.records.return_value = None  # the native code leaves it to Python
    assert rebase(batch, 7, 3) == expected
    assert [each.value for each in batch.records(verify_crc=False)] == [b"v"]
    native.records.assert_called_once_with(batch, False)


@pytest.mark.parametrize("field", ["producer_id", "leader_epoch", "base_sequence"])
@pytest.mark.parametrize("value", ["1", 1.5, None])
def test_header_field_that_is_no_integer_is_refused(field: str, value: Any) -> None:
    with pytest.raises(EncodeError, match="a value does not fit into its field of the batch header"):
        build_batch([Record()], **{field: value})
