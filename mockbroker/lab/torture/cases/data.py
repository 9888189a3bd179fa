"""Cases with contradictory or absurd records, offsets and producer ids."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kwire.messages.fetch import FetchResponse
from kwire.records import Record, build_batch
from kwire.records.compression import NAMES, NONE
from mockbroker.lab.torture.case import Case, Turn
from mockbroker.lab.torture.cases.cluster import no_topics

Partition = FetchResponse.Topic.Partition
BOMB = 200 << 20  # bytes of zeros in one record
BASE_OFFSET, BATCH_LENGTH = struct.Struct(">q"), struct.Struct(">i")  # the first fields of a batch
HUGE = 2**62
KAFKAJS_562 = "https://github.com/tulios/kafkajs/issues/562"
KAFKAJS_1795 = "https://github.com/tulios/kafkajs/issues/1795"
KAFKA_PYTHON_322 = "https://github.com/dpkp/kafka-python/issues/322"
KAFKA_PYTHON_1701 = "https://github.com/dpkp/kafka-python/issues/1701"
KAFKA_PYTHON_2132 = "https://github.com/dpkp/kafka-python/issues/2132"
KAFKA_14063 = "https://issues.apache.org/jira/browse/KAFKA-14063"


def fetched(response: Any) -> list[Any]:
    return [each for topic in response.responses for each in topic.partitions]


def with_records(response: Any) -> list[Any]:
    return [each for each in fetched(response) if each.records]


def offsets(response: Any) -> list[Any]:
    return [each for topic in response.topics for each in topic.partitions]


def results(response: Any) -> list[Any]:
    return [each for topic in response.responses for each in topic.partition_responses]


# --- ListOffsets ---


def huge_end(response: Any, _request: Any, _: Turn) -> None:
    for each in offsets(response):
        each.offset = HUGE


def no_end(response: Any, _request: Any, _: Turn) -> None:
    for each in offsets(response):
        each.offset, each.timestamp, each.error_code = -1, -1, 0


def negative_end(response: Any, _request: Any, _: Turn) -> None:
    for each in offsets(response):
        each.offset = -1_000


def other_partitions(response: Any, _request: Any, _: Turn) -> None:
    for each in offsets(response):
        each.partition_index += 1_000


# --- Fetch ---


def no_responses(response: Any, _request: Any, _: Turn) -> None:
    response.responses = []


def other_fetched(response: Any, _request: Any, _: Turn) -> None:
    for each in fetched(response):
        each.partition_index += 1_000


def duplicate_fetched(response: Any, _request: Any, _: Turn) -> None:
    response.responses = response.responses * 2


def null_records(response: Any, _request: Any, _: Turn) -> None:
    for each in fetched(response):
        each.records = None


def falling_high_watermark(response: Any, _request: Any, turn: Turn) -> None:
    for each in fetched(response):
        each.high_watermark = max(0, 100 - turn.number)


def negative_high_watermark(response: Any, _request: Any, _: Turn) -> None:
    for each in fetched(response):
        each.high_watermark, each.last_stable_offset = -1, -1


def log_start_above_end(response: Any, _request: Any, _: Turn) -> None:
    for each in fetched(response):
        each.log_start_offset = HUGE


def absent_replica(response: Any, _request: Any, _: Turn) -> None:
    for each in fetched(response):
        each.preferred_read_replica, each.records = 99, b""


def diverging_epoch(response: Any, _request: Any, _: Turn) -> None:
    for each in fetched(response):
        each.diverging_epoch, each.records = Partition.EpochEndOffset(epoch=0, end_offset=0), b""


def all_aborted(response: Any, _request: Any, _: Turn) -> None:
    for each in fetched(response):
        each.aborted_transactions = [Partition.AbortedTransaction(producer_id=-1, first_offset=0)] * 1_000


def other_session(response: Any, _request: Any, turn: Turn) -> None:
    response.session_id = turn.number + 1


def first_offsets(records: bytes, change: Callable[[int], int]) -> bytes:
    """Return records with another base offset in the first batch. The CRC of the batch does not cover the base offset.

    Args:
        records: the record batches.
        change: function that returns the new offset.
    """
    (offset,) = BASE_OFFSET.unpack_from(records)
    return BASE_OFFSET.pack(change(offset)) + records[BASE_OFFSET.size :]


def backward_offsets(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = first_offsets(each.records, lambda _: 0)


def negative_offsets(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = first_offsets(each.records, lambda _: -(2**63))


def huge_offsets(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = first_offsets(each.records, lambda _: HUGE)


def batch_length(records: bytes, length: int) -> bytes:
    at = BASE_OFFSET.size
    return records[:at] + BATCH_LENGTH.pack(length) + records[at + BATCH_LENGTH.size :]


def negative_batch_length(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = batch_length(each.records, -1)


def zero_batch_length(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = batch_length(each.records, 0)


def huge_batch_length(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = batch_length(each.records, 2**31 - 1)


def only_the_batch_header(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = each.records[:61]


def empty_batches(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = build_batch([], base_offset=0, last_offset=0)


def compacted_batches(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        (first,) = BASE_OFFSET.unpack_from(each.records)
        each.records = build_batch([], base_offset=first, last_offset=first)


def earlier_records(response: Any, _request: Any, _: Turn) -> None:
    """Replace the records of each partition with one record, at the offset before the first record of the response.

    The batch of this record ends at the offset of the first replaced record. Records that begin at offset 0 are not
    replaced.

    ``response``: Fetch response, which is changed in place.
    """
    for each in with_records(response):
        (first,) = BASE_OFFSET.unpack_from(each.records)
        if first:
            each.records = build_batch([Record(value=b"earlier")], base_offset=first - 1, last_offset=first)


def no_next_request(response: Any, _request: Any, _: Turn) -> None:
    response.throttle_time_ms = 2**31 - 1


def random_records(response: Any, _request: Any, turn: Turn) -> None:
    for each in with_records(response):
        each.records = turn.random.randbytes(len(each.records))


def zeros(response: Any, _request: Any, _: Turn) -> None:
    for each in with_records(response):
        each.records = bytes(len(each.records))


def bomb(codec: int) -> Callable[[Any, Any, Turn], None]:
    batch = b""

    def change(response: Any, _request: Any, _: Turn) -> None:
        nonlocal batch
        batch = batch or build_batch([Record(value=bytes(BOMB))], codec=codec)
        for each in with_records(response):
            each.records = each.records[: BASE_OFFSET.size] + batch[BASE_OFFSET.size :]

    return change


# --- Produce and InitProducerId ---


def no_results(response: Any, _request: Any, _: Turn) -> None:
    response.responses = []


def other_results(response: Any, _request: Any, _: Turn) -> None:
    for each in results(response):
        each.index += 1_000


def no_base_offset(response: Any, _request: Any, _: Turn) -> None:
    for each in results(response):
        each.base_offset = -1


def error_without_code(response: Any, _request: Any, _: Turn) -> None:
    for each in results(response):
        each.error_message = "x" * 30_000


def unknown_error(response: Any, _request: Any, _: Turn) -> None:
    for each in results(response):
        each.error_code = 32_767


def no_producer_id(response: Any, _request: Any, _: Turn) -> None:
    response.producer_id, response.producer_epoch = -1, -1


def last_epoch(response: Any, _request: Any, _: Turn) -> None:
    response.producer_epoch = 32_767


CHANGES = [  # name, step, description, change, published
    ("huge-end-offsets", "ListOffsets", "returns offsets of 2^62", huge_end, ""),
    ("no-end-offsets", "ListOffsets", "returns offset -1 without an error", no_end, ""),
    ("negative-end-offsets", "ListOffsets", "returns offset -1000", negative_end, ""),
    ("no-listed-partitions", "ListOffsets", "leaves all partitions out", no_topics, ""),
    ("other-listed-partitions", "ListOffsets", "returns offsets of other partitions", other_partitions, ""),
    ("no-fetched-partitions", "Fetch", "leaves all partitions out", no_responses, ""),
    ("other-fetched-partitions", "Fetch", "returns other partitions", other_fetched, ""),
    ("duplicate-fetched-partitions", "Fetch", "returns each partition twice", duplicate_fetched, ""),
    ("null-records", "Fetch", "returns null in place of records", null_records, ""),
    ("falling-high-watermark", "Fetch", "returns a lower high watermark each time", falling_high_watermark, ""),
    ("negative-high-watermark", "Fetch", "returns high watermark -1 without an error", negative_high_watermark, ""),
    ("log-start-above-end", "Fetch", "returns log start offset 2^62", log_start_above_end, ""),
    ("absent-replica", "Fetch", "prefers a replica that does not exist", absent_replica, ""),
    ("diverging-epoch", "Fetch", "asks to truncate to offset 0 each time", diverging_epoch, ""),
    ("all-aborted", "Fetch", "names 1,000 aborted transactions", all_aborted, ""),
    ("other-session", "Fetch", "returns another session id each time", other_session, ""),
    ("zeros-as-records", "Fetch", "returns zeros in place of records", zeros, ""),
    ("random-records", "Fetch", "returns random bytes in place of records", random_records, ""),
    ("backward-offsets", "Fetch", "returns records with offset 0 each time", backward_offsets, KAFKA_PYTHON_322),
    ("negative-offsets", "Fetch", "returns records with negative offsets", negative_offsets, ""),
    ("huge-offsets", "Fetch", "returns records with offset 2^62", huge_offsets, ""),
    ("negative-batch-length", "Fetch", "returns batches of length -1", negative_batch_length, ""),
    ("zero-batch-length", "Fetch", "returns batches of length 0", zero_batch_length, ""),
    ("huge-batch-length", "Fetch", "returns batches of length 2147483647", huge_batch_length, KAFKA_14063),
    ("batch-header-only", "Fetch", "returns the header of a batch without its records", only_the_batch_header, ""),
    ("empty-batches", "Fetch", "returns batches without records", empty_batches, KAFKA_PYTHON_2132),
    (
        "compacted-batches",
        "Fetch",
        "returns batches whose records were all removed by compaction",
        compacted_batches,
        KAFKA_PYTHON_1701,
    ),
    (
        "earlier-records",
        "Fetch",
        "returns batches that have only a record before the fetch offset",
        earlier_records,
        KAFKAJS_562,
    ),
    *(
        (f"{step}-throttle-24-days", step, f"sends a throttle time of 24 days with each {step}", no_next_request, "")
        for step in ("Fetch", "Metadata", "Heartbeat", "Produce")
    ),
    *(
        (
            f"bomb-{codec_name}",
            "Fetch",
            f"returns 200 MiB of zeros, compressed with {codec_name}",
            bomb(codec),
            KAFKAJS_1795 if codec_name == "gzip" else "",
        )
        for codec, codec_name in NAMES.items()
        if codec != NONE
    ),
    ("no-results", "Produce", "leaves the results of all partitions out", no_results, ""),
    ("other-results", "Produce", "returns results of other partitions", other_results, ""),
    ("no-base-offset", "Produce", "returns base offset -1 without an error", no_base_offset, ""),
    (
        "message-without-error",
        "Produce",
        "returns a long error message without an error",
        error_without_code,
        "",
    ),
    ("unknown-error", "Produce", "returns an error code that does not exist", unknown_error, ""),
    ("no-producer-id", "InitProducerId", "returns producer id -1 without an error", no_producer_id, ""),
    ("last-producer-epoch", "InitProducerId", "returns the last producer epoch", last_epoch, ""),
]
RECORD_COUNTS = ("negative", "a batch with -1 records", -1), ("zero", "a batch with 0 records, which has one", 0)
CASES = [
    *(Case(name, step, what, change=change, published=published) for name, step, what, change, published in CHANGES),
    *(
        Case(
            f"{name}-record-count",
            "Fetch",
            f"returns {what}, with a valid CRC",
            rules=({"api": "Fetch", "malform": "record_count", "parameters": {"value": value}, "times": "always"},),
        )
        for name, what, value in RECORD_COUNTS
    ),
]
