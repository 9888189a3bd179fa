"""Conversion of message sets to batches and back. Kafka's behaviour: conversations named ``old_...``."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from unittest.mock import Mock

import pytest

from kwire import ErrorCode as E
from kwire.records import Record, build_batch, build_message_set, read
from kwire.records.batch import Batch, read_batch
from kwire.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kwire.records.control import ControlType, build_marker
from mockbroker.topics import message_sets
from mockbroker.topics.log import MAX_RECORDS_PER_BATCH
from mockbroker.topics.message_sets import from_batches, to_batch

CODECS = [NONE, GZIP, SNAPPY, LZ4]
RECORDS = [
    Record(offset=0, timestamp=5, key=b"k1", value=b"v1"),
    Record(offset=1, timestamp=3, key=None, value=b"v2" * 20),
    Record(offset=2, timestamp=9, key=b"k3", value=None),
]
LARGE = 10**6


def flagged(data: bytes, attributes: int) -> bytes:
    """Return the message with other attributes and a correct checksum."""
    tail = data[16:17] + bytes([attributes]) + data[18:]
    return data[:12] + zlib.crc32(tail).to_bytes(4, "big") + tail


def wrapper(packed: bytes) -> bytes:
    return flagged(build_message_set([Record(timestamp=1, value=packed)]), GZIP)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("base", [0, 70])
def test_message_set_is_converted_to_a_batch(codec, magic, base):
    result = to_batch(build_message_set(RECORDS, magic=magic, codec=codec, base_offset=base), LARGE)
    assert isinstance(result, Batch)
    assert (result.base_offset, result.last_offset_delta, result.codec) == (0, 2, codec)
    expected = (
        RECORDS
        if magic
        else [Record(offset=each.offset, timestamp=-1, key=each.key, value=each.value) for each in RECORDS]
    )
    assert list(result.records()) == expected


PLAIN, ZIPPED = build_message_set(RECORDS), build_message_set(RECORDS, codec=GZIP)
ODD = [
    pytest.param(b"", None, id="nothing"),
    pytest.param(PLAIN[:20], None, id="truncated first message"),
    pytest.param(b"\x01" * 40, None, id="garbage with a larger size"),
    pytest.param(bytes(40), E.CORRUPT_MESSAGE, id="size 0"),
    pytest.param(PLAIN[:-1] + b"!", E.CORRUPT_MESSAGE, id="wrong checksum"),
    pytest.param(PLAIN + PLAIN[:-1] + b"!", E.CORRUPT_MESSAGE, id="wrong checksum at the end"),
    pytest.param(wrapper(gzip.compress(PLAIN[:-1] + b"!")), E.CORRUPT_MESSAGE, id="wrong checksum of an inner message"),
    pytest.param(PLAIN + build_batch(RECORDS), E.INVALID_RECORD, id="a batch after messages"),
    pytest.param(PLAIN[:16] + b"\x03" + PLAIN[17:], E.CORRUPT_MESSAGE, id="magic 3"),
    pytest.param(PLAIN + build_message_set(RECORDS, magic=0), E.INVALID_RECORD, id="both magics"),
    pytest.param(ZIPPED + ZIPPED, E.INVALID_RECORD, id="two wrappers"),
    pytest.param(ZIPPED + PLAIN, E.INVALID_RECORD, id="a wrapper and messages"),
    pytest.param(PLAIN + ZIPPED, E.INVALID_RECORD, id="messages and a wrapper"),
    pytest.param(wrapper(gzip.compress(b"")), E.INVALID_RECORD, id="an empty wrapper"),
    pytest.param(wrapper(gzip.compress(b"\x01" * 40)), E.INVALID_RECORD, id="a wrapper of garbage"),
    pytest.param(wrapper(b"not gzip"), E.INVALID_RECORD, id="a wrapper with invalid gzip"),
    pytest.param(wrapper(gzip.compress(ZIPPED)), E.INVALID_RECORD, id="a wrapper in a wrapper"),
    pytest.param(flagged(build_message_set(RECORDS[:1]), ZSTD), E.INVALID_RECORD, id="zstd"),
    pytest.param(flagged(build_message_set(RECORDS[:1]), 7), E.INVALID_RECORD, id="an unknown codec"),
    pytest.param(build_message_set([Record(timestamp=-2, value=b"v")]), E.INVALID_TIMESTAMP, id="timestamp -2"),
    pytest.param(build_message_set([Record(timestamp=1, value=b"v" * LARGE)]), E.MESSAGE_TOO_LARGE, id="too large"),
    pytest.param(PLAIN + build_message_set([Record(value=b"v" * LARGE)]), E.MESSAGE_TOO_LARGE, id="one too large"),
    pytest.param(
        build_message_set([Record(timestamp=stamp, value=b"v") for stamp in (1, -2)]),
        E.INVALID_TIMESTAMP,
        id="timestamp -2 at the end",
    ),
]


@pytest.mark.parametrize(("data", "expected"), ODD)
def test_invalid_message_set_is_refused(data, expected):
    assert to_batch(data, LARGE) == expected


def test_truncated_last_message_is_ignored():
    result = to_batch(PLAIN[:-3], LARGE)
    assert isinstance(result, Batch)
    assert list(result.records()) == RECORDS[:2]


def test_a_set_with_more_records_than_anybody_sends():
    many = build_message_set([Record(timestamp=1)] * (MAX_RECORDS_PER_BATCH + 1), codec=GZIP)
    assert len(many) < LARGE
    assert to_batch(many, LARGE) == E.INVALID_RECORD


def test_a_bomb_costs_bounded_memory():
    bomb = wrapper(gzip.compress(build_message_set([Record(timestamp=1, value=bytes(10**9 // 8))])))
    assert len(bomb) < LARGE
    tracemalloc.start()
    try:
        assert to_batch(bomb, LARGE) == E.INVALID_RECORD
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_batch_is_converted_to_a_message_set(codec, magic):
    batch = build_batch(RECORDS, codec=codec, base_offset=7)
    converted = from_batches(batch, 7, magic)
    assert isinstance(converted, bytes)
    results = [record for message in read(converted) for record in message.records()]
    assert [(each.offset, each.key, each.value) for each in results] == [
        (7 + each.offset, each.key, each.value) for each in RECORDS
    ]
    assert [each.timestamp for each in results] == ([5, 3, 9] if magic else [-1] * 3)
    assert {message.magic for message in read(converted)} == {magic}


def offsets(converted: bytes | E) -> list[int]:
    assert isinstance(converted, bytes)
    return [record.offset for message in read(converted) for record in message.records()]


@pytest.mark.parametrize(("codec", "expected"), [(NONE, [1, 2]), (GZIP, [0, 1, 2])])
def test_compressed_batch_is_converted_whole(codec, expected):
    assert offsets(from_batches(build_batch(RECORDS, codec=codec), 1, 1)) == expected


def test_headers_are_dropped():
    batch = build_batch([Record(timestamp=1, value=b"v", headers=[("h", b"1")])])
    (message,) = read(from_batches(batch, 0, 1))
    assert [each.headers for each in message.records()] == [()]


def test_markers_are_omitted():
    marker = build_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=3
    )
    last = build_batch(RECORDS[:1], base_offset=4)
    assert offsets(from_batches(build_batch(RECORDS) + marker + last, 0, 1)) == [0, 1, 2, 4]
    assert from_batches(marker, 3, 1) == b""


def test_log_append_time_is_kept():
    (message, *_) = read(from_batches(build_batch(RECORDS, log_append_time=77), 0, 1))
    assert (message.log_append_time, message.max_timestamp) == (True, 77)


def test_converted_messages_are_no_larger_than_their_batches():
    many = b"".join(build_batch([Record(value=b"v")] * 50, base_offset=50 * n) for n in range(20))
    converted = from_batches(many, 0, 0)
    assert len(converted) == len(many)
    assert offsets(converted) == list(range(len(offsets(converted))))
    first = build_batch([Record(value=b"v")] * 50)
    assert offsets(from_batches(first, 0, 0)) == list(range(50))


BAD = [
    pytest.param(build_batch(RECORDS, codec=ZSTD, base_offset=3), E.UNSUPPORTED_COMPRESSION_TYPE, id="zstd"),
    pytest.param(build_batch(RECORDS, base_offset=3)[:-1] + b"\xff", E.CORRUPT_MESSAGE, id="broken"),
    pytest.param(
        build_batch([Record()] * (MAX_RECORDS_PER_BATCH + 1), base_offset=3), E.CORRUPT_MESSAGE, id="too many"
    ),
]


@pytest.mark.parametrize(("bad", "expected"), BAD)
def test_unconvertible_batch_ends_the_message_set(bad, expected):
    assert from_batches(bad + build_batch(RECORDS, base_offset=9), 3, 1) == expected
    assert offsets(from_batches(build_batch(RECORDS) + bad, 0, 1)) == [0, 1, 2]
    assert offsets(from_batches(build_batch(RECORDS) + bad + build_batch(RECORDS, base_offset=900_000), 0, 1)) == [
        0,
        1,
        2,
    ]


def test_message_set_survives_conversion_both_ways():
    batch = to_batch(ZIPPED, LARGE)
    assert isinstance(batch, Batch)
    converted = from_batches(read_batch(batch.data).data, 0, 1)
    assert isinstance(converted, bytes)
    (message,) = read(converted)
    assert list(message.records()) == RECORDS


@pytest.mark.parametrize("beyond", [0, 1])
def test_message_has_at_most_the_maximum_size(beyond: int) -> None:
    data = build_message_set(RECORDS[:1])
    result = to_batch(data, len(data) - beyond)
    assert result == E.MESSAGE_TOO_LARGE if beyond else isinstance(result, Batch)


def test_each_message_is_compared_with_the_maximum() -> None:
    assert isinstance(to_batch(PLAIN, max(len(message.data) for message in read(PLAIN))), Batch)


def test_messages_after_too_many_are_not_read(monkeypatch) -> None:
    """The second message above the limit has a wrong checksum."""
    monkeypatch.setattr(message_sets, "MAX_RECORDS_PER_BATCH", 2)
    many = build_message_set([Record(timestamp=1, value=b"v")] * 4)[:-1] + b"!"
    assert to_batch(wrapper(gzip.compress(many)), LARGE) == E.INVALID_RECORD


@pytest.mark.parametrize("count", [MAX_RECORDS_PER_BATCH, MAX_RECORDS_PER_BATCH + 1])
def test_batch_of_100_000_records_is_converted(count: int) -> None:
    batch = build_batch([Record()] * count)
    assert isinstance(from_batches(batch, 0, 1), bytes) is (count == 100_000)


def test_wrapper_of_100_000_messages_is_converted() -> None:
    many = build_message_set([Record(timestamp=1)] * MAX_RECORDS_PER_BATCH, codec=GZIP)
    assert isinstance(to_batch(many, LARGE), Batch)


def test_codec_of_a_wrapper_is_the_codec_of_the_batch() -> None:
    result = to_batch(build_message_set(RECORDS, codec=GZIP), LARGE)
    assert isinstance(result, Batch)
    assert result.codec == GZIP


def test_negative_timestamps_other_than_none_are_refused() -> None:
    assert isinstance(to_batch(build_message_set([Record(timestamp=-1, value=b"v")]), LARGE), Batch)
    assert to_batch(build_message_set([Record(timestamp=-2, value=b"v")]), LARGE) is E.INVALID_TIMESTAMP


def test_set_ends_when_its_size_is_reached() -> None:
    """The batches after the batch that reaches the size are not converted."""
    first = build_batch([Record(value=b"v")] * 50)
    data = first + build_batch(RECORDS, codec=ZSTD, base_offset=50)
    assert offsets(from_batches(data, 0, 1)) == list(range(50))
    limit = build_batch([Record(value=b"v" * 100)])
    rest = [build_batch([Record(value=b"v")], base_offset=1 + number) for number in range(3)]
    assert offsets(from_batches(limit + b"".join(rest), 0, 1)) == [0, 1, 2, 3]


def test_empty_parts_are_skipped() -> None:
    data = build_batch(RECORDS) + build_batch(RECORDS, base_offset=3)
    assert offsets(from_batches(data, 3, 1)) == [3, 4, 5]


def test_magic_0_has_no_append_time() -> None:
    (message, *_) = read(from_batches(build_batch(RECORDS, log_append_time=77), 0, 0))
    assert not message.log_append_time


def test_set_is_filled_up_to_the_size_of_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kafka, the last message may be cut. The batches after it are not converted."""
    builder = Mock(side_effect=build_message_set)
    monkeypatch.setattr(message_sets, "build_message_set", builder)
    records = [Record(value=b"v")] * 10, [Record(value=b"w")]
    sizes = [len(build_message_set(each, magic=0)) for each in records]
    differences = set()
    for size in range(60):
        last = build_batch([Record(value=bytes(size))], base_offset=11)
        data = build_batch(records[0]) + build_batch(records[1], base_offset=10) + last
        builder.reset_mock()
        converted = from_batches(data, 0, 0)
        assert isinstance(converted, bytes)
        assert len(converted) == len(data)
        assert builder.call_count == (2 if sum(sizes) >= len(data) else 3)
        differences.add(sum(sizes) - len(data))
    assert {-1, 0, 1} <= differences


def test_batch_without_requested_records_has_no_effect() -> None:
    """Compaction may have removed the last records of a batch, so that the batch ends after the fetch offset."""
    first = build_batch(RECORDS, last_offset=5)
    zstd = build_batch(RECORDS, codec=ZSTD, base_offset=6)
    assert from_batches(first + zstd, 4, 1) == E.UNSUPPORTED_COMPRESSION_TYPE
    assert from_batches(first, 4, 1) == b""


def test_checksum_of_a_stored_batch_is_not_verified() -> None:
    data = build_batch(RECORDS)
    assert offsets(from_batches(data[:17] + bytes(4) + data[21:], 0, 1)) == [0, 1, 2]
