"""Validation of produced records against the topic's configurations. The functions are pure.

Source: Kafka's LogValidator and UnifiedLog.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kwire import ErrorCode, LimitError
from kwire.lazy_dataclass import dataclass
from kwire.records.batch import Batch, Record, recompress
from kwire.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kwire.records.record import int64
from mockbroker.base.release import Release
from mockbroker.base.settings import Settings
from mockbroker.topics.configs import COMPACT, LOG_APPEND_TIME, MAX_LONG, Configs, effective
from mockbroker.topics.log import MAX_RECORDS_PER_BATCH

CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}  # values of compression.type
HIGHEST_LEVELS = {GZIP: 9, ZSTD: 12}  # codecs with a level; higher levels of zstd take more than 50 ms
MAX_RECOMPRESSED = 2 * 1024 * 1024  # bytes of records in a batch that is recompressed

NO_TIMESTAMP = -1
MIN_TIMESTAMP = -(2**63)  # Java's difference between it and now overflows, so it counts as in the future
SHOWN_ERRORS = 3  # record errors quoted in the error message of the batch
MAX_RECORD_ERRORS = 1_000  # maximum in a response: a batch of a few bytes can contain millions of records


@dataclass(frozen=True, slots=True)
class RecordRules:
    """The requirements of a topic on produced records.

    Attributes:
        largest_batch: maximum size of a batch in bytes (max.message.bytes).
        largest_segment: maximum size of a segment in bytes (segment.bytes).
        compacted: whether every record must have a key, because the topic is compacted.
        append_time: whether the broker sets the timestamps (LogAppendTime).
        before_ms: maximum time in milliseconds by which a timestamp may be before the current time.
        after_ms: maximum time in milliseconds by which a timestamp may be after the current time.
        every_record: whether each record must always be checked, and not only the header of its batch.
        codec: compression codec of stored batches (compression.type); None to keep the codec of the producer.
        level: compression level for this codec; None for the default.
    """

    largest_batch: int
    largest_segment: int
    compacted: bool
    append_time: bool
    before_ms: int
    after_ms: int
    every_record: bool
    codec: int | None = None
    level: int | None = None

    @classmethod
    def of(cls, configs: Configs, settings: Settings, release: Release) -> RecordRules:
        """Return the requirements on records of a topic with these configurations.

        Args:
            configs: configurations that are set on the topic itself.
            settings: the settings of the brokers.
            release: the emulated Kafka release.
        """

        def number(name: str) -> int:
            value = effective(configs, name, settings, release)
            assert isinstance(value, int)
            return value

        policies = effective(configs, "cleanup.policy", settings, release)
        assert isinstance(policies, list)
        append_time = effective(configs, "message.timestamp.type", settings, release) == LOG_APPEND_TIME
        compression = effective(configs, "compression.type", settings, release)
        codec = CODECS.get(str(compression))
        level = None
        if codec in HIGHEST_LEVELS:
            level = min(number(f"compression.{compression}.level"), HIGHEST_LEVELS[codec])
        before_ms, compacted = number("message.timestamp.before.max.ms"), COMPACT in policies
        return cls(
            largest_batch=number("max.message.bytes"),
            largest_segment=number("segment.bytes"),
            compacted=compacted,
            append_time=append_time,
            before_ms=before_ms,
            after_ms=number("message.timestamp.after.max.ms"),
            every_record=compacted or (before_ms < MAX_LONG and not append_time),
            codec=codec,
            level=level,
        )

    def changes_codec(self, batch: Batch) -> bool:
        """Return whether the broker stores the batch with a codec that differs from the codec of the producer."""
        return self.codec is not None and batch.codec != self.codec

    def recompressed(self, batch: Batch) -> Batch:
        """Return the batch as the broker stores it: compressed with the codec of the topic.

        With a codec other than ``uncompressed``, a batch with more than MAX_RECOMPRESSED bytes of records is returned
        unchanged, because recompression would take too long.

        Raises: kwire.DecodeError for records that cannot be decompressed; LimitError if uncompressed records exceed the
        maximum size of a batch.
        """
        assert self.codec is not None
        if self.codec == NONE:
            return recompress(batch, NONE, limit=self.largest_batch)
        try:
            return recompress(batch, self.codec, level=self.level, limit=MAX_RECOMPRESSED)
        except LimitError:
            return batch

    def need_records(self, batch: Batch, now_ms: int) -> bool:
        """Return whether each record of a batch must be checked; False if the header of the batch is sufficient.

        Args:
            batch: the batch.
            now_ms: the current time, milliseconds since 1970.
        """
        if self.every_record or (self.codec is not None and batch.codec != self.codec):
            return True
        if self.append_time:
            return batch.log_append_time
        latest = now_ms + self.after_ms
        return batch.max_timestamp > latest or batch.base_timestamp > latest or batch.base_timestamp == MIN_TIMESTAMP


@dataclass(frozen=True, slots=True)
class Rejection:
    """The error for a rejected batch of a producer.

    Attributes:
        error: error code.
        text: error message; None for Kafka's default message.
        records: index in the batch and error message of the first invalid records, at most MAX_RECORD_ERRORS.
    """

    error: ErrorCode
    text: str | None = None
    records: tuple[tuple[int, str], ...] = ()


def rejection(records: Iterable[Record], batch: Batch, rules: RecordRules, place: str, now_ms: int) -> Rejection | None:
    """Return the error for a batch with invalid records; None if all records are valid.

    Args:
        records: decoded records of the batch.
        batch: the batch.
        rules: requirements of the topic.
        place: the partition, as in ``topic-0``, for error messages.
        now_ms: the current time, milliseconds since 1970.

    Raises: kwire.DecodeError for records that cannot be decoded.
    """
    errors: list[tuple[int, str]] = []
    error = ErrorCode.INVALID_RECORD
    for index, record in enumerate(islice(records, MAX_RECORDS_PER_BATCH)):
        if rules.compacted and record.key is None:
            errors.append((index, f"Compacted topic cannot accept message without key in topic partition {place}"))
        elif text := _timestamp_error(record, index, batch, rules, now_ms):
            error = ErrorCode.INVALID_TIMESTAMP
            errors.append((index, text))
    if not errors:
        return None
    if error == ErrorCode.INVALID_TIMESTAMP:
        text = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:SHOWN_ERRORS])
        text = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
    return Rejection(error, text, tuple(errors[:MAX_RECORD_ERRORS]))


def _timestamp_error(record: Record, index: int, batch: Batch, rules: RecordRules, now_ms: int) -> str | None:
    timestamp = batch.max_timestamp if batch.log_append_time else record.timestamp
    if not rules.append_time and timestamp != NO_TIMESTAMP:
        difference = int64(timestamp - now_ms)
        if int64(-difference) <= rules.before_ms and difference <= rules.after_ms:
            return None
        earliest, latest = int64(now_ms - rules.before_ms), int64(now_ms + rules.after_ms)
        return (
            f"Timestamp {timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )
    if not batch.log_append_time:
        return None
    sizes = f"key={len(record.key or b'')} bytes, value={len(record.value or b'')} bytes"
    shown = f"DefaultRecord(offset={index}, timestamp={timestamp}, {sizes})"
    return f"Invalid timestamp type in message {shown}. Producer should not set timestamp type to LogAppendTime."
