"""The common reader for records of any magic, compared with the records that Kafka's classes read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import golden
import pytest

import kwire.records
from kwire.errors import DecodeError
from kwire.records import Batch, Record, RecordSet, build_batch, build_message_set, read
from kwire.records.compression import NAMES

OLD = build_message_set([Record(value=b"0"), Record(value=b"1")], magic=0)
WRAPPED = build_message_set([Record(value=b"2"), Record(value=b"3")], codec=1, base_offset=2)
NEW = build_batch([Record(value=b"4")], base_offset=4)
MIXED = OLD + WRAPPED + NEW


def test_public_names() -> None:
    assert all(hasattr(kwire.records, name) for name in kwire.records.__all__)


def test_all_forms_in_one_field() -> None:
    results = list(read(MIXED))
    assert [each.magic for each in results] == [0, 0, 1, 2]
    assert [(each.base_offset, each.last_offset, each.count) for each in results] == [
        (0, 0, 1),
        (1, 1, 1),
        (2, 3, 2),
        (4, 4, 1),
    ]
    assert [(record.offset, record.value) for each in results for record in each.records()] == [
        (n, b"%d" % n) for n in range(5)
    ]
    assert b"".join(each.data for each in results) == MIXED
    assert [MIXED[each.position :][: len(each.data)] for each in results] == [each.data for each in results]


@pytest.mark.parametrize("data", [None, b"", MIXED[:16], MIXED[:20]])
def test_nothing_whole(data: bytes | None) -> None:
    assert list(read(data)) == []


def test_truncated_batch_is_left_out() -> None:
    ends = [len(OLD) // 2, len(OLD), len(OLD + WRAPPED), len(MIXED)]
    for cut in range(len(MIXED) + 1):
        assert len(list(read(MIXED[:cut]))) == sum(end <= cut for end in ends)


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_no_such_magic(magic: int) -> None:
    reader = read(OLD + NEW[:16] + bytes([magic]) + NEW[17:])
    assert [next(reader).magic for _ in range(2)] == [0, 0]
    with pytest.raises(DecodeError, match=f"RecordBatch at byte {len(OLD) + 16}, magic: magic"):
        next(reader)


@pytest.mark.parametrize("codec", sorted(NAMES))
def test_headers_open_nothing(codec: int) -> None:
    """The header of a batch is read even if its records are invalid."""
    batch = build_batch([Record(timestamp=5), Record(timestamp=9)], codec=codec, base_offset=7, producer_id=3)
    (found,) = read(batch[:61] + b"\xff" * (len(batch) - 61))
    assert isinstance(found, Batch)
    assert (found.base_offset, found.last_offset, found.count, found.codec) == (7, 8, 2, codec)
    assert (found.base_timestamp, found.max_timestamp, found.producer_id, found.crc_is_right()) == (5, 9, 3, False)


def dumped(origin: str) -> Iterator[tuple[bytes, list[dict[str, Any]]]]:
    """Yield the bytes of every records field in the frames, and the batches that Kafka read from them."""
    for folder in golden.FOLDERS[origin]:
        for stem in ("produce", "fetch", "share_fetch", "fetch_snapshot"):
            path = folder / f"{stem}.jsonl.gz"
            for line in golden.read(path) if path.exists() else ():
                yield from ((bytes.fromhex(field["hex"]), field["batches"]) for field in line.get("records") or [])


def as_dumped(each: RecordSet) -> dict[str, Any]:
    values = {
        "base_offset": each.base_offset,
        "last_offset": each.last_offset,
        "magic": each.magic,
        "compression": NAMES[each.codec],
        "size": len(each.data),
        "max_timestamp": each.max_timestamp,
        "valid": each.crc_is_right(),
        "count": each.count,
        "records": [record_as_dumped(record) for record in each.records()],
    }
    if each.magic:
        values["timestamp_type"] = "LogAppendTime" if each.log_append_time else "CreateTime"
    if isinstance(each, Batch):
        values |= {
            "crc": each.crc,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "base_sequence": each.base_sequence,
            "transactional": each.transactional,
            "control": each.control,
            "partition_leader_epoch": each.leader_epoch,
        }
    return values


def record_as_dumped(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.hex(),
        "value": None if record.value is None else record.value.hex(),
        "headers": [[name, None if content is None else content.hex()] for name, content in record.headers],
    }


def compare(data: bytes, expected: list[dict[str, Any]], seen: Counter[tuple[int, str]]) -> None:
    results = list(read(data))
    assert len(results) == len(expected)
    for each, theirs in zip(results, expected, strict=True):
        ours = as_dumped(each)
        both = ours.keys() & theirs.keys()
        assert {key: ours[key] for key in both} == {key: theirs[key] for key in both}
        assert each.magic < 2 or theirs.keys() <= ours.keys()
        seen[each.magic, NAMES[each.codec]] += 1


@pytest.mark.parametrize("origin", golden.FOLDERS)
def test_batches_of_kafka(origin: str) -> None:
    seen: Counter[tuple[int, str]] = Counter()
    for data, expected in dumped(origin):
        compare(data, expected, seen)
    assert set(seen) == {(2, name) for name in NAMES.values()}
    golden.COUNTS[f"record batches of {origin}"] += seen.total()


def test_sets_of_kafka() -> None:
    seen: Counter[tuple[int, str]] = Counter()
    for line in golden.read(golden.ROOT / "fixtures" / "records" / "sets.jsonl.gz"):
        compare(bytes.fromhex(line["hex"]), line["batches"], seen)
    assert set(seen) == {(magic, name) for magic in range(3) for name in ("none", "gzip", "snappy", "lz4")}
    golden.COUNTS["batches and messages of fixtures/records"] += seen.total()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_batches_of_any_buffer_have_bytes(kind: type) -> None:
    data = build_batch([Record(value=b"v")])
    [batch] = read(kind(data))
    assert (type(batch.data), batch.data) == (bytes, data)
