from __future__ import annotations

from kwire.frames import pack
from kwire.records import read_batch
from mockbroker.recording.record_batches import FULL, LARGEST, SMALL, RecordBatch, TopicBatches, joined
from mockbroker.recording.recorder import Closed, Opened
from mockbroker.recording.topic_recorder import Frames, TopicEvent

US = 1_700_000_000_000_000
REQUEST = bytes.fromhex("000c 0004 0000 0001")


def opened(number: int) -> Opened:
    return Opened(number, f"127.0.0.1:{number}", "127.0.0.1:9092", US)


def frames(number: int, size: int = 0, after_ms: int = 0) -> Frames:
    return Frames(number, True, [pack(REQUEST + bytes(size))], US + 1_000 * after_ms)


def made(events: list[TopicEvent], partitions: int = 1) -> list[RecordBatch]:
    return list(TopicBatches("run", partitions).batches(events))


def test_a_batch_is_what_kafka_expects() -> None:
    (batch,) = made([opened(1), frames(1), frames(1, after_ms=70), frames(1, after_ms=20), Closed(1, US)])
    read = read_batch(b"".join(batch.encoded(7, 2, 40)))
    assert read.crc_is_right
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (7, 2, 40)
    assert (read.base_timestamp, read.max_timestamp) == (US // 1_000, US // 1_000 + 70)
    assert [record.timestamp - US // 1_000 for record in read.records()] == [0, 70, 20]
    assert [record.offset for record in read.records()] == [0, 1, 2]


def test_a_connection_has_one_partition() -> None:
    events: list[TopicEvent] = [opened(number) for number in range(20)]
    events += [frames(number) for _ in range(2) for number in range(20)]
    batches = made(events, 4)
    assert sorted(batch.partition for batch in batches) == [0, 1, 2, 3]
    keys = [{record.key for record in read_batch(b"".join(batch.encoded(-1, -1, -1))).records()} for batch in batches]
    assert sum(map(len, keys)) == len(set().union(*keys)) == 20


def test_a_connection_continues_in_the_next_call() -> None:
    batches = TopicBatches("run", 1)
    assert list(batches.batches([opened(1)])) == []
    answer = Frames(1, False, [pack(REQUEST[4:])], US)
    assert [batch.count for batch in batches.batches([frames(1)])] == [1]
    (batch,) = batches.batches([answer])
    (record,) = read_batch(b"".join(batch.encoded(-1, -1, -1))).records()
    assert dict(record.headers)["api_key"] == b"12"


def test_batches_have_a_limited_size() -> None:
    events: list[TopicEvent] = [opened(1), *[frames(1, 100_000) for _ in range(12)], frames(1), frames(1, LARGEST)]
    batches = made(events)
    assert [batch.count for batch in batches] == [6, 6, 1, 1]
    assert all(FULL <= batch.size <= LARGEST for batch in batches[:2])


def test_halves_of_a_batch_have_the_same_records() -> None:
    (batch,) = made([opened(1), *[frames(1, size, size) for size in (3, 40, 100)]])
    halves = batch.halves()
    assert [half.count for half in halves] == [1, 2]
    parts = [read_batch(b"".join(half.encoded(-1, -1, -1))) for half in halves]
    whole = read_batch(b"".join(batch.encoded(-1, -1, -1)))
    found = [(record.value, record.timestamp, record.headers) for part in parts for record in part.records()]
    assert found == [(record.value, record.timestamp, record.headers) for record in whole.records()]
    assert all(part.crc_is_right for part in parts)


def test_small_buffers_are_joined() -> None:
    large = bytes(SMALL)
    assert joined([b"a", b"b", large, b"", large, b"c"]) == [b"ab", large, large, b"c"]
    assert joined([large])[0] is large
