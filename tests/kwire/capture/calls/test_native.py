"""The native reader of calls finds the calls that Python finds, in captures of clients and in damaged ones."""

from __future__ import annotations

import gzip
import mmap
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from effort import amount
from tools.captures import CAPTURES
from tools.pcap import Segment, Talk, packets, pcap, prefixed, shaken

import kwire
from kwire.capture import Call, Connection, read
from kwire.capture.calls import conversation
from kwire.capture.calls.conversation import Conversation, Row
from kwire.capture.calls.native import LONGEST_WAIT, native_reader
from kwire.capture.limits import MAX_PENDING
from kwire.engines.chosen import available
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

pytestmark = pytest.mark.skipif("native" not in available(), reason="the native engine is not installed: make native")

FILES = sorted(CAPTURES.glob("*.pcap*"))


class Counted:
    """The native reader, which counts the segments that it reads."""

    def __init__(self) -> None:
        self.reader, self.segments = native_reader(), 0

    def read(self, rows: list[Any], begin: int, *more: Any) -> Any:
        result = self.reader.read(rows, begin, *more)
        self.segments += result[0] - begin
        return result


def both(path: Path) -> tuple[list[Any], list[Any], int]:
    """Return the calls without and with the native reader, and the number of segments that the native reader reads."""
    counted = Counted()
    results = []
    for reader in (None, counted):
        with patch.object(conversation, "call_reader", lambda reader=reader: reader):
            results.append([*read(path)])
    return results[0], results[1], counted.segments


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".pcap")[0])
def test_captured_calls_are_the_same(path: Path) -> None:
    expected, result, segments = both(path)
    assert result == expected
    assert segments or "sasl" in path.name or "idempotent" in path.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".pcap")[0])
def test_damaged_captures_have_the_same_calls(path: Path, tmp_path: Path) -> None:
    whole = content(path)
    for seed in range(amount(4, 20)):
        chance = random.Random(seed)
        data = bytearray(whole)
        for _ in range(1 + len(data) // chance.choice([500, 5_000, 50_000])):
            data[chance.randrange(24, len(data))] = chance.randrange(256)
        damaged = tmp_path / "damaged.pcap"
        damaged.write_bytes(data)
        expected, result, _ = both(damaged)
        assert result == expected, seed


def exchanges(talk: Talk, chance: random.Random, count: int) -> Iterator[Segment]:
    """Draw requests and responses, with several pending and several frames in a segment; unusual ones are rare."""
    yield from talk.open()
    pending: list[tuple[int, object, int]] = []
    number = 0
    while number < count or pending:
        data = b""
        for _ in range(chance.choice([1, 1, 1, 2, 5]) if number < count else 0):
            number += 1
            version, request, response = chance.choice(KINDS)
            id_ = chance.choice([number, number, 7])
            client = chance.choice(["c", "c", "c", "c", None, "d"])
            frame = prefixed(kwire.encode_request(request, version, correlation_id=id_, client_id=client))
            if not chance.randrange(40):
                frame = frame[:-1] + b"\xff"
            data += frame
            pending.append((id_, response, version))
        yield from talk.say(True, data)
        data = b""
        for _ in range(chance.randrange(len(pending) + 1)):
            id_, response, version = pending.pop(0)
            data += prefixed(kwire.encode_response(response, version, correlation_id=id_))
        yield from talk.say(False, data)
    yield from talk.close()


COMMIT = OffsetCommitRequest.Topic(
    name="tea",
    partitions=[OffsetCommitRequest.Topic.Partition(partition_index=n, committed_offset=n) for n in range(3)],
)
ANSWER = OffsetCommitResponse.Topic(
    name="tea", partitions=[OffsetCommitResponse.Topic.Partition(partition_index=n, error_code=n) for n in range(3)]
)
KINDS: list[tuple[int, Any, Any]] = [
    (4, HeartbeatRequest(group_id="g", member_id="m"), HeartbeatResponse()),
    (0, HeartbeatRequest(group_id="g", member_id="m"), HeartbeatResponse(error_code=27)),
    (8, OffsetCommitRequest(group_id="g", topics=[COMMIT]), OffsetCommitResponse(topics=[ANSWER])),
    (2, OffsetCommitRequest(group_id="g", topics=[COMMIT]), OffsetCommitResponse(topics=[ANSWER])),
    (12, MetadataRequest(topics=None), MetadataResponse(brokers=[MetadataResponse.Broker(host="h" * 300)])),
]


@pytest.mark.parametrize("seed", range(6))
def test_unusual_segments_are_left_to_python(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    talk = Talk(isn=(2**32 - 500, 2**32 - 900), mss=chance.choice([100, 400, 1_448]))
    segments = [*exchanges(talk, chance, 300)]
    if seed % 2:
        segments = [*shaken(segments, seed, lost=0.01, moved=0.02, again=0.02)]
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(packets(segments)))
    expected, result, read_natively = both(path)
    assert result == expected
    assert read_natively > LONGEST_WAIT
    assert sum(isinstance(item, Call) for item in result) > 200


def rows_of(count: int) -> tuple[list[Row], bytes]:
    """Return segments of a connection with this number of heartbeats and no response, and the content of their file."""
    talk = Talk(gap_us=1)
    segments = talk.open()
    for n in range(count):
        segments += talk.say(True, prefixed(kwire.encode_request(KINDS[0][1], 4, correlation_id=n, client_id="c")))
    rows, data = [], b""
    for n, one in enumerate(segments):
        size, is_upward = len(one.payload), one.source == talk.client
        rows.append(Row(is_upward, one.time_us, 10 * n, len(data), size, size, one.seq, one.ack, one.flags))
        data += one.payload
    return rows, data


def calls_of(rows: list[Any], source: Any, reader: Any) -> tuple[list[Call], Connection]:
    with patch.object(conversation, "call_reader", lambda: reader):
        talk = Conversation((0, 0, 5_000, 0, 1, 9092), rows[0], ports={9092})
        at = 0
        while at < len(rows):
            at = talk.segments(rows, source, 0, "f", at)
        ended = talk.finish()
        return talk.taken(), ended


def test_pending_requests_are_limited() -> None:
    rows, data = rows_of(MAX_PENDING + 50)
    counted = Counted()
    expected, result = calls_of(rows, data, None), calls_of(rows, data, counted)
    assert result == expected
    assert counted.segments > MAX_PENDING // 2
    assert len(expected[0]) == MAX_PENDING + 50


def test_payloads_may_be_in_a_mapped_file(tmp_path: Path) -> None:
    rows, data = rows_of(200)
    (tmp_path / "data").write_bytes(data)
    counted = Counted()
    with (tmp_path / "data").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert calls_of(rows, mapped, counted) == calls_of(rows, data, None)
    assert counted.segments > 100


def test_a_file_that_ends_early_is_left_to_python() -> None:
    rows, data = rows_of(40)
    for end in (0, 200, len(data) - 1):
        counted = Counted()
        assert calls_of(rows, data[:end], counted) == calls_of(rows, data[:end], None)
        assert bool(counted.segments) == bool(end)
