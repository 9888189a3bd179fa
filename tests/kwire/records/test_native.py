"""The native reader and writer of records agree with those in Python, to which they leave every unusual record."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any
from unittest.mock import patch

import cramjam
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire import records as package
from kwire.engines.chosen import available
from kwire.errors import WireError
from kwire.records import batch as batches
from kwire.records import compression
from kwire.records import record as module
from kwire.records.batch import Batch, build_batch
from kwire.records.checksum import crc32c, crc32c_with
from kwire.records.limits import RECORDS_AT_ONCE
from kwire.records.message_set import build_message_set
from kwire.records.native import batches_of, codecs, records_of, written_natively
from kwire.records.record import Record, read_records, write_records

pytestmark = pytest.mark.skipif("native" not in available(), reason="the native engine is not installed: make native")

INT64 = st.integers(-(2**63), 2**63 - 1)
BYTES = st.none() | st.binary(max_size=10) | st.sampled_from([63, 64, 127, 128, 8191, 8192]).map(bytes)
NAMES = st.text(max_size=5) | st.sampled_from(["x" * 64, "\udcff", "\ud800"])
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.integers(-5, 2**31 + 5),
        timestamp=INT64 | st.integers(-10_000, 10_000),
        key=BYTES,
        value=BYTES | st.just(bytearray(b"abc")),
        headers=st.lists(st.tuples(NAMES, BYTES), max_size=3)
        | st.just(tuple(("k", b"v") for _ in range(70)))
        | st.just([["a list", b"v"]]),
    ),
    min_size=1,
    max_size=5,
)


READERS = {name: batches_of(Batch, Record, name) for name in ("native", "compiled") if name in available()}
CODECS = (compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD)


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Read and write records with an engine inside the ``with`` block."""

    def written(of: type, *arguments: Any) -> bytes | None:
        return written_natively(of, *arguments) if name == "native" else None

    with (
        patch.object(module, "records_of", lambda into: records_of(into, name)),
        patch.object(module, "written_natively", written),
        patch.object(batches, "written_natively", written),
        patch.object(batches, "NATIVE", READERS[name]),
        patch.object(batches, "WRITER", records_of(Record, name)),
        patch.object(package, "NATIVE", READERS[name]),
        patch.object(compression, "NATIVE", codecs(name)),
        patch("kwire.records.native.DEFAULT", name),
    ):
        yield


def outcome(name: str, do: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result, or type and text of the error."""
    with engine(name):
        try:
            return do(*arguments, **options)
        except (WireError, TypeError, ValueError) as error:
            return type(error), str(error)


def read(data: bytes, at: int, count: int, *header: Any) -> tuple[list[Record], str]:
    """Return the records before the error, and the error."""
    found: list[Record] = []
    try:
        found += chain.from_iterable(read_records(data, at, count, *header, Record))
    except WireError as error:
        return found, repr(error)
    return found, ""


@given(RECORDS, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3), INT64, INT64)
@example([Record(value=b"v")], [(0, 0x0D)], 0, 0)  # a length of -7
@example([Record(value=b"v")], [(3, 0x01)], 0, 0)  # an offset of -1
@example([Record(value=b"v"), Record()], [(7, 0x80)], 0, 0)
def test_engines_read_the_same(records: list[Record], changes: list[Any], offset: int, stamp: int) -> None:
    data = outcome("compiled", write_records, records, None, stamp)
    if isinstance(data, bytes):
        changed = bytearray(data)
        for at, value in changes:
            changed[at % len(data)] = value
        for header in ((offset, stamp, None), (offset, stamp, 7)):
            arguments = bytes(changed), 0, len(records), *header
            assert outcome("native", read, *arguments) == outcome("compiled", read, *arguments)


@given(RECORDS, INT64, st.booleans())
def test_engines_write_the_same(records: list[Record], stamp: int, keep_offsets: bool) -> None:
    first, second = (outcome(name, write_records, records, None, stamp) for name in ("native", "compiled"))
    assert first == second
    first, second = (outcome(name, build_batch, records, keep_offsets=keep_offsets) for name in ("native", "compiled"))
    assert first == second


def batches_in(data: bytes, **options: Any) -> list[Any]:
    """Return each batch with its records, and the errors."""
    found: list[Any] = []
    try:
        for one in package.read(data):
            found.append((type(one), one))
            try:
                found += one.records(**options)
            except WireError as error:
                found.append(repr(error))
    except WireError as error:
        found.append(repr(error))
    return found


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "codec": st.integers(0, 4),
        "base_offset": INT64,
        "leader_epoch": st.integers(-1, 2**31),
        "producer_id": INT64,
        "producer_epoch": st.integers(-1, 2**15),
        "base_sequence": st.integers(-1, 2**31 - 1),
        "log_append_time": INT64,
        "transactional": st.booleans(),
        "control": st.booleans(),
        "delete_horizon": INT64,
        "max_timestamp": INT64,
        "last_offset": st.integers(0, 9),
        "keep_offsets": st.booleans(),
    },
)


@given(
    RECORDS, OPTIONS, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=2), st.integers(0, 80)
)
def test_engines_write_and_read_the_same_batches(
    records: list[Record], options: dict[str, Any], changes: list[Any], cut: int
) -> None:
    written, data = (outcome(name, build_batch, records, **options) for name in ("native", "compiled"))
    assert written == data
    if isinstance(data, bytes):
        message = build_message_set([Record(value=b"v")], magic=1)
        for whole in (data * 2, data + message + data, (data * 2)[: -cut or None]):
            changed = bytearray(whole)
            for at, value in changes:
                changed[at % len(whole)] = value
            for flags in ({}, {"verify_crc": False}, {"limit": 100}):
                first, second = (outcome(name, batches_in, bytes(changed), **flags) for name in READERS)
                assert first == second


def test_a_changed_batch_is_read_with_its_changes() -> None:
    (one,) = package.read(build_batch([Record(timestamp=5, value=b"v"), Record(timestamp=6)]))
    assert isinstance(one, Batch)
    one.base_offset, one.base_timestamp = 70, 1_000
    for name in READERS:
        with engine(name):
            assert [(record.offset, record.timestamp) for record in one.records()] == [(70, 1_000), (71, 1_001)]
    one.crc += 1
    assert outcome("native", one.records) == outcome("compiled", one.records)
    del one.crc
    with engine("native"), pytest.raises(AttributeError):
        one.records()


def test_an_iterator_over_batches_stays_at_its_end() -> None:
    batch = build_batch([Record(value=b"v")])
    with engine("native"):
        for data in (b"", batch, batch + bytes(16), batch + batch[:40]):
            found = package.read(data)
            assert len([*found]) == (len(data) >= len(batch))
            assert [*found] == []
        assert [len([*package.read(given)]) for given in (None, bytearray(batch), memoryview(batch))] == [0, 1, 1]


TEXTS = st.one_of(
    st.binary(max_size=300),
    st.lists(st.sampled_from([b"key", b"value", bytes(60), b"x" * 40]), max_size=60).map(b"".join),
    st.sampled_from([bytes(70_000), bytes(range(256)) * 600, b"ab" * 40_000]),
)


def frames(text: bytes) -> dict[str, bytes]:
    """Return compressed forms of a text that clients write, by name. The name begins with the name of the codec."""
    deflater = zlib.compressobj(1, zlib.DEFLATED, 31)
    writer = cramjam.lz4.Compressor(content_checksum=True, block_linked=False)
    writer.compress(text)
    plain = {
        "gzip": compression.compress(compression.GZIP, text),
        "gzip of zlib": deflater.compress(text) + deflater.flush(),
        "snappy": compression.compress(compression.SNAPPY, text),
        "snappy, one block": bytes(cramjam.snappy.compress_raw(text)),
        "lz4": compression.compress(compression.LZ4, text),
        "lz4 with checksums": bytes(writer.finish()),
        "zstd": bytes(cramjam.zstd.compress(text)),
        "zstd without a size": b"".join(compression.compressed_pieces(compression.ZSTD, text)),
    }
    return {name: data for name, data in plain.items() if text or "block" not in name}


def unusual_frames(text: bytes) -> dict[str, bytes]:
    """Return compressed forms of a text that few clients write, and invalid ones, by name."""
    usual = frames(text)
    named = bytearray(usual["gzip"])
    named[3] = 8
    named[10:10] = b"name\0"
    wrong_sum = usual["lz4"][:6] + bytes([usual["lz4"][6] ^ 1]) + usual["lz4"][7:]
    skipped = bytes.fromhex("502a4d18 02000000 0000")
    return {
        "gzip with a name": bytes(named),
        "gzip, two members": usual["gzip"] * 2,
        "gzip with trailing bytes": usual["gzip"] + b"x",
        "gzip of another size": usual["gzip"][:-1] + b"\x01",
        "gzip with a wrong checksum": usual["gzip"][:-8] + bytes([usual["gzip"][-8] ^ 1]) + usual["gzip"][-7:],
        "snappy without its end": usual["snappy"][:-1],
        "lz4 of dependent blocks": bytes(cramjam.lz4.compress(text)),
        "lz4, two frames": usual["lz4"] * 2,
        "lz4 with a wrong checksum": wrong_sum,
        "zstd after a skippable frame": skipped + usual["zstd"],
        "zstd, two frames": usual["zstd"] * 2,
        "zstd without its end": usual["zstd"][:-1],
        "zstd with a block that is too large": bytes.fromhex("28b52ffd 0058 32f032 f0 010000"),
    }


def codec_of(name: str) -> int:
    return next(codec for codec in CODECS if name.startswith(compression.NAMES[codec]))


@given(TEXTS)
@example(bytes(200))
def test_usual_frames_are_decompressed_natively(text: bytes) -> None:
    for name, data in frames(text).items():
        assert codecs("native").decompress(codec_of(name), data, 1 << 24) == text, name
        if text:
            assert codecs("native").decompress(codec_of(name), data, len(text) - 1) is None, name


@given(TEXTS)
@example(b"")
@example(bytes(200))
def test_unusual_frames_are_left_to_python(text: bytes) -> None:
    for name, data in unusual_frames(text).items():
        assert codecs("native").decompress(codec_of(name), data, 1 << 24) is None, name
    assert codecs("native").decompress(0, text, 1 << 24) is None


@given(
    TEXTS,
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3),
    st.integers(0, 12),
    st.sampled_from([None, 0, 100, 1 << 20]),
)
def test_engines_decompress_the_same(text: bytes, changes: list[Any], cut: int, limit: int | None) -> None:
    for name, data in (frames(text) | unusual_frames(text)).items():
        changed = bytearray(data[: -cut or None])
        for at, value in changes:
            if changed:
                changed[at % min(len(changed), 40)] = value
        arguments = codec_of(name), bytes(changed)
        first, second = (outcome(each, compression.decompress, *arguments, limit=limit) for each in READERS)
        assert first == second, name


@given(RECORDS, st.sampled_from(CODECS), st.integers(0, 2), st.lists(st.integers(0, 10**6), max_size=2))
def test_engines_read_the_same_compressed_batches(
    records: list[Record], codec: int, spare: int, changes: list[int]
) -> None:
    """The CRC is right, but the compressed records are not always valid."""
    data = outcome("compiled", build_batch, records, codec=codec)
    if isinstance(data, bytes):
        changed = bytearray(data + bytes(spare))
        struct.pack_into(">i", changed, 8, len(changed) - batches.PREFIX)
        for at in changes:
            changed[batches.HEADER.size + at % (len(changed) - batches.HEADER.size)] ^= 1 << at % 8
        struct.pack_into(">I", changed, batches.CRC_AT, crc32c(bytes(changed), batches.CRC_FROM))
        first, second = (outcome(name, batches_in, bytes(changed)) for name in READERS)
        assert first == second


LARGE = [
    Record(timestamp=n // 3, key=b"%d" % n, value=bytes(n % 90), headers=()) for n in range(2 * RECORDS_AT_ONCE + 1)
]


@pytest.mark.parametrize("codec", [compression.NONE, *CODECS])
@pytest.mark.parametrize("count", [RECORDS_AT_ONCE, RECORDS_AT_ONCE + 1, 2 * RECORDS_AT_ONCE, len(LARGE)])
@pytest.mark.parametrize("append_time", [None, 7])
def test_engines_read_the_same_large_batches(codec: int, count: int, append_time: int | None) -> None:
    data = build_batch(LARGE[:count], codec=codec, log_append_time=append_time)
    first, second = (outcome(name, batches_in, data) for name in READERS)
    assert first == second
    times = [n // 3 if append_time is None else append_time for n in range(count)]
    assert [(one.offset, one.timestamp) for one in first[1:]] == list(enumerate(times))


@pytest.mark.parametrize("at", [0, RECORDS_AT_ONCE - 1, RECORDS_AT_ONCE, RECORDS_AT_ONCE + 5, len(LARGE) - 1])
@pytest.mark.parametrize("damage", ["many headers", "invalid", "missing", "trailing bytes", "count"])
def test_engines_read_the_same_unusual_large_batches(at: int, damage: str) -> None:
    """The unusual record, or the end of the data, is in any of the portions that are read at once."""
    unusual = Record(timestamp=-5, value=b"v", headers=[("k", b"v")] * 70 if damage == "many headers" else ())
    records = [*LARGE[:at], unusual, *LARGE[at + 1 :]]
    header, plain = build_batch(records)[: batches.HEADER.size], write_records(records, None, records[0].timestamp)
    before = len(write_records(records[:at], None, records[0].timestamp)) if at else 0
    match damage:
        case "invalid":
            plain = plain[:before] + b"\x02" + plain[before + 1 :]
        case "missing":
            plain = plain[:before]
        case "trailing bytes":
            plain += bytes(at + 1)
        case "count":
            header = header[: batches.COUNT_AT] + struct.pack(">i", max(at, 1))
    body = compression.compress(compression.LZ4, plain)
    changed = bytearray(header + body)
    struct.pack_into(">i", changed, 8, len(changed) - batches.PREFIX)
    struct.pack_into(">h", changed, batches.CRC_FROM, compression.LZ4)
    struct.pack_into(">I", changed, batches.CRC_AT, crc32c(bytes(changed), batches.CRC_FROM))
    first, second = (outcome(name, batches_in, bytes(changed)) for name in READERS)
    assert first == second
    assert isinstance(first[-1], str) is (damage != "many headers")


def test_records_of_two_large_batches_are_read_in_turn() -> None:
    """Each of the iterators has a buffer of its own."""
    data = build_batch(LARGE, codec=compression.ZSTD)
    other = build_batch([*LARGE[::-1]], codec=compression.ZSTD)
    with engine("native"):
        (one,), (two,) = package.read(data), package.read(other)
        pairs = list(zip(one.records(), two.records(), strict=True))
        again = list(one.records())
    assert (
        [first.key for first, _ in pairs] == [second.key for _, second in pairs][::-1] == [each.key for each in LARGE]
    )
    assert [record.key for record in again] == [each.key for each in LARGE]


@given(st.binary(max_size=300), st.integers(0, 500), st.integers(0, 40))
@example(b"a", 131_071, 0)
@example(b"a", 131_072, 0)
@example(b"a", 300_000, 0)
@example(b"abcdefgh-abcd" * 7, 2_000, 11)
def test_zstd_frames_are_those_of_python(piece: bytes, times: int, cut: int) -> None:
    text = (piece * times)[cut:]
    assert outcome("native", compression.compress, compression.ZSTD, text) == bytes(cramjam.zstd.compress(text))


@given(st.binary(max_size=60), st.integers(0, 5), st.integers(0, 70))
def test_engines_read_the_same_noise(data: bytes, count: int, at: int) -> None:
    arguments = data, min(at, len(data)), count, 0, 0, None
    assert outcome("native", read, *arguments) == outcome("compiled", read, *arguments)


def test_usual_records_are_not_left_to_python() -> None:
    records = [Record(timestamp=n, key=b"k", value=bytes(200), headers=[("ü", b"v"), ("n", None)]) for n in range(9)]
    native = records_of(Record, "native")
    data = native.write(records, None, 0, None)
    found, end = native.read(data, 0, 9, 0, 0)
    assert (len(found), end) == (9, len(data))
    assert [r.offset for r in found] == list(range(9))
    assert found[0].headers == (("ü", b"v"), ("n", None))


def test_a_header_out_of_range_is_left_to_python() -> None:
    assert written_natively(Record, [Record()], None, 0, (2**63, 0, bytes(40))) is None
    assert written_natively(Record, (Record(),), None, 0) is None
    assert written_natively(Record, [Record(timestamp=1.5)], None, 0) is None  # type: ignore[arg-type]


def test_classes_of_records() -> None:
    @dataclass(slots=True, kw_only=True, eq=False)
    class Heir(Record):
        partition: int = 0

    class Watched(Record):
        def __setattr__(self, name: str, value: object) -> None:
            object.__setattr__(self, name, value)

    class Replaced(Record):
        offset = property(lambda _: 5)  # type: ignore[assignment]

    data = records_of(Record, "native").write([Record(value=b"v")], None, 0, None)
    (one,), _ = records_of(Heir, "native").read(data, 0, 1, 3, 0)
    assert (type(one), one.offset, hasattr(one, "partition")) == (Heir, 3, False)
    assert records_of(Watched, "native") is None
    assert records_of(Replaced, "native") is None
    assert records_of(Record, "compiled") is None


@given(st.binary(max_size=100), st.integers(0, 120), st.integers(0, 2**32 - 1))
def test_engines_compute_the_same_checksum(data: bytes, start: int, before: int) -> None:
    assert crc32c_with("native")(data, start, before) == crc32c_with("compiled")(data, start, before)
