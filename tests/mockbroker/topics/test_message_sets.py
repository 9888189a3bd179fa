"""Message sets become batches and batches message sets. That Kafka does the same: conversations named ``old_...``."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from kwire import ErrorCode as E
from kwire.records import Record, build_batch, build_message_set, read
from kwire.records.batch import Batch, read_batch
from kwire.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kwire.records.control import ControlType, build_marker
from mockbroker.topics.log import MOST_RECORDS
from mockbroker.topics.message_sets import gather, scatter

CODECS = [NONE, GZIP, SNAPPY, LZ4]
RECORDS = [
    Record(offset=0, timestamp=5, key=b"k1", value=b"v1"),
    Record(offset=1, timestamp=3, key=None, value=b"v2" * 20),
    Record(offset=2, timestamp=9, key=b"k3", value=None),
]
LARGE = 10**6


def flagged(data: bytes, attributes: int) -> bytes:
    """A message with other attributes, its checksum made to fit."""
    tail = data[16:17] + bytes([attributes]) + data[18:]
    return data[:12] + zlib.crc32(tail).to_bytes(4, "big") + tail


def wrapper(packed: bytes) -> bytes:
    return flagged(build_message_set([Record(timestamp=1, value=packed)]), GZIP)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("base", [0, 70])
def test_a_set_becomes_a_batch(codec, magic, base):
    found = gather(build_message_set(RECORDS, magic=magic, codec=codec, base_offset=base), LARGE)
    assert isinstance(found, Batch)
    assert (found.base_offset, found.last_offset_delta, found.codec) == (0, 2, codec)
    expected = (
        RECORDS
        if magic
        else [Record(offset=each.offset, timestamp=-1, key=each.key, value=each.value) for each in RECORDS]
    )
    assert list(found.records()) == expected


PLAIN, ZIPPED = build_message_set(RECORDS), build_message_set(RECORDS, codec=GZIP)
ODD = [
    pytest.param(b"", None, id="nothing"),
    pytest.param(PLAIN[:20], None, id="cut to nothing"),
    pytest.param(b"\x01" * 40, None, id="garbage that says it is longer"),
    pytest.param(bytes(40), E.CORRUPT_MESSAGE, id="a size of nothing"),
    pytest.param(PLAIN[:-1] + b"!", E.CORRUPT_MESSAGE, id="wrong checksum"),
    pytest.param(PLAIN + PLAIN[:-1] + b"!", E.CORRUPT_MESSAGE, id="wrong checksum at the end"),
    pytest.param(PLAIN + build_batch(RECORDS), E.INVALID_RECORD, id="a batch behind messages"),
    pytest.param(PLAIN[:16] + b"\x03" + PLAIN[17:], E.CORRUPT_MESSAGE, id="magic 3"),
    pytest.param(PLAIN + build_message_set(RECORDS, magic=0), E.INVALID_RECORD, id="both magics"),
    pytest.param(ZIPPED + ZIPPED, E.INVALID_RECORD, id="two wrappers"),
    pytest.param(ZIPPED + PLAIN, E.INVALID_RECORD, id="a wrapper and messages"),
    pytest.param(PLAIN + ZIPPED, E.INVALID_RECORD, id="messages and a wrapper"),
    pytest.param(wrapper(gzip.compress(b"")), E.INVALID_RECORD, id="a wrapper of nothing"),
    pytest.param(wrapper(gzip.compress(b"\x01" * 40)), E.INVALID_RECORD, id="a wrapper of garbage"),
    pytest.param(wrapper(b"not gzip"), E.INVALID_RECORD, id="a wrapper that cannot be opened"),
    pytest.param(wrapper(gzip.compress(ZIPPED)), E.INVALID_RECORD, id="a wrapper in a wrapper"),
    pytest.param(flagged(build_message_set(RECORDS[:1]), ZSTD), E.INVALID_RECORD, id="zstd"),
    pytest.param(flagged(build_message_set(RECORDS[:1]), 7), E.INVALID_RECORD, id="an unknown codec"),
    pytest.param(build_message_set([Record(timestamp=-2, value=b"v")]), E.INVALID_TIMESTAMP, id="timestamp -2"),
    pytest.param(build_message_set([Record(timestamp=1, value=b"v" * LARGE)]), E.MESSAGE_TOO_LARGE, id="too large"),
]


@pytest.mark.parametrize(("data", "expected"), ODD)
def test_what_is_no_good_set(data, expected):
    assert gather(data, LARGE) == expected


def test_what_is_cut_off_is_left_out():
    found = gather(PLAIN[:-3], LARGE)
    assert isinstance(found, Batch)
    assert list(found.records()) == RECORDS[:2]


def test_a_set_with_more_records_than_anybody_sends():
    many = build_message_set([Record(timestamp=1)] * (MOST_RECORDS + 1), codec=GZIP)
    assert len(many) < LARGE
    assert gather(many, LARGE) == E.INVALID_RECORD


def test_a_bomb_costs_bounded_memory():
    bomb = wrapper(gzip.compress(build_message_set([Record(timestamp=1, value=bytes(10**9 // 8))])))
    assert len(bomb) < LARGE
    tracemalloc.start()
    try:
        assert gather(bomb, LARGE) == E.INVALID_RECORD
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_becomes_a_set(codec, magic):
    batch = build_batch(RECORDS, codec=codec, base_offset=7)
    told = scatter(batch, 7, magic)
    assert isinstance(told, bytes)
    found = [record for message in read(told) for record in message.records()]
    assert [(each.offset, each.key, each.value) for each in found] == [
        (7 + each.offset, each.key, each.value) for each in RECORDS
    ]
    assert [each.timestamp for each in found] == ([5, 3, 9] if magic else [-1] * 3)
    assert {message.magic for message in read(told)} == {magic}


def offsets(told: bytes | E) -> list[int]:
    assert isinstance(told, bytes)
    return [record.offset for message in read(told) for record in message.records()]


@pytest.mark.parametrize(("codec", "expected"), [(NONE, [1, 2]), (GZIP, [0, 1, 2])])
def test_a_compressed_batch_is_told_from_its_start(codec, expected):
    assert offsets(scatter(build_batch(RECORDS, codec=codec), 1, 1)) == expected


def test_headers_are_lost():
    batch = build_batch([Record(timestamp=1, value=b"v", headers=[("h", b"1")])])
    (message,) = read(scatter(batch, 0, 1))
    assert [each.headers for each in message.records()] == [()]


def test_markers_are_left_out():
    marker = build_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=3
    )
    last = build_batch(RECORDS[:1], base_offset=4)
    assert offsets(scatter(build_batch(RECORDS) + marker + last, 0, 1)) == [0, 1, 2, 4]
    assert scatter(marker, 3, 1) == b""


def test_the_time_of_the_broker_stays_that():
    (message, *_) = read(scatter(build_batch(RECORDS, log_append_time=77), 0, 1))
    assert (message.log_append_time, message.max_timestamp) == (True, 77)


def test_converted_messages_are_no_larger_than_their_batches():
    many = b"".join(build_batch([Record(value=b"v")] * 50, base_offset=50 * n) for n in range(20))
    told = scatter(many, 0, 0)
    assert len(told) == len(many)
    assert offsets(told) == list(range(len(offsets(told))))
    first = build_batch([Record(value=b"v")] * 50)
    assert offsets(scatter(first, 0, 0)) == list(range(50))


BAD = [
    pytest.param(build_batch(RECORDS, codec=ZSTD, base_offset=3), E.UNSUPPORTED_COMPRESSION_TYPE, id="zstd"),
    pytest.param(build_batch(RECORDS, base_offset=3)[:-1] + b"\xff", E.CORRUPT_MESSAGE, id="broken"),
    pytest.param(build_batch([Record()] * (MOST_RECORDS + 1), base_offset=3), E.CORRUPT_MESSAGE, id="too many"),
]


@pytest.mark.parametrize(("bad", "expected"), BAD)
def test_what_cannot_be_told_stops_the_rest(bad, expected):
    assert scatter(bad + build_batch(RECORDS, base_offset=9), 3, 1) == expected
    assert offsets(scatter(build_batch(RECORDS) + bad, 0, 1)) == [0, 1, 2]


def test_a_set_goes_through_a_log_unchanged():
    batch = gather(ZIPPED, LARGE)
    assert isinstance(batch, Batch)
    told = scatter(read_batch(batch.data).data, 0, 1)
    assert isinstance(told, bytes)
    (message,) = read(told)
    assert list(message.records()) == RECORDS
