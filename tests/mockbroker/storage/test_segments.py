"""Segments up to their first damage, and the names in a log directory."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

import pytest

from kwire.records import Record, build_batch
from kwire.records.batch import CRC_AT, HEADER, MAGIC_AT, Batch
from mockbroker.storage import segments
from mockbroker.storage.segments import (
    OFFSETS_IN_A_SEGMENT,
    Damage,
    Directory,
    Kind,
    Reason,
    SegmentFiles,
    classify_files,
    directory_name,
    parse_directory_name,
    read_segment,
    segment_name,
)

BASE = 7
BATCHES = [
    build_batch([Record(key=b"a", value=b"1"), Record(key=b"b", value=b"2")], base_offset=BASE),
    build_batch([Record(key=b"c", value=b"x" * 90)], base_offset=9, codec=1),
    build_batch([Record(key=b"d", value=None)], base_offset=20),  # compaction leaves gaps
]
SEGMENT = b"".join(BATCHES)
STARTS = [sum(map(len, BATCHES[:n])) for n in range(len(BATCHES) + 1)]


def read(data: bytes, base: int = BASE, chunk: int = 1 << 20) -> tuple[list[Batch], Damage | None]:
    chunks = (data[at : at + chunk] for at in range(0, len(data), chunk))
    *found, last = [*read_segment(chunks, base), None]
    if found and isinstance(found[-1], Damage):
        last = found.pop()
    assert all(isinstance(each, Batch) for each in found)
    return found, last


@pytest.mark.parametrize("chunk", [1, 7, 61, 100, 1 << 20])
def test_whole_batches_whatever_the_pieces(chunk):
    found, damage = read(SEGMENT, chunk=chunk)
    assert damage is None
    assert [batch.data for batch in found] == BATCHES
    assert [batch.position for batch in found] == STARTS[:-1]


def test_an_empty_segment():
    assert read(b"") == ([], None)


@pytest.mark.parametrize("size", range(len(SEGMENT)))
def test_cut_anywhere(size):
    found, damage = read(SEGMENT[:size], chunk=50)
    whole = sum(end <= size for end in STARTS[1:])
    assert len(found) == whole
    if size in STARTS:
        assert damage is None
    else:
        assert (damage.reason, damage.position) == (Reason.TORN, STARTS[whole])
        assert damage.offset == [BASE, 9, 10][whole]


@pytest.mark.parametrize("at", range(len(SEGMENT)))
def test_a_flipped_byte_is_no_other_content(at):
    """The checksum covers all but base offset, length and leader epoch. The first two have their own checks."""
    data = bytearray(SEGMENT)
    data[at] ^= 0x40
    found, damage = read(bytes(data))
    hit = sum(start <= at for start in STARTS) - 1
    inside = at - STARTS[hit]
    assert [batch.data for batch in found[:hit]] == BATCHES[:hit]
    if 12 <= inside < MAGIC_AT:  # the flipped byte is in the leader epoch
        assert damage is None
        assert [batch.data[MAGIC_AT:] for batch in found] == [data[MAGIC_AT:] for data in BATCHES]
        return
    if 4 <= inside < 8:  # the flipped base offset is still plausible, so only the following batch shows the damage
        assert len(found) == hit + 1 if hit < 2 else damage is None
        return
    assert len(found) == hit
    assert damage.position == STARTS[hit]
    expected = {Reason.OFFSET} if inside < 8 else {Reason.LENGTH, Reason.TORN, Reason.CRC} if inside < 12 else None
    assert damage.reason in (expected or ({Reason.MAGIC} if inside == MAGIC_AT else {Reason.CRC}))


def with_length(size: int) -> bytes:
    return BATCHES[0][:8] + struct.pack(">i", size) + BATCHES[0][12:] + bytes(100)


BAD = [
    (bytes(4096), Reason.LENGTH),  # some file systems leave zeros after a lost write
    (bytes(10), Reason.TORN),
    (with_length(-1), Reason.LENGTH),
    (with_length(HEADER.size - 12 - 1), Reason.LENGTH),
    (with_length(2**31 - 1), Reason.LENGTH),
    (with_length(segments.MAX_BATCH - 12 + 1), Reason.LENGTH),
    (with_length(segments.MAX_BATCH - 12), Reason.TORN),
    (BATCHES[0][:MAGIC_AT] + b"\1" + BATCHES[0][MAGIC_AT + 1 :], Reason.MAGIC),
    (BATCHES[0][:CRC_AT] + b"\0\0\0\0" + BATCHES[0][CRC_AT + 4 :], Reason.CRC),
    (build_batch([Record(value=b"")], base_offset=8), Reason.OFFSET),
    (build_batch([Record(value=b"")], base_offset=BASE + OFFSETS_IN_A_SEGMENT), Reason.OFFSET),
]


@pytest.mark.parametrize(("data", "reason"), BAD)
def test_damage_after_a_whole_batch(data, reason):
    found, damage = read(BATCHES[0] + data)
    assert len(found) == 1
    assert (damage.position, damage.offset, damage.reason) == (len(BATCHES[0]), 9, reason)
    assert damage.text


def test_no_more_is_read_than_a_batch_takes():
    requested = []

    def endless() -> Iterator[bytes]:
        yield SEGMENT
        for number in range(1000):
            requested.append(number)
            yield bytes(1000)

    assert len(list(islice(read_segment(endless(), BASE), 3))) == 3
    assert requested == []
    (*_, damage) = read_segment(endless(), BASE)
    assert damage.reason is Reason.LENGTH
    assert requested == [0]


DIRECTORIES = [
    ("orders-0", Directory("orders", 0)),
    ("__consumer_offsets-49", Directory("__consumer_offsets", 49)),
    ("a-b-3-12", Directory("a-b-3", 12)),
    ("a.b-7", Directory("a.b", 7)),
    ("of-delete-1", Directory("of-delete", 1)),
    ("a-b.c-3.0123456789abcdef0123456789abcdef-delete", Directory("a-b.c", 3, Kind.DELETED)),
    ("orders-3.0123456789abcdef0123456789abcdef-future", Directory("orders", 3, Kind.FUTURE)),
    ("orders-3.0123456789abcdef0123456789abcdef-stray", Directory("orders", 3, Kind.STRAY)),
    ("orders", None),
    ("orders-", None),
    ("-3", None),
    ("orders-x", None),
    ("orders-1-delete", None),
    ("orders-\N{ARABIC-INDIC DIGIT ONE}", None),
    ("remote-log-index-cache", None),
]


@pytest.mark.parametrize(("name", "directory"), DIRECTORIES)
def test_names_of_directories(name, directory):
    assert parse_directory_name(name) == directory
    if directory is not None and directory.kind is Kind.LIVE:
        assert directory_name(directory.topic, directory.partition) == name


def log(base: int, suffix: str = ".log") -> str:
    return segment_name(base, suffix)


def test_segments_stand_in_order_and_alone():
    names = [
        log(20),
        log(3),
        log(3, ".index"),
        log(3, ".timeindex"),
        log(20, ".snapshot"),
        "partition.metadata",
        "7.log",
    ]
    assert classify_files(names) == SegmentFiles({3: log(3), 20: log(20)})


def test_files_that_a_start_removes():
    names = [log(0), log(0, ".log.deleted"), log(5, ".log.cleaned"), log(5, ".index.cleaned")]
    result = classify_files(names)
    assert result.segments == {0: log(0)}
    assert sorted(result.dropped) == sorted(names[1:])
    assert result.with_swaps(99) == result


def test_swapped_segments_replace_their_sources():
    result = classify_files([log(0), log(5), log(9), log(30), log(0, ".log.swap"), log(0, ".index.swap")])
    assert result.swaps == {0: log(0, ".log.swap")}
    assert result.with_swaps(end=30) == SegmentFiles(
        {0: log(0, ".log.swap"), 30: log(30)}, {}, [log(0), log(5), log(9)]
    )


def test_a_split_that_did_not_end_is_undone():
    result = classify_files([log(0), log(0, ".log.swap"), log(8, ".log.swap"), log(8, ".log.cleaned")])
    assert result.swaps == {0: log(0, ".log.swap")}
    assert sorted(result.dropped) == [log(8, ".log.cleaned"), log(8, ".log.swap")]


def test_other_files_do_not_hide_segments():
    assert classify_files([".nfs0001", log(0), "leader-epoch-checkpoint"]) == SegmentFiles({0: log(0)})


def test_swaps_of_one_compaction_replace_from_the_first_on():
    result = classify_files([log(0), log(5), log(9), log(30), log(5, ".log.swap"), log(9, ".log.swap")])
    assert result.with_swaps(end=30) == SegmentFiles(
        {0: log(0), 5: log(5, ".log.swap"), 9: log(9, ".log.swap"), 30: log(30)}, {}, [log(5), log(9)]
    )


def test_swaps_after_the_first_unfinished_segment_are_dropped():
    names = [log(0), log(5, ".log.swap"), log(5, ".log.cleaned"), log(9, ".log.swap"), log(20, ".log.cleaned")]
    assert classify_files(names).swaps == {}


def test_negative_magic_is_reported_with_its_sign():
    data = bytearray(BATCHES[0])
    data[MAGIC_AT] = 0xFF
    _, damage = read(bytes(data))
    assert (damage.reason, damage.text) == (Reason.MAGIC, "magic -1 is not supported, expected 2")


def test_short_message_of_an_old_magic_is_no_length_error():
    data = bytearray(HEADER.size)
    struct.pack_into(">qi", data, 0, BASE, MAGIC_AT)  # a message of magic 0 has a shorter header
    data[MAGIC_AT] = 0
    _, damage = read(bytes(data))
    assert damage.reason is Reason.MAGIC


@pytest.mark.parametrize(("size", "reason"), [(MAGIC_AT, Reason.LENGTH), (MAGIC_AT + 1, Reason.MAGIC)])
def test_message_has_at_least_its_magic(size, reason):
    data = bytearray(HEADER.size)
    struct.pack_into(">qi", data, 0, BASE, size - 12)
    data[MAGIC_AT] = 1
    _, damage = read(bytes(data))
    assert damage.reason is reason


def test_magic_is_the_last_byte_that_every_message_has():
    data = bytearray(MAGIC_AT + 1)
    struct.pack_into(">qi", data, 0, BASE, 100)
    data[MAGIC_AT] = 1
    _, damage = read(bytes(data))
    assert damage.reason is Reason.MAGIC


def test_batch_without_records_is_whole():
    """Compaction retains the last batch of a producer with only its header."""
    data = build_batch([], base_offset=BASE, last_offset=BASE + 2)
    assert len(data) == HEADER.size
    found, damage = read(data + BATCHES[2])
    assert ([batch.last_offset for batch in found], damage) == ([BASE + 2, 20], None)
