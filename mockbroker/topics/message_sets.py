"""Message sets of old clients, as batches and back: logs hold batches only. Pure.

Source: Kafka 3.9's LogValidator, RecordsUtil and LazyDownConversionRecords.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kwire import DecodeError, EncodeError, ErrorCode
from kwire.records import build_batch, build_message_set, read
from kwire.records.batch import Batch, Record, batches, read_batch
from kwire.records.compression import IN_BATCHES_ONLY, NONE
from mockbroker.topics.log import MOST_RECORDS

NO_TIMESTAMP = -1


def gather(data: bytes, limit: int) -> Batch | ErrorCode | None:
    """What a set says as one batch of the same compression, None if it is empty. A message cut short is left out.

    ``limit``: bytes of one message. The records get new offsets and keep their timestamps.
    """
    try:
        messages = list(read(data))
    except DecodeError:
        return ErrorCode.CORRUPT_MESSAGE
    if not messages:
        return None
    if not all(message.crc_is_right() for message in messages):
        return ErrorCode.CORRUPT_MESSAGE
    if any(len(message.data) > limit for message in messages):
        return ErrorCode.MESSAGE_TOO_LARGE
    codec = next((message.codec for message in reversed(messages) if message.codec != NONE), NONE)
    alike = len({message.magic for message in messages}) == 1
    if not alike or (codec != NONE and len(messages) > 1):
        return ErrorCode.INVALID_RECORD
    try:
        records = [record for message in messages for record in _some(message.records(verify_crc=False))]
        if len(records) > MOST_RECORDS:
            return ErrorCode.INVALID_RECORD
        if any(record.timestamp < NO_TIMESTAMP for record in records):
            return ErrorCode.INVALID_TIMESTAMP
        return read_batch(build_batch(records, codec=codec))
    except (DecodeError, EncodeError):
        return ErrorCode.INVALID_RECORD


def scatter(data: bytes, offset: int, magic: int) -> bytes | ErrorCode:
    """Batches as messages from ``offset`` on, at most as many bytes as they were, or as the first becomes.

    What does not fit is cut off, be it in the middle of a message, as by Kafka. Markers of transactions are left out;
    of a compressed batch all records are told. An error if the first batch cannot be told; what stands behind one that
    is not the first has to wait until it is.
    """
    parts: list[bytes] = []
    size, most = 0, len(data)
    for batch in batches(data):
        if batch.control:
            continue
        part = _scattered(batch, offset, magic)
        if isinstance(part, ErrorCode):
            if not parts:
                return part
            break
        if not parts:
            most = max(most, len(part))
        if part:
            parts.append(part)
            size += len(part)
        if size >= most:
            break
    return b"".join(parts)[:most]


def _some(records: Iterator[Record]) -> Iterator[Record]:
    """Few enough not to keep everybody waiting, and one more to show that there are too many."""
    return islice(records, MOST_RECORDS + 1)


def _scattered(batch: Batch, offset: int, magic: int) -> bytes | ErrorCode:
    if batch.codec in IN_BATCHES_ONLY:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if batch.count > MOST_RECORDS:
        return ErrorCode.CORRUPT_MESSAGE
    try:
        records = [
            Record(offset=record.offset, timestamp=record.timestamp, key=record.key, value=record.value)
            for record in batch.records(verify_crc=False)
            if batch.codec != NONE or record.offset >= offset
        ]
        if not records:
            return b""
        stamp = batch.max_timestamp if batch.log_append_time and magic else None
        return build_message_set(records, magic=magic, codec=batch.codec, keep_offsets=True, log_append_time=stamp)
    except (DecodeError, EncodeError):  # Produce looks at the header only, so what is stored may turn out to be none
        return ErrorCode.CORRUPT_MESSAGE
