from __future__ import annotations

import struct
import zlib
from collections import Counter
from dataclasses import replace

import golden
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import CrcError, DecodeError, EncodeError, LimitError, Truncated
from kwire.records import message_set, read
from kwire.records.compression import GZIP, LZ4, LZ4_OLD_HEADER, NAMES, NONE, SNAPPY, ZSTD, compress
from kwire.records.message_set import CODECS, NO_TIMESTAMP, Message, build_message_set, read_message
from kwire.records.record import Record

MAGICS = [0, 1]
INT64 = st.integers(-(2**63), 2**63 - 1)
BYTES = st.none() | st.binary(max_size=10)
RECORDS = st.lists(st.builds(Record, timestamp=INT64, key=BYTES, value=BYTES), min_size=1, max_size=5)
THREE = [Record(offset=n, timestamp=10 * n, key=b"k%d" % n, value=b"v" * n) for n in (1, 2, 3)]


def messages(data: bytes) -> list[Message]:
    results = []
    while data:
        results.append(read_message(data))
        data = data[len(results[-1].data) :]
    return results


def records(data: bytes) -> list[Record]:
    return [record for each in read(data) for record in each.records()]


def as_stored(given: list[Record], magic: int) -> list[Record]:
    return given if magic else [replace(each, timestamp=NO_TIMESTAMP) for each in given]


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS)
@given(given=RECORDS, base_offset=st.integers(0, 2**62))
def test_round_trip(magic: int, codec: int, given: list[Record], base_offset: int) -> None:
    data = build_message_set(given, magic=magic, codec=codec, base_offset=base_offset)
    expected = [replace(each, offset=base_offset + n) for n, each in enumerate(as_stored(given, magic))]
    assert records(data) == expected
    result = messages(data)
    assert len(result) == (len(given) if codec == NONE else 1)
    assert all((each.magic, each.codec, each.crc_is_right()) == (magic, codec, True) for each in result)
    assert (result[0].base_offset, result[-1].last_offset) == (base_offset, base_offset + len(given) - 1)
    assert sum(each.count for each in result) == len(given)


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("base_offset", [None, 7])
def test_offsets_with_gaps(magic: int, codec: int, base_offset: int | None) -> None:
    given = [Record(offset=offset, timestamp=1) for offset in (7, 9, 30)]
    data = build_message_set(given, magic=magic, codec=codec, base_offset=base_offset, keep_offsets=True)
    assert records(data) == as_stored(given, magic)
    assert (messages(data)[0].base_offset, messages(data)[-1].last_offset) == (7, 30)


@pytest.mark.parametrize("codec", CODECS)
def test_the_time_of_the_broker(codec: int) -> None:
    result = messages(build_message_set(THREE, codec=codec, log_append_time=777))
    assert all((each.log_append_time, each.max_timestamp) == (True, 777) for each in result)
    assert {record.timestamp for each in result for record in each.records()} == {777}


def test_the_time_of_the_wrapper_counts() -> None:
    """A broker sets the time of the wrapper, and leaves the messages inside as the producer wrote them."""
    wrapper = read_message(build_message_set(THREE, codec=GZIP))
    assert (wrapper.log_append_time, wrapper.max_timestamp) == (False, 30)
    assert [record.timestamp for record in wrapper.records()] == [10, 20, 30]
    stamped = replace(wrapper, attributes=wrapper.attributes | 8, timestamp=777)
    assert [record.timestamp for record in stamped.records(verify_crc=False)] == [777] * 3


def test_messages_of_magic_0_have_no_timestamp_type() -> None:
    message = replace(read_message(build_message_set(THREE[:1], magic=0)), attributes=8)
    assert not message.log_append_time
    assert [record.timestamp for record in message.records(verify_crc=False)] == [NO_TIMESTAMP]


def rebuilt(message: Message, value: bytes | None, offset: int | None = None) -> bytes:
    """Return the message with another value or offset, and the right size and checksum."""
    tail = struct.pack(">bb", message.magic, message.attributes)
    tail += struct.pack(">q", message.timestamp) if message.magic else b""
    tail += struct.pack(">ii", -1, -1 if value is None else len(value)) + (value or b"")
    return struct.pack(">qiI", message.offset if offset is None else offset, len(tail) + 4, zlib.crc32(tail)) + tail


def wrapper_of(inner: bytes, magic: int, offset: int = 0, codec: int = GZIP) -> Message:
    made = read_message(build_message_set([Record()], magic=magic, codec=codec))
    return read_message(rebuilt(made, compress(codec, inner, old_lz4=magic == 0), offset))


@pytest.mark.parametrize(("last", "expected"), [(0, [0, 1, 2]), (2, [0, 1, 2]), (12, [10, 11, 12])])
def test_offsets_count_from_the_first(last: int, expected: list[int]) -> None:
    inner = build_message_set(THREE)  # 0, 1, 2, as producers write them
    assert [record.offset for record in wrapper_of(inner, 1, last).records()] == expected
    assert wrapper_of(inner, 1, last).base_offset == expected[0]
    assert [record.offset for record in wrapper_of(inner, 0, last).records()] == [0, 1, 2]


@pytest.mark.parametrize("magic", MAGICS)
def test_old_messages_in_a_new_wrapper(magic: int) -> None:
    old = build_message_set(THREE[:2], magic=0)
    new = build_message_set(THREE[2:], magic=1, base_offset=2)
    assert [record.timestamp for record in wrapper_of(old + new, magic, 2).records()] == [-1, -1, 30]


def test_lz4_of_magic_0_has_its_own_checksum() -> None:
    assert LZ4_OLD_HEADER in build_message_set(THREE, magic=0, codec=LZ4)
    assert LZ4_OLD_HEADER not in build_message_set(THREE, magic=1, codec=LZ4)
    right = wrapper_of(build_message_set(THREE, magic=0), 0, codec=LZ4)
    repaired = rebuilt(right, compress(LZ4, build_message_set(THREE, magic=0)))
    assert len(list(read_message(repaired).records())) == 3  # messages that were repaired later are read too
    wrong = rebuilt(wrapper_of(b"", 1, codec=LZ4), compress(LZ4, build_message_set(THREE), old_lz4=True))
    with pytest.raises(DecodeError, match="invalid lz4 data: "):
        read_message(wrong).records()


ONE = build_message_set([Record(value=b"v")])
OLD = build_message_set([Record(value=b"v")], magic=0)
WRAPPED = build_message_set(THREE, codec=GZIP)
VALUE_AT = 34  # in ONE and WRAPPED: after the header, a null key and the size of the value


def changed(data: bytes, at: int, form: str, value: int) -> bytes:
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form) :]


HEADERS: list[tuple[bytes, type[DecodeError], str]] = [
    (ONE[:17], Truncated, "byte 0: expected 18 bytes of message header, found 17"),
    (ONE[:18], Truncated, f"byte 0: the message has {len(ONE)} bytes, but only 18 remain"),
    (ONE[:-1], Truncated, f"byte 0: the message has {len(ONE)} bytes, but only {len(ONE) - 1} remain"),
    (changed(ONE, 16, ">b", 2), DecodeError, "byte 16, magic: magic is 2, expected 0 or 1"),
    (changed(ONE, 16, ">b", -1), DecodeError, "byte 16, magic: magic is -1, expected 0 or 1"),
    (changed(ONE, 8, ">i", 21), DecodeError, "byte 8, size: message size 21 is below the minimum of 22"),
    (changed(OLD, 8, ">i", 13), DecodeError, "byte 8, size: message size 13 is below the minimum of 14"),
    (changed(ONE, 8, ">i", -1), DecodeError, "byte 8, size: message size -1 is below the minimum of 22"),
    (
        changed(ONE, 8, ">i", 2**31 - 1),
        Truncated,
        f"byte 0: the message has {2**31 + 11} bytes, but only {len(ONE)} remain",
    ),
]


@pytest.mark.parametrize(("data", "kind", "text"), HEADERS)
def test_bad_header(data: bytes, kind: type[DecodeError], text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read_message(data)
    assert (type(caught.value), str(caught.value)) == (kind, f"Message at {text}")


def other_value(value: bytes | None, codec: int = GZIP) -> bytes:
    return rebuilt(wrapper_of(b"", 1, codec=codec), value)


def packed(inner: bytes) -> bytes:
    return other_value(compress(GZIP, inner))


INNER = build_message_set(THREE)
BAD: list[tuple[str, bytes, type[DecodeError], int, str]] = [  # input, message, error, byte, text
    ("crc", changed(ONE, 20, ">b", 1), CrcError, 12, "checksum 0xb461472e does not match the data"),
    ("key too long", changed(ONE, 26, ">i", 6), Truncated, 26, "key: expected 6 bytes, found 5"),
    ("key that leaves no value", changed(ONE, 26, ">i", 5), Truncated, 35, "value: expected 4 bytes, found 0"),
    ("value too long", changed(ONE, 30, ">i", 2), Truncated, 30, "value: expected 2 bytes, found 1"),
    ("zstd", changed(ONE, 17, ">b", ZSTD), DecodeError, 17, "attributes: compression codec 4 is not allowed in message sets"),
    ("no such codec", changed(ONE, 17, ">b", 7), DecodeError, 17, "attributes: compression codec 7 is not allowed in message sets"),
    ("null", other_value(None), DecodeError, 30, "value: the compressed wrapper message has a null value instead of a message set"),
    ("empty", packed(b""), DecodeError, 0, "value: the compressed wrapper message contains no messages"),
    ("cut", packed(ONE[:-1]), DecodeError, 0, "value: the compressed wrapper message contains no messages"),
    ("garbage", other_value(b"garbage"), DecodeError, 34, "value: invalid gzip data: Error -3 while decompressing data: incorrect header check"),
    ("garbage inside", packed(bytes(30)), DecodeError, 0, "size: message size 0 is below the minimum of 14 (byte 8 after decompression)"),
    ("prefix inside", packed(ONE + bytes(12)), DecodeError, 0, "size: message size 0 is below the minimum of 14 (byte 43 after decompression)"),
    ("magic inside", packed(ONE + changed(ONE, 16, ">b", 2)), DecodeError, 0, "magic: magic is 2, expected 0 or 1 (byte 51 after decompression)"),
    ("crc inside", packed(ONE + changed(ONE, 20, ">b", 1)), CrcError, 0, "records[1]: checksum 0xb461472e does not match the data (byte 47 after decompression)"),
    ("wrapper inside", packed(ONE + WRAPPED), LimitError, 0, "records[1]: a compressed message inside a compressed message exceeds the limit of 1 level of nesting (byte 52 after decompression)"),
    ("offset below that of the last", rebuilt(read_message(packed(INNER)), compress(GZIP, INNER), 1), DecodeError, 0, "offset: the wrapper has offset 1, but its last message has 2"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "kind", "offset", "text"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
@pytest.mark.parametrize("before", [b"", OLD], ids=["first", "second"])
def test_bad_message(data: bytes, kind: type[DecodeError], offset: int, text: str, before: bytes) -> None:
    message = read_message(before + data, len(before))
    with pytest.raises(DecodeError) as caught:
        list(message.records(verify_crc=kind is CrcError))
    error = caught.value
    result = f"{error.path}: {error.reason}".removeprefix(": ")
    assert (type(error), error.message, error.offset, result) == (kind, "Message", len(before) + offset, text)


def test_messages_before_a_malformed_one_are_read() -> None:
    reader = read_message(packed(ONE + changed(ONE, 20, ">b", 1))).records()
    assert next(reader).value == b"v"
    with pytest.raises(CrcError):
        next(reader)
    assert len(list(read_message(packed(ONE + changed(ONE, 20, ">b", 1))).records(verify_crc=False))) == 2


def test_a_message_cut_short_in_a_wrapper_is_left_out() -> None:
    wrapper = read_message(packed(ONE + ONE[:-1]))
    assert (wrapper.count, len(list(wrapper.records()))) == (1, 1)


def test_memoryviews_are_not_copied() -> None:
    for data in (ONE, WRAPPED):
        (record, *_) = read_message(data).records(copy=False)
        assert isinstance(record.value, memoryview)
        (record, *_) = read_message(data).records()
        assert isinstance(record.value, bytes)


def test_checksum_is_checked_by_default() -> None:
    damaged = ONE[:-1] + bytes([ONE[-1] ^ 1])
    with pytest.raises(CrcError):
        read_message(damaged).records()


@pytest.mark.parametrize("magic", MAGICS)
@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_a_bomb_is_bounded(magic: int, codec: int) -> None:
    data = build_message_set([Record(value=bytes(100_000))], magic=magic, codec=codec)
    assert len(list(read_message(data).records(limit=100_100))) == 1
    with pytest.raises(LimitError, match="value: decompressed data exceeds the limit of 1000 bytes"):
        read_message(data).records(limit=1000)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", MAGICS)
def test_damaged(magic: int, codec: int) -> None:
    data = build_message_set(THREE, magic=magic, codec=codec)
    for verify_crc in (True, False):
        for cut in range(len(data)):
            check(data[:cut], verify_crc)
        for at in range(len(data)):
            for byte in (data[at] ^ 1, data[at] ^ 0x80, 0xFF):
                check(data[:at] + bytes([byte]) + data[at + 1 :], verify_crc)


def check(data: bytes, verify_crc: bool) -> None:
    """Check that reading returns a value, or raises a DecodeError at one of these bytes."""
    try:
        for each in read(data):
            list(each.records(verify_crc=verify_crc))
            list(each.records(verify_crc=verify_crc, copy=False))
            assert each.count >= 0
            assert each.base_offset < 2**63
    except DecodeError as error:
        at = error.offset
    else:
        at = 0
    assert 0 <= at <= len(data)


def test_values_that_message_sets_cannot_hold() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_message_set([])
    with pytest.raises(ValueError, match="message sets have magic 0 or 1, got 2"):
        build_message_set(THREE, magic=2)
    with pytest.raises(ValueError, match="compression codec 4 is not allowed in message sets"):
        build_message_set(THREE, codec=ZSTD)
    with pytest.raises(ValueError, match="no timestamp"):
        build_message_set(THREE, magic=0, log_append_time=1)
    with pytest.raises(EncodeError, match="records with magic 0 or 1 cannot have headers: use build_batch"):
        build_message_set([Record(headers=[("h", b"")])])
    with pytest.raises(EncodeError, match="does not fit into a 64-bit integer"):
        build_message_set([Record(timestamp=2**63)])


def test_sets_of_kafka() -> None:
    seen: Counter[tuple[int, str, str]] = Counter()
    for line in golden.read(golden.ROOT / "fixtures" / "records" / "sets.jsonl.gz"):
        theirs = line["batches"]
        if any(batch["magic"] == 2 for batch in theirs):
            continue
        data = bytes.fromhex(line["hex"])
        ours = records(data)
        append_time = theirs[0]["max_timestamp"] if theirs[0]["timestamp_type"] == "LogAppendTime" else None
        magic, codec = theirs[0]["magic"], {name: codec for codec, name in NAMES.items()}[theirs[0]["compression"]]
        built = build_message_set(ours, magic=magic, codec=codec, keep_offsets=True, log_append_time=append_time)
        assert records(built) == ours
        if codec in (NONE, LZ4):  # our gzip and snappy compress with other code
            assert built == data
        seen[magic, theirs[0]["compression"], theirs[0]["timestamp_type"]] += 1
    assert len(seen) == 12


def test_equal_messages_may_be_at_different_positions() -> None:
    data = build_message_set([Record(value=b"v")])
    assert read_message(b"?" + data, 1) == read_message(data)
    assert read_message(build_message_set([Record(value=b"w")])) != read_message(data)


def test_headers_of_any_record_are_refused() -> None:
    with pytest.raises(EncodeError, match="records with magic 0 or 1 cannot have headers"):
        build_message_set([Record(value=b"v"), Record(headers=[("h", b"")])])


def test_versions_with_record_batches() -> None:
    """KIP-98."""
    assert (message_set.PRODUCE_BATCHES_SINCE, message_set.FETCH_BATCHES_SINCE) == (3, 4)


def test_cut_prefix_in_a_wrapper_is_left_out() -> None:
    for cut in (1, 11):
        assert read_message(packed(ONE + ONE[:cut])).count == 1
