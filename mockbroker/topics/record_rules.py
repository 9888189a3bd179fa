"""What a topic's configurations ask of records that producers send, and which records of a batch do not comply. Pure.

Source: Kafka's LogValidator and UnifiedLog.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from kwire import ErrorCode
from kwire.records.batch import Batch, Record
from mockbroker.base.release import Release
from mockbroker.base.settings import Settings
from mockbroker.topics.configs import COMPACT, LOG_APPEND_TIME, LONGEST, Configs, effective
from mockbroker.topics.log import MOST_RECORDS

NO_TIMESTAMP = -1
FIRST_TIMESTAMP = -(2**63)  # so early that Java's difference to now overflows, and it is in the future
SHOWN = 3  # record errors that the text of the whole batch quotes
MOST_RECORD_ERRORS = 1_000  # that an answer lists; a batch of a few bytes can have millions of records


@dataclass(frozen=True, slots=True)
class RecordRules:
    """``largest_batch``, ``largest_segment``: bytes. ``compacted``: every record needs a key. ``append_time``: records
    have the time at which they are stored.

    ``before_ms``, ``after_ms``: how far timestamps may be from now. ``every_record``: the header of a batch does not
    show whether its records comply.
    """

    largest_batch: int
    largest_segment: int
    compacted: bool
    append_time: bool
    before_ms: int
    after_ms: int
    every_record: bool

    @classmethod
    def of(cls, configs: Configs, settings: Settings, release: Release) -> RecordRules:
        """The rules of a topic with these configurations."""

        def number(name: str) -> int:
            value = effective(configs, name, settings, release)
            assert isinstance(value, int)
            return value

        policies = effective(configs, "cleanup.policy", settings, release)
        assert isinstance(policies, list)
        append_time = effective(configs, "message.timestamp.type", settings, release) == LOG_APPEND_TIME
        before_ms, compacted = number("message.timestamp.before.max.ms"), COMPACT in policies
        return cls(
            largest_batch=number("max.message.bytes"),
            largest_segment=number("segment.bytes"),
            compacted=compacted,
            append_time=append_time,
            before_ms=before_ms,
            after_ms=number("message.timestamp.after.max.ms"),
            every_record=compacted or (before_ms < LONGEST and not append_time),
        )

    def are_doubtful(self, batch: Batch, now_ms: int) -> bool:
        """True if records of the batch may not comply, as far as its header shows."""
        if self.every_record:
            return True
        if self.append_time:
            return batch.log_append_time
        latest = now_ms + self.after_ms
        return batch.max_timestamp > latest or batch.base_timestamp > latest or batch.base_timestamp == FIRST_TIMESTAMP


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a batch is refused. ``records``: index and text of those that do not comply."""

    error: ErrorCode
    text: str | None = None
    records: tuple[tuple[int, str], ...] = ()


def rejection(records: Iterable[Record], batch: Batch, rules: RecordRules, place: str, now_ms: int) -> Rejection | None:
    """What is wrong with the records of a batch, None if nothing is. ``place``: the partition, as in ``topic-0``.

    Raises: kwire.DecodeError for records that cannot be read.
    """
    found: list[tuple[int, str]] = []
    error = ErrorCode.INVALID_RECORD
    for index, record in enumerate(islice(records, MOST_RECORDS)):
        if rules.compacted and record.key is None:
            found.append((index, f"Compacted topic cannot accept message without key in topic partition {place}"))
        elif text := _timestamp_error(record, index, batch, rules, now_ms):
            error = ErrorCode.INVALID_TIMESTAMP
            found.append((index, text))
    if not found:
        return None
    if error == ErrorCode.INVALID_TIMESTAMP:
        text = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in found[:SHOWN])
        text = (
            f"One or more records have been rejected due to {len(found)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    return Rejection(error, text, tuple(found[:MOST_RECORD_ERRORS]))


def _timestamp_error(record: Record, index: int, batch: Batch, rules: RecordRules, now_ms: int) -> str | None:
    timestamp = batch.max_timestamp if batch.log_append_time else record.timestamp
    if not rules.append_time and timestamp != NO_TIMESTAMP:
        difference = _long(timestamp - now_ms)
        if _long(-difference) <= rules.before_ms and difference <= rules.after_ms:
            return None
        earliest, latest = _long(now_ms - rules.before_ms), _long(now_ms + rules.after_ms)
        return (
            f"Timestamp {timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )
    if not batch.log_append_time:
        return None
    sizes = f"key={len(record.key or b'')} bytes, value={len(record.value or b'')} bytes"
    told = f"DefaultRecord(offset={index}, timestamp={timestamp}, {sizes})"
    return f"Invalid timestamp type in message {told}. Producer should not set timestamp type to LogAppendTime."


def _long(number: int) -> int:
    """A number as Java has it in 64 bits, which overflow."""
    return (number + 2**63) % 2**64 - 2**63
