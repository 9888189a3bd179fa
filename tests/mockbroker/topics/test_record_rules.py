"""Validation of produced records. Kafka's behaviour: conversations records_*, record_timestamps."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tools.broker_harness import WALL, BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from kwire.records.batch import read_batch
from kwire.records.compression import GZIP, NAMES, NONE, SNAPPY, ZSTD
from mockbroker.base.release import KAFKA_4_2
from mockbroker.base.settings import Settings
from mockbroker.topics.configs import MAX_LONG
from mockbroker.topics.record_rules import HIGHEST_LEVELS, MAX_RECOMPRESSED, MAX_RECORD_ERRORS, RecordRules, rejection

NOW = round(WALL * 1000)
KEYED, BARE = Record(key=b"k", value=b"v", timestamp=NOW), Record(value=b"v", timestamp=NOW)
EARLY, LATE = Record(value=b"v", timestamp=NOW - 2_000), Record(value=b"v", timestamp=NOW + 2_000)


def send(harness: BrokerHarness, *records: Record, version: int = 9, **batch: Any) -> Any:
    data = ProduceRequest.Topic.Partition(index=0, records=build_batch(records, **batch))
    topic = ProduceRequest.Topic(name="t", partition_data=[data])
    answer = harness.ask(ProduceRequest(acks=-1, topic_data=[topic]), version, node=harness.leader("t", 0))
    return answer.responses[0].partition_responses[0]


def harness_with(**configs: str) -> BrokerHarness:
    harness = BrokerHarness()
    configure(harness, **configs)
    return harness


def configure(harness: BrokerHarness, **configs: str) -> None:
    given = {name.replace("_", "."): value for name, value in configs.items()}
    harness.broker.cluster.configure(harness.broker.cluster.topics["t"], given)


@pytest.mark.parametrize("policy", ["compact", "delete, compact"])
def test_compacted_topic_refuses_records_without_a_key(policy):
    harness = harness_with(cleanup_policy=policy)
    refused = send(harness, KEYED, BARE, KEYED, BARE)
    assert (refused.error_code, refused.base_offset, refused.log_start_offset) == (E.INVALID_RECORD, -1, 0)
    assert [each.batch_index for each in refused.record_errors] == [1, 3]
    assert "2 record errors in total" in refused.error_message
    assert send(harness, KEYED, Record(key=b"", timestamp=NOW)).base_offset == 0


def test_response_lists_at_most_max_record_errors():
    harness = harness_with(cleanup_policy="compact")
    refused = send(harness, *[BARE] * (MAX_RECORD_ERRORS + 1))
    assert len(refused.record_errors) == MAX_RECORD_ERRORS
    assert f"{MAX_RECORD_ERRORS + 1} record errors in total" in refused.error_message


def test_default_configs_need_no_look_at_the_records():
    rules = RecordRules.of({}, Settings(), KAFKA_4_2)
    assert not rules.need_records(read_batch(build_batch([BARE, EARLY, LATE])), NOW)


def test_batch_above_max_message_bytes_is_refused():
    harness = harness_with(max_message_bytes=str(len(build_batch([BARE]))))
    assert send(harness, BARE).error_code == E.NONE
    assert send(harness, KEYED).error_code == E.MESSAGE_TOO_LARGE
    configure(harness)
    assert send(harness, KEYED).error_code == E.NONE
    configure(harness, segment_bytes="1048576", max_message_bytes="2000000")
    assert send(harness, Record(value=bytes(1_048_576))).error_code == E.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(("limit", "record"), [("before", EARLY), ("after", LATE)])
def test_timestamp_out_of_range_is_refused(limit, record):
    harness = harness_with(**{f"message_timestamp_{limit}_max_ms": "1999"})
    refused = send(harness, BARE, record)
    assert (refused.error_code, [each.batch_index for each in refused.record_errors]) == (E.INVALID_TIMESTAMP, [1])
    configure(harness, **{f"message_timestamp_{limit}_max_ms": "2000"})
    assert send(harness, BARE, record).error_code == E.NONE


@pytest.mark.parametrize("codec", [0, 1])
def test_log_append_time_is_the_broker_time(codec):
    harness = harness_with(message_timestamp_type="LogAppendTime")
    harness.wait(3.0)
    stored = send(harness, EARLY, LATE, codec=codec)
    assert stored.log_append_time_ms == NOW + 3_000
    (batch,) = harness.broker.cluster.topics["t"].partitions[0].log.batches()
    assert batch.log_append_time
    assert [record.timestamp for record in batch.records()] == [NOW + 3_000] * 2
    assert send(harness, BARE, log_append_time=NOW).error_code == E.INVALID_TIMESTAMP


def test_log_append_time_is_the_time_of_list_offsets():
    harness = harness_with(message_timestamp_type="LogAppendTime")
    for _ in range(2):
        harness.wait(3.0)
        send(harness, EARLY, LATE)
    log = harness.broker.cluster.topics["t"].partitions[0].log
    assert log.at_timestamp(NOW) == (0, NOW + 3_000)
    assert log.at_timestamp(NOW + 3_001) == (2, NOW + 6_000)
    assert log.at_timestamp(NOW + 6_001) is None
    assert log.at_largest_timestamp() == (2, NOW + 6_000)


@pytest.mark.parametrize("produced", [NONE, GZIP])
@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batch_is_stored_with_the_codec_of_the_topic(name, produced):
    harness = harness_with(compression_type=name)
    send(harness, KEYED, BARE, codec=produced)
    (batch,) = harness.broker.cluster.topics["t"].partitions[0].log.batches()
    assert NAMES[batch.codec] == name.replace("uncompressed", "none")
    assert [(record.key, record.value) for record in batch.records()] == [(r.key, r.value) for r in (KEYED, BARE)]


def test_level_makes_stored_batches_smaller():
    records = [Record(value=bytes(random.Random(7).choices(b"abcdef", k=20_000)))]
    sizes = {}
    for name, levels in (("gzip", ("1", "9")), ("zstd", ("-50", "22"))):
        for level in levels:
            harness = harness_with(compression_type=name, **{f"compression_{name}_level": level})
            send(harness, *records)
            sizes[name, level] = harness.broker.cluster.topics["t"].partitions[0].log.size
    assert sizes["gzip", "9"] < sizes["gzip", "1"]
    assert sizes["zstd", "22"] < sizes["zstd", "-50"]


def test_max_message_bytes_applies_after_recompression():
    harness = harness_with(compression_type="uncompressed", max_message_bytes="1000")
    assert send(harness, Record(value=bytes(900)), codec=GZIP).error_code == E.NONE
    assert send(harness, Record(value=bytes(990)), codec=GZIP).error_code == E.MESSAGE_TOO_LARGE
    assert send(harness, Record(value=bytes(10**6)), codec=GZIP).error_code == E.MESSAGE_TOO_LARGE


def test_large_batch_keeps_the_codec_of_the_producer():
    harness = harness_with(compression_type="gzip", max_message_bytes="4000000")
    assert send(harness, Record(value=bytes(MAX_RECOMPRESSED))).error_code == E.NONE
    assert send(harness, Record(value=bytes(MAX_RECOMPRESSED - 100))).error_code == E.NONE
    assert [batch.codec for batch in harness.broker.cluster.topics["t"].partitions[0].log.batches()] == [NONE, GZIP]


def test_a_producer_cannot_choose_log_append_time():
    harness = BrokerHarness()
    assert send(harness, BARE, log_append_time=NOW).log_append_time_ms == -1
    (batch,) = harness.broker.cluster.topics["t"].partitions[0].log.batches()
    assert (batch.log_append_time, batch.crc_is_right()) == (False, True)


def test_broker_settings_are_defaults_of_topics():
    harness = BrokerHarness(config={"log.cleanup.policy": "compact", "message.max.bytes": 100})
    assert send(harness, BARE).error_code == E.INVALID_RECORD
    assert send(harness, *[KEYED] * 10).error_code == E.MESSAGE_TOO_LARGE


def rules_of(**configs: str) -> RecordRules:
    return RecordRules.of(
        {name.replace("_", "."): value for name, value in configs.items()}, Settings.parse({}), KAFKA_4_2
    )


LEVELS = [  # configurations, codec, level
    ({"compression_type": "zstd", "compression_zstd_level": "15"}, ZSTD, 12),  # higher levels take too long
    ({"compression_type": "zstd", "compression_zstd_level": "4"}, ZSTD, 4),
    ({"compression_type": "gzip", "compression_gzip_level": "9"}, GZIP, 9),
    ({"compression_type": "gzip"}, GZIP, -1),
    ({"compression_type": "snappy"}, SNAPPY, None),
    ({}, None, None),
]


@pytest.mark.parametrize(("configs", "codec", "level"), LEVELS)
def test_codec_and_level_of_a_topic(configs: dict[str, str], codec: int | None, level: int | None) -> None:
    rules = rules_of(**configs)
    assert (rules.codec, rules.level) == (codec, level)
    batch = read_batch(build_batch([BARE], codec=GZIP))
    assert rules.changes_codec(batch) == (codec not in (None, GZIP))


def test_brokers_that_set_timestamps_read_no_records() -> None:
    limited = {"message_timestamp_before_max_ms": "1000"}
    assert rules_of(**limited).every_record
    assert not rules_of(**limited, message_timestamp_type="LogAppendTime").every_record


def test_timestamp_at_the_limit_needs_no_records() -> None:
    rules = rules_of(message_timestamp_after_max_ms="2000")
    assert not rules.need_records(read_batch(build_batch([LATE])), NOW)
    assert rules.need_records(read_batch(build_batch([LATE])), NOW - 1)


MIN = -(2**63)
TIMES = [  # timestamp of the record; limits before and after now in milliseconds; whether it is valid
    (NOW, 0, 0, True),
    (NOW - 1, 0, 0, False),
    (NOW + 1, 0, 0, False),
    (NOW - 5, 5, 0, True),
    (NOW - 6, 5, 0, False),
    (NOW + 5, 0, 5, True),
    (NOW + 6, 0, 5, False),
    (-1, 0, 0, True),  # no timestamp
    (0, MAX_LONG, 0, True),
    (0, NOW, 0, True),
    (0, NOW - 1, 0, False),
    (2**63 - 1, MAX_LONG, MAX_LONG, True),
    (2**63 - 1, MAX_LONG, 5, False),
]


@pytest.mark.parametrize(("timestamp", "before", "after", "valid"), TIMES)
def test_timestamp_is_within_the_limits(timestamp: int, before: int, after: int, valid: bool) -> None:
    rules = rules_of(message_timestamp_before_max_ms=str(before), message_timestamp_after_max_ms=str(after))
    record = Record(value=b"v", timestamp=timestamp)
    batch = read_batch(build_batch([record]))
    refused = rejection([record], batch, rules, "t-0", NOW)
    assert (refused is None) is valid
    if refused is not None:
        earliest, latest = NOW - before, NOW + after
        if before == MAX_LONG:
            earliest = NOW - MAX_LONG
        assert refused.error == E.INVALID_TIMESTAMP
        assert refused.records == (
            (
                0,
                f"Timestamp {timestamp} of message with offset 0 is out of range. "
                f"The timestamp should be within [{earliest}, {latest}]",
            ),
        )
        assert refused.text == "One or more records have been rejected due to invalid timestamp"


def test_smallest_timestamp_is_in_the_future_as_in_java() -> None:
    """With Long.MIN_VALUE, the difference overflows."""
    rules = rules_of()
    data = bytearray(build_batch([BARE]))
    data[27:35] = data[35:43] = MIN.to_bytes(8, "big", signed=True)
    assert rules.need_records(read_batch(bytes(data)), NOW)
    record = Record(value=b"v", timestamp=MIN)
    assert rejection([record], read_batch(bytes(data)), rules, "t-0", NOW) is not None
    assert not rules.need_records(read_batch(build_batch([Record(timestamp=MIN + 1), BARE])), NOW)


@pytest.mark.parametrize(("first", "second", "needed"), [(2_000, 0, False), (2_001, 0, True), (0, 2_001, True)])
def test_any_late_timestamp_of_the_header_needs_the_records(first: int, second: int, needed: bool) -> None:
    rules = rules_of(message_timestamp_after_max_ms="2000")
    batch = read_batch(build_batch([Record(timestamp=NOW + first), Record(timestamp=NOW + second)]))
    assert rules.need_records(batch, NOW) is needed
    header = bytearray(batch.data)
    header[35:43] = NOW.to_bytes(8, "big")  # this largest timestamp is not that of the records
    assert rules.need_records(read_batch(bytes(header)), NOW) is (first > 2_000)


@pytest.mark.parametrize(("policy", "every"), [("delete", False), ("compact", True), ("delete,compact", True)])
def test_compacted_topic_reads_every_record(policy: str, every: bool) -> None:
    rules = rules_of(cleanup_policy=policy)
    assert (rules.compacted, rules.every_record) == (every, every)
    assert rules.need_records(read_batch(build_batch([KEYED])), NOW) is every


@pytest.mark.parametrize(
    ("topic", "needed"),
    [("producer", []), ("gzip", [NONE, ZSTD]), ("zstd", [NONE, GZIP]), ("uncompressed", [GZIP, ZSTD])],
)
def test_batch_of_another_codec_is_read(topic: str, needed: list[int]) -> None:
    rules = rules_of(compression_type=topic)
    found = [
        codec for codec in (NONE, GZIP, ZSTD) if rules.need_records(read_batch(build_batch([KEYED], codec=codec)), NOW)
    ]
    assert found == needed


def test_default_rules_are_kafkas() -> None:
    rules = rules_of()
    assert (rules.largest_batch, rules.largest_segment) == (1_048_588, 1 << 30)
    assert (rules.before_ms, rules.after_ms, rules.append_time) == (MAX_LONG, 3_600_000, False)


def test_first_three_errors_are_shown() -> None:
    rules = rules_of(cleanup_policy="compact")
    records = [KEYED, *[BARE] * 5]
    refused = rejection(records, read_batch(build_batch(records)), rules, "t-0", NOW)
    assert refused is not None
    text = "Compacted topic cannot accept message without key in topic partition t-0"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in (1, 2, 3))
    assert refused.text == (
        "One or more records have been rejected due to 5 record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
    assert refused.records == tuple((index, text) for index in range(1, 6))
    assert MAX_RECORD_ERRORS == 1_000


def test_type_of_timestamps_of_a_producer_is_create_time() -> None:
    rules = rules_of(message_timestamp_type="LogAppendTime")
    batch = read_batch(build_batch([KEYED], log_append_time=NOW))
    assert rules.need_records(batch, NOW)
    assert not rules.need_records(read_batch(build_batch([KEYED])), NOW)
    refused = rejection([KEYED], batch, rules, "t-0", NOW)
    assert refused is not None
    assert refused.records == (
        (
            0,
            f"Invalid timestamp type in message DefaultRecord(offset=0, timestamp={NOW}, key=1 bytes, value=1 bytes). "
            "Producer should not set timestamp type to LogAppendTime.",
        ),
    )
    assert rejection([KEYED], read_batch(build_batch([KEYED])), rules, "t-0", NOW) is None


def test_at_most_100_000_records_are_checked() -> None:
    rules = rules_of(cleanup_policy="compact")
    records = [*[KEYED] * 100_000, BARE]
    assert rejection(iter(records), read_batch(build_batch([KEYED])), rules, "t-0", NOW) is None
    assert rejection(iter(records[1:]), read_batch(build_batch([KEYED])), rules, "t-0", NOW) is not None


def test_batch_above_2_mib_is_not_recompressed() -> None:
    assert MAX_RECOMPRESSED == 2 * 1024 * 1024
    assert HIGHEST_LEVELS == {GZIP: 9, ZSTD: 12}
