"""Produce: stored and rejected records. Bad inputs: fixtures/bad_inputs.md, "Records and compression"."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from google_crc32c import value as crc32c
from tools.broker_harness import WALL, BrokerHarness
from tools.producer import Producer

from kwire import ErrorCode as E
from kwire import decode, encode
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.records import build_message_set
from kwire.records.batch import HEADER, Record, batches, build_batch
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.base.release import RELEASES
from mockbroker.broker.handlers.produce import handle

Topic = ProduceRequest.Topic
VERSIONS = range(3, 14)
GOOD = build_batch([Record(timestamp=1_700_000_000_000, value=b"v")])
THREE = build_batch([Record(timestamp=1, value=b"v")] * 3)
FIELDS = [
    *("base_offset", "length", "epoch", "magic", "crc", "attributes", "last_delta"),
    *("base_time", "max_time", "pid", "pepoch", "sequence", "count"),
]


def forged(data: bytes = GOOD, **fields: int) -> bytes:
    """Return the batch with other header fields, and with a valid CRC unless one is given."""
    values = dict(zip(FIELDS, HEADER.unpack_from(data), strict=True)) | fields
    tail = HEADER.pack(*values.values())[21:] + data[HEADER.size :]
    values["crc"] = fields.get("crc", crc32c(tail))
    return HEADER.pack(*values.values())[:21] + tail


def produce(
    harness: BrokerHarness,
    version: int,
    records: Any,
    *,
    topic: str = "t",
    index: int = 0,
    acks: int = -1,
    topic_id: Any = None,
    node: int | None = None,
    **given: Any,
) -> Any:
    existing = harness.broker.cluster.topics.get(topic)
    data = Topic.Partition(index=index, records=records)
    requested = topic_id or (existing.topic_id if existing else UUID(int=999_999))
    topics = [Topic(name=topic, topic_id=requested, partition_data=[data])]
    request = ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics, **given)
    return harness.send(request, version, node=harness.leader("t", 0) if node is None else node)


def result_of(sent: Any) -> Any:
    ((result,),) = [topic.partition_responses for topic in sent.answer.responses]
    return result


def log(harness: BrokerHarness, index: int = 0) -> Any:
    return harness.broker.cluster.topics["t"].partitions[index].log


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("version", VERSIONS)
def test_batch_is_stored(harness, version, acks):
    results = [result_of(produce(harness, version, data, acks=acks)) for data in (THREE, GOOD)]
    assert [(each.error_code, each.base_offset, each.log_append_time_ms) for each in results] == [
        (0, 0, -1),
        (0, 3, -1),
    ]
    assert {each.log_start_offset for each in results} == {0 if version >= 5 else -1}
    stored = list(log(harness).batches())
    assert [(each.base_offset, each.leader_epoch) for each in stored] == [(0, 0), (3, 0)]
    assert all(each.crc_is_right() for each in stored)


@pytest.mark.parametrize("version", VERSIONS)
def test_acks_0_gets_no_response(harness, version):
    sent = produce(harness, version, GOOD, acks=0)
    assert (sent.done, sent.answer, sent.closed) == (True, None, None)
    assert log(harness).end == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_response_of_one_partition_is_encoded_as_usual(harness, version):
    topic = harness.broker.cluster.topics["t"]
    for number in range(3):
        data = Topic.Partition(index=0, records=THREE)
        topics = [Topic(name="t", topic_id=topic.topic_id, partition_data=[data])]
        ticket, client = Ticket(number, 1, 0, version), Client(harness.leader("t", 0), "client", "/127.0.0.1")
        request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics)
        (reply,) = handle(harness.broker, Call(ticket, client, request), harness.now)
        assert reply.encoded is None if version < 5 else reply.encoded == {version: encode(reply.response, version)}
        decoded = decode(ProduceResponse, encode(reply.response, version), version)
        assert [each.base_offset for each in decoded.responses[0].partition_responses] == [3 * number]


def test_acks_0_that_fails_closes_the_connection(harness):
    assert "UNKNOWN_TOPIC_OR_PARTITION" in produce(harness, 7, GOOD, acks=0, topic="no-such-topic").closed


def with_changed_byte(data: bytes, at: int, byte: int) -> bytes:
    """Return the batch with one byte of its records changed."""
    return forged(data[: HEADER.size] + data[HEADER.size :][:at] + bytes([byte]) + data[HEADER.size :][at + 1 :])


def batch_with_offsets(*offsets: int) -> bytes:
    return build_batch([Record(offset=each, timestamp=1, value=b"v") for each in offsets], keep_offsets=True)


def deltas(*requested: int) -> bytes:
    """Return a batch with these offset deltas, and the header of a batch without gaps."""
    return forged(batch_with_offsets(*requested), base_offset=0, last_delta=len(requested) - 1)


HEADED = build_batch([Record(timestamp=1, value=b"v", headers=[("h", b"1")])])  # the fields begin after the base offset
GZIPPED = build_batch([Record(timestamp=1, value=b"v")], codec=1)
GARBAGE = forged(GZIPPED[: HEADER.size] + b"\xff" * (len(GZIPPED) - HEADER.size))
BOMB = build_batch([Record(timestamp=1, value=bytes(80_000_000))], codec=4)  # a few KB
LATEST = int(WALL * 1000) + 3_600_000
OK = E.NONE

# CHECKED_PER_RECORD are rejected only with mockbroker.check.records.
ROWS = [  # name in the table, id, records, error, version
    ("null records", "null", None, E.INVALID_RECORD),
    ("null records", "null in v0", None, E.INVALID_RECORD, 0),
    ("empty records", "empty", b"", E.INVALID_RECORD),
    ("wrong CRC", "crc", forged(crc=1), E.CORRUPT_MESSAGE),
    ("batch length too small or negative", "length too small", forged(length=40), E.CORRUPT_MESSAGE),
    ("batch length too small or negative", "length 0", forged(length=0), E.CORRUPT_MESSAGE),
    ("batch length too small or negative", "length negative", forged(length=-1), E.CORRUPT_MESSAGE),
    ("batch length too large", "length too large", forged(length=10_000), E.INVALID_RECORD),
    ("batch length too large", "truncated", GOOD[:-1], E.INVALID_RECORD),
    ("batch length 2^31-1", "length 2^31-1", forged(length=2**31 - 1), E.UNKNOWN_SERVER_ERROR),
    ("two batches", "two batches", GOOD + GOOD, E.INVALID_RECORD),
    ("partial second batch", "second batch with part of its header", GOOD + GOOD[:30], OK),
    ("partial second batch", "second batch without its last byte", GOOD + GOOD[:-1], OK),
    ("unknown magic", "magic 3", forged(magic=3), E.CORRUPT_MESSAGE),
    ("unknown magic", "magic -1", forged(magic=-1), E.CORRUPT_MESSAGE),
    ("magic 0 or 1 with the rest of 2", "magic 1", forged(magic=1), E.INVALID_RECORD),
    ("magic 0 or 1 with the rest of 2", "magic 0", forged(magic=0), E.INVALID_RECORD),
    ("magic 0 or 1 with the rest of 2", "a message set", build_message_set([Record(timestamp=1)]), E.INVALID_RECORD),
    ("false record count", "count 5 of 1", forged(count=5), E.INVALID_RECORD),
    ("false record count", "count 10^9", forged(count=10**9), E.INVALID_RECORD),
    ("false record count", "count -1", forged(count=-1), E.INVALID_RECORD),
    ("false record count", "count 0", forged(count=0), E.INVALID_RECORD),
    ("false last offset delta", "last offset delta", forged(last_delta=3), E.INVALID_RECORD),
    ("false last offset delta", "last offset delta -1", forged(last_delta=-1), E.INVALID_RECORD),
    ("gaps and negative offset deltas", "offset deltas 0 and 5", deltas(0, 5), OK),
    ("gaps and negative offset deltas", "offset delta -3", deltas(0, -3), OK),
    ("false lengths in a record", "record length", with_changed_byte(GOOD, 0, 0x7E), E.INVALID_RECORD),
    (
        "false lengths in a record",
        "record length too small by one",
        with_changed_byte(GOOD, 0, GOOD[HEADER.size] - 2),
        E.INVALID_RECORD,
    ),
    ("false lengths in a record", "key length", with_changed_byte(GOOD, 4, 0x7E), E.INVALID_RECORD),
    ("false lengths in a record", "header count", with_changed_byte(GOOD, 7, 0x7E), E.INVALID_RECORD),
    (
        "false lengths in a record",
        "trailing bytes after the last record",
        forged(GOOD + b"!", length=len(GOOD) - 11),
        E.INVALID_RECORD,
    ),
    ("null header key", "header key null", with_changed_byte(HEADED, 8, 0x01), E.INVALID_RECORD),
    ("timestamp -2", "timestamp -2", forged(base_time=-2, max_time=-2), OK),
    ("timestamp far away", "timestamp -2^63", forged(base_time=-(2**63), max_time=-(2**63)), E.INVALID_TIMESTAMP),
    ("timestamp far away", "timestamp 2^62", forged(base_time=2**62, max_time=2**62), E.INVALID_TIMESTAMP),
    ("timestamp far away", "in an hour", forged(base_time=LATEST, max_time=LATEST), OK),
    (
        "timestamp far away",
        "in more than an hour",
        forged(base_time=LATEST + 1, max_time=LATEST + 1),
        E.INVALID_TIMESTAMP,
    ),
    ("timestamp far away", "in more than an hour by the header alone", forged(max_time=LATEST + 1), OK),
    ("maximum timestamp before the base", "max timestamp before base", forged(base_time=5, max_time=1), OK),
    ("unknown codec", "codec 5", forged(attributes=5), E.UNSUPPORTED_COMPRESSION_TYPE),
    ("unknown codec", "codec 7", forged(attributes=7), E.UNSUPPORTED_COMPRESSION_TYPE),
    ("garbage in place of compressed data", "gzip garbage", GARBAGE, E.CORRUPT_MESSAGE),
    ("garbage in place of compressed data", "zstd garbage", forged(GARBAGE, attributes=4), E.CORRUPT_MESSAGE),
    ("garbage in place of compressed data", "lz4 garbage", forged(GARBAGE, attributes=3), E.CORRUPT_MESSAGE),
    ("garbage in place of compressed data", "snappy garbage", forged(GARBAGE, attributes=2), E.CORRUPT_MESSAGE),
    ("zstd before Produce v7", "zstd in v3", build_batch([Record()], codec=4), E.UNSUPPORTED_COMPRESSION_TYPE, 3),
    ("zstd before Produce v7", "zstd in v6", build_batch([Record()], codec=4), E.UNSUPPORTED_COMPRESSION_TYPE, 6),
    ("zstd before Produce v7", "zstd from v7 on", build_batch([Record()], codec=4), OK, 7),
    ("80 MB of zeros in a few KB", "80 MB of zeros in zstd", BOMB, OK),
    ("control batch of a client", "control batch", forged(attributes=0x20), E.INVALID_RECORD),
    (
        "transactional without a known producer",
        "transactional",
        forged(attributes=0x10),
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    ("sequence gap", "unknown producer may begin at any sequence", forged(pid=99, pepoch=0, sequence=7), OK),
    ("base offset 55", "base offset 55", forged(base_offset=55), E.INVALID_RECORD),
    ("batch above `max.message.bytes`", "too large", build_batch([Record(value=b"x" * 20_000)]), E.MESSAGE_TOO_LARGE),
    ("", "a byte", b"\0", E.INVALID_RECORD),
    *(("", f"{size} bytes", GOOD[:size], E.INVALID_RECORD) for size in (5, 12, 16, 17, 30, 60)),
    ("", "60 bytes of magic 3", forged(magic=3)[:60], E.CORRUPT_MESSAGE),
    ("", "12 bytes of length 13", forged(length=13)[:12], E.CORRUPT_MESSAGE),
    ("", "40 bytes 0", bytes(40), E.CORRUPT_MESSAGE),
    ("", "11 bytes of length 0 after a batch", GOOD + bytes(11), OK),
    *(("", f"{size} bytes 0 after a batch", GOOD + bytes(size), E.CORRUPT_MESSAGE) for size in (12, 17, 40, 100)),
    ("", "40 bytes 0xff after a batch", GOOD + b"\xff" * 40, E.CORRUPT_MESSAGE),
    ("", "magic 3 after a batch", GOOD + forged(magic=3), E.CORRUPT_MESSAGE),
    ("", "length 14 after a batch", GOOD + forged(length=14), E.INVALID_RECORD),
    *(("", f"{size} bytes of a second batch", GOOD + GOOD[:size], OK) for size in (12, 17, 60)),
    ("", "two batches, wrong CRC in the first", forged(crc=1) + GOOD, E.INVALID_RECORD),
    ("", "sequence -1 of a producer", forged(pid=99, pepoch=0, sequence=-1), E.INVALID_RECORD),
    ("", "sequence -2 of a producer", forged(pid=99, pepoch=0, sequence=-2), E.INVALID_RECORD),
    ("", "sequence 0 without a producer", forged(pid=-1, pepoch=0, sequence=0), OK),
    ("", "partition leader epoch 77", forged(epoch=77), OK),
]
CHECKED_PER_RECORD = {"false lengths in a record", "null header key", "garbage in place of compressed data"}


def harness_with_limits(*, check_records: bool, version: int) -> BrokerHarness:
    harness = BrokerHarness(config={"message.max.bytes": 10_000, "mockbroker.check.records": check_records})
    if version < 3:
        harness.broker.release = RELEASES["3.9"]
        harness.router.restart(harness.broker, 0.0)
    return harness


@pytest.mark.parametrize("check_records", [False, True], ids=["header only", "each record"])
@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_bad_input(row, check_records):
    name, _, data, error, *given = row
    version = given[0] if given else 9
    if not check_records and name in CHECKED_PER_RECORD:
        error = OK
    harness = harness_with_limits(check_records=check_records, version=version)
    result = result_of(produce(harness, version, data))
    assert (result.error_code, result.base_offset) == (error, -1 if error else 0)
    if error:
        assert result.log_start_offset in (-1, 0)  # 0 if the log rejects the batch
        assert log(harness).end == 0
        return
    (stored,) = batches(log(harness).read(0, 10**6, at_least_one=True))
    assert stored.leader_epoch == 0
    assert data.startswith(stored.data[21:], 21)


def test_decompression_bomb_costs_bounded_memory():
    harness = harness_with_limits(check_records=True, version=9)
    tracemalloc.start()
    try:
        produce(harness, 9, BOMB)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "log_start"), [(forged(base_offset=55), 0), (forged(attributes=0x20), 0), (b"", -1), (GOOD + GOOD, -1)]
)
def test_response_has_the_log_start_offset(harness, data, log_start):
    assert result_of(produce(harness, 7, data)).log_start_offset == log_start


def idempotent_batch(sequence: int, *, pid: int = 99, pepoch: int = 0) -> bytes:
    """Return a batch of one record of an idempotent producer."""
    return forged(pid=pid, pepoch=pepoch, sequence=sequence)


def test_sequence_gap_is_out_of_order(harness):
    given = [
        (idempotent_batch(0), E.NONE),
        (idempotent_batch(2), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (idempotent_batch(1), E.NONE),
    ]
    assert [result_of(produce(harness, 9, data)).error_code for data, _ in given] == [error for _, error in given]
    assert log(harness).end == 2


def test_duplicate_batch_is_stored_once(harness):
    results = [result_of(produce(harness, 9, idempotent_batch(sequence))) for sequence in (0, 1, 0)]
    assert [(each.error_code, each.base_offset) for each in results] == [(0, 0), (0, 1), (0, 0)]
    assert log(harness).end == 2


def test_new_producer_epoch_begins_at_sequence_0(harness):
    given = [
        (idempotent_batch(0, pepoch=1), E.NONE),
        (idempotent_batch(1, pepoch=2), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (idempotent_batch(0, pepoch=2), E.NONE),
        (idempotent_batch(1, pepoch=1), E.INVALID_PRODUCER_EPOCH),
    ]
    assert [result_of(produce(harness, 9, data)).error_code for data, _ in given] == [error for _, error in given]


def test_negative_sequence_of_a_new_epoch_is_invalid(harness):
    given = [
        (idempotent_batch(0), E.NONE),
        (idempotent_batch(-1, pepoch=1), E.INVALID_RECORD),
        (idempotent_batch(-1), E.INVALID_RECORD),
        (idempotent_batch(1), E.NONE),
    ]
    assert [result_of(produce(harness, 9, data)).error_code for data, _ in given] == [error for _, error in given]


@pytest.mark.parametrize("version", [9, 12])
def test_transaction_of_an_unknown_producer(harness, version):
    """The coordinator does not know the transactional id and the producer of the batch."""
    result = result_of(
        produce(harness, version, forged(attributes=0x10, pid=99, pepoch=0, sequence=0), transactional_id="tx")
    )
    assert result.error_code == E.INVALID_PRODUCER_ID_MAPPING
    assert log(harness).end == 0


@pytest.mark.parametrize("version", [9, 12])
def test_control_batch_in_a_transaction(harness, version):
    """Only transaction coordinators may write control batches."""
    producer = Producer(harness, "tx", new=version == 12)
    producer.init()
    producer.produce(b"v")
    marker = forged(attributes=0x30, pid=producer.producer_id, pepoch=producer.epoch, sequence=1)
    assert result_of(produce(harness, version, marker, transactional_id="tx")).error_code == E.INVALID_RECORD
    assert log(harness).end == 1


@pytest.mark.parametrize("acks", [2, 7, -2])
def test_invalid_required_acks(harness, acks):
    result = result_of(produce(harness, 7, GOOD, acks=acks))
    assert (result.error_code, result.base_offset, result.log_start_offset) == (E.INVALID_REQUIRED_ACKS, -1, -1)
    assert log(harness).end == 0


@pytest.mark.parametrize(("topic", "index"), [("no-such-topic", 0), ("t", 9), ("t", -1)])
@pytest.mark.parametrize("acks", [1, 7])
@pytest.mark.parametrize("version", [3, 7, 12])
def test_unknown_partition_with_any_acks(harness, version, acks, topic, index):
    result = result_of(produce(harness, version, GOOD, topic=topic, index=index, acks=acks))
    assert (result.error_code, result.base_offset) == (E.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_v13_unknown_topic_id(harness):
    assert result_of(produce(harness, 13, GOOD, topic="no-such-topic")).error_code == E.UNKNOWN_TOPIC_ID
    assert result_of(produce(harness, 13, GOOD, index=9)).error_code == E.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [3, 13])
def test_not_the_leader(version):
    harness = BrokerHarness(brokers=2)
    result = result_of(produce(harness, version, GOOD, node=1 - harness.leader("t", 0)))
    assert result.error_code == E.NOT_LEADER_OR_FOLLOWER
    assert log(harness).end == 0


def test_each_partition_has_its_own_result(harness):
    data = [Topic.Partition(index=index, records=GOOD) for index in (0, 9, 1)]
    request = ProduceRequest(acks=1, timeout_ms=0, topic_data=[Topic(name="t", partition_data=data)])
    (topic,) = harness.ask(request, 7).responses
    assert [(result.index, result.error_code) for result in topic.partition_responses] == [(0, 0), (9, 3), (1, 0)]


def test_huge_record_count_allocates_nothing(harness):
    import tracemalloc

    data = forged(count=10**9, last_delta=10**9 - 1)
    tracemalloc.start()
    try:
        produce(harness, 7, data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_forged_header_fields():
    assert forged() == GOOD
    assert struct.unpack_from(">q", forged(base_offset=55))[0] == 55


def test_internal_topics_cannot_be_written(harness):
    result = result_of(produce(harness, 7, GOOD, topic="__consumer_offsets"))
    assert result.error_code == E.INVALID_TOPIC_EXCEPTION
