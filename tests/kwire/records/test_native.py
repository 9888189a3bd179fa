"""The native reader and writer of records agree with those in Python, which they leave every unusual record to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire import records as package
from kwire.engines.chosen import available
from kwire.errors import WireError
from kwire.records import batch as batches
from kwire.records import record as module
from kwire.records.batch import Batch, build_batch
from kwire.records.checksum import crc32c_with
from kwire.records.limits import RECORDS_AT_ONCE
from kwire.records.message_set import build_message_set
from kwire.records.native import batches_of, records_of, written_natively
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


READERS = {
    name: batches_of(Batch, Record, RECORDS_AT_ONCE, name) for name in ("native", "compiled") if name in available()
}


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
