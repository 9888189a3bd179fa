"""Records that no client should send, decoded: fixtures/bad_inputs.md, under "Records and compression".

They are read or refused with a documented error. The answers of a broker to the same inputs are tested in
tests/mockbroker/broker/handlers/test_produce.py. Kafka is lenient in places, and so is the decoder.
"""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import pytest
from google_crc32c import value as crc32c

from kwire.errors import CrcError, DecodeError, LimitError, Truncated
from kwire.records import Record, build_batch, build_message_set, read
from kwire.records.batch import COUNT_AT, CRC_FROM, HEADER, read_batch
from kwire.records.compression import GZIP, LZ4, NAMES, SNAPPY, XERIAL_HEADER, ZSTD
from kwire.records.control import ControlType, build_marker

Outcome = type[DecodeError] | list[int]  # the error, or the offsets of the records

TIME = 1_700_000_000_000
TWO = build_batch([Record(timestamp=TIME, key=b"k", value=b"v"), Record(timestamp=TIME + 1, headers=[("h", b"1")])])
AT = {
    "length": 8,
    "magic": 16,
    "crc": 17,
    "attributes": 21,
    "last_delta": 23,
    "base_time": 27,
    "max_time": 35,
    "count": 57,
}
FORMS = {"length": ">i", "magic": ">b", "crc": ">I", "attributes": ">h", "last_delta": ">i", "base_time": ">q"}
FORMS |= {"max_time": ">q", "count": ">i"}


def two(body: bytes | None = None, *, mend: bool = True, **fields: int) -> bytes:
    """Return a batch of two records with other header fields or records; the checksum is right if mended."""
    data = bytearray(TWO if body is None else TWO[: HEADER.size] + body)
    if body is not None:
        struct.pack_into(">i", data, AT["length"], len(data) - 12)
    for name, value in fields.items():
        struct.pack_into(FORMS[name], data, AT[name], value)
    if mend and "crc" not in fields:
        struct.pack_into(">I", data, AT["crc"], crc32c(bytes(data[CRC_FROM:])))
    return bytes(data)


def records(*deltas: int, length: int = 0, key: str = "01", headers: str = "00") -> bytes:
    """Return records with a null value; ``length`` is added to their length."""
    result = b""
    for delta in deltas:
        body = bytes([0, 0, delta * 2 if delta >= 0 else -delta * 2 - 1]) + bytes.fromhex(key + "01" + headers)
        result += bytes([2 * (len(body) + length)]) + body
    return result


def zstd_of(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


ZEROS = bytes(80_000_000)
FOUR_GIB = bytes.fromhex("ffffffff0f")
SET = build_message_set([Record(value=b"v")], magic=0, codec=LZ4)

ROWS: list[tuple[str, Callable[[], bytes | None], Outcome]] = [
    ("null", lambda: None, []),
    ("empty", lambda: b"", []),
    ("wrong checksum", lambda: two(crc=1), CrcError),
    ("length too small", lambda: two(length=48), DecodeError),
    ("length negative", lambda: two(length=-1), DecodeError),
    ("length too large: cut short, and left out", lambda: two(length=len(TWO)), []),
    ("length 2^31-1", lambda: two(length=2**31 - 1), []),
    ("two batches", lambda: TWO + TWO, [0, 1, 0, 1]),
    ("partial second batch", lambda: TWO + TWO[:-1], [0, 1]),
    ("magic 3", lambda: two(magic=3), DecodeError),
    ("magic -1", lambda: two(magic=-1), DecodeError),
    ("magic 1, and the rest is of 2", lambda: two(magic=1), CrcError),
    ("magic 0, and the rest is of 2", lambda: two(magic=0), CrcError),
    ("count above the records", lambda: two(count=3), LimitError),
    ("count above the records, whose bytes would do", lambda: two(records(0) * 2 + bytes(7), count=3), DecodeError),
    ("count far above", lambda: two(count=10**9), LimitError),
    ("count as large as can be", lambda: two(count=2**31 - 1), LimitError),
    ("count below the records", lambda: two(count=1), DecodeError),
    ("count 0", lambda: two(count=0), DecodeError),
    ("count 0 without records, as after compaction", lambda: two(b"", count=0), []),
    ("count negative", lambda: two(count=-1), LimitError),
    ("last offset delta lies", lambda: two(last_delta=77), [0, 1]),
    ("last offset delta negative", lambda: two(last_delta=-5), [0, 1]),
    ("offset deltas 0, 5", lambda: two(records(0, 5)), [0, 5]),
    ("offset deltas 0, -3", lambda: two(records(0, -3)), [0, -3]),
    ("record length too large", lambda: two(records(0, 1, length=1)), DecodeError),
    ("record length too small", lambda: two(records(0, 1, length=-1)), DecodeError),
    ("key length lies", lambda: two(records(0, 1, key="7e")), Truncated),
    ("header count lies", lambda: two(records(0, 1, headers="0e")), LimitError),
    ("header key null", lambda: two(records(0, 1, headers="020100")), DecodeError),
    ("timestamp -2", lambda: two(base_time=-2, max_time=-2), [0, 1]),
    ("timestamp -2^63", lambda: two(base_time=-(2**63), max_time=-(2**63)), [0, 1]),
    ("timestamp 2^62", lambda: two(base_time=2**62, max_time=2**62), [0, 1]),
    ("max timestamp below the base", lambda: two(max_time=5), [0, 1]),
    ("reserved attributes", lambda: two(attributes=0x7F80), [0, 1]),
    ("codec 5", lambda: two(attributes=5), DecodeError),
    ("codec 7", lambda: two(attributes=7), DecodeError),
    ("gzip garbage", lambda: two(attributes=GZIP), DecodeError),
    ("zstd garbage", lambda: two(attributes=ZSTD), DecodeError),
    ("snappy garbage", lambda: two(attributes=SNAPPY), DecodeError),
    ("lz4 garbage", lambda: two(attributes=LZ4), DecodeError),
    ("80 MB of zeros in 2.5 kB of zstd", lambda: two(zstd_of(ZEROS), attributes=ZSTD), LimitError),
    ("80 MB of zeros in 78 kB of gzip", lambda: two(gzip.compress(ZEROS, 9), attributes=GZIP), LimitError),
    ("snappy claims 4 GiB", lambda: two(FOUR_GIB, attributes=SNAPPY), LimitError),
    ("xerial block size lies", lambda: two(XERIAL_HEADER + FOUR_GIB, attributes=SNAPPY), Truncated),
    ("lz4 with the old checksum, magic 0", lambda: SET, [0]),
    ("lz4 with the old checksum, magic 2", lambda: two(SET[26:], attributes=LZ4), DecodeError),
    ("a wrapper in a wrapper", lambda: nested(), LimitError),
    ("a control batch", lambda: build_marker(ControlType.ABORT, producer_id=1, producer_epoch=0, timestamp=1), [0]),
    ("transactional, and no producer", lambda: two(attributes=0x10), [0, 1]),
    ("base offset 55", lambda: build_batch([Record()], base_offset=55), [55]),
]  # fmt: skip


def nested() -> bytes:
    """Return a wrapper whose only message is a wrapper."""
    inner = build_message_set([Record(value=b"v")], codec=GZIP)
    packed = gzip.compress(inner, mtime=0)
    tail = inner[16:30] + struct.pack(">i", len(packed)) + packed
    return struct.pack(">qiI", 0, len(tail) + 4, zlib.crc32(tail)) + tail


def offsets(data: bytes | None, *, verify_crc: bool = True) -> list[int]:
    return [record.offset for each in read(data) for record in each.records(verify_crc=verify_crc)]


@pytest.mark.parametrize(("build", "outcome"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_bad_inputs(build: Callable[[], bytes | None], outcome: Outcome) -> None:
    data = build()
    tracemalloc.start()
    try:
        if isinstance(outcome, list):
            assert offsets(data) == outcome
        else:
            with pytest.raises(DecodeError) as caught:
                offsets(data)
            assert type(caught.value) is outcome
            assert data is not None
            assert 0 <= caught.value.offset < len(data)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 64 * 1024 * 1024


def test_wrong_checksums_may_be_ignored() -> None:
    assert offsets(two(crc=1), verify_crc=False) == [0, 1]


def test_a_count_is_refused_before_anything_is_made_of_it() -> None:
    batch = read_batch(two(count=2**31 - 1))
    tracemalloc.start()
    with pytest.raises(LimitError) as caught:
        batch.records()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.offset == COUNT_AT
    assert peak < 20_000


def test_millions_of_records_are_not_held_at_once() -> None:
    """18 kB of zstd that are two million records: a list of them would take 200 MB."""
    count = 2_000_000
    data = two(zstd_of(records(0) * count), attributes=ZSTD, count=count)
    reader = read_batch(data).records()
    tracemalloc.start()
    for _ in range(10_000):
        next(reader)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


SMALL = [Record(timestamp=5, key=b"k", value=b"v" * 70), Record(timestamp=9, headers=[("h", b"1"), ("g", None)])]


def error_of(data: bytes, verify_crc: bool) -> DecodeError | None:
    try:
        offsets(data, verify_crc=verify_crc)
    except DecodeError as error:
        return error
    return None


@pytest.mark.parametrize("codec", sorted(NAMES))
@pytest.mark.parametrize("verify_crc", [True, False])
def test_every_cut_and_every_changed_byte(codec: int, verify_crc: bool) -> None:
    data = build_batch(SMALL, codec=codec)
    inputs = [data[:cut] for cut in range(len(data))]
    for at, byte in enumerate(data):
        inputs += [data[:at] + bytes([other]) + data[at + 1 :] for other in (byte ^ 1, byte ^ 0x80, 0xFF)]
    for given in inputs:
        error = error_of(given, verify_crc)
        assert error is None or 0 <= error.offset <= len(given)


@pytest.mark.parametrize("codec", sorted(NAMES))
def test_truncation_after_a_valid_header(codec: int) -> None:
    """The length and the checksum are right, so only the records themselves are truncated."""
    data = build_batch(SMALL, codec=codec)
    for cut in range(HEADER.size, len(data)):
        given = two(data[HEADER.size : cut], attributes=codec)
        with pytest.raises(DecodeError):
            offsets(given)
