"""Conversion between message sets (magic 0 and 1, used by old clients) and record batches (magic 2, used in logs).
The functions are pure.

Source: Kafka 3.9's LogValidator, RecordsUtil and LazyDownConversionRecords.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kwire import CrcError, DecodeError, EncodeError, ErrorCode
from kwire.records import build_batch, build_message_set, read
from kwire.records.batch import Batch, Record, batches, read_batch
from kwire.records.compression import IN_BATCHES_ONLY, NONE
from mockbroker.topics.log import MAX_RECORDS_PER_BATCH

NO_TIMESTAMP = -1


def to_batch(data: bytes, limit: int) -> Batch | ErrorCode | None:
    """Return one record batch with the records of a message set, with the same compression.

    The records keep their timestamps, and get new offsets. A truncated last message is ignored. The result is None for
    an empty message set, and an error code if the message set is not valid.

    Args:
        data: the message set.
        limit: maximum size of one message in bytes (max.message.bytes).
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
    same_magic = len({message.magic for message in messages}) == 1
    if not same_magic or (codec != NONE and len(messages) > 1):
        return ErrorCode.INVALID_RECORD
    try:
        records = [record for message in messages for record in _limited(message.records())]
        if len(records) > MAX_RECORDS_PER_BATCH:
            return ErrorCode.INVALID_RECORD
        if any(record.timestamp < NO_TIMESTAMP for record in records):
            return ErrorCode.INVALID_TIMESTAMP
        return read_batch(build_batch(records, codec=codec))
    except CrcError:  # of a message inside a compressed message
        return ErrorCode.CORRUPT_MESSAGE
    except (DecodeError, EncodeError):
        return ErrorCode.INVALID_RECORD


def from_batches(data: bytes, offset: int, magic: int) -> bytes | ErrorCode:
    """Return the records of batches as a message set, as Kafka's down-conversion does.

    The message set is at most as large as ``data``, or as the first converted batch if this batch is larger. As in
    Kafka, the message set may be cut in the middle of a message. Transaction markers are omitted. If the first batch
    cannot be converted, an error code is returned. If a later batch cannot be converted, the message set ends before
    that batch, so that the next fetch gets the error.

    Args:
        data: the encoded batches.
        offset: the fetch offset. Earlier records are omitted if their batch is not compressed.
        magic: magic of the messages, 0 or 1.
    """
    parts: list[bytes] = []
    size, limit = 0, len(data)
    for batch in batches(data):
        if batch.control:
            continue
        part = _message_set(batch, offset, magic)
        if isinstance(part, ErrorCode):
            if not parts:
                return part
            break
        if not parts:
            limit = max(limit, len(part))
        if part:
            parts.append(part)
            size += len(part)
        if size >= limit:
            break
    return b"".join(parts)[:limit]


def _limited(records: Iterator[Record]) -> Iterator[Record]:
    """Yield at most MAX_RECORDS_PER_BATCH + 1 records. The extra record shows the caller that there are too many."""
    return islice(records, MAX_RECORDS_PER_BATCH + 1)


def _message_set(batch: Batch, offset: int, magic: int) -> bytes | ErrorCode:
    if batch.codec in IN_BATCHES_ONLY:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if batch.count > MAX_RECORDS_PER_BATCH:
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
    except (DecodeError, EncodeError):  # Produce checks only the header, so stored records may be malformed
        return ErrorCode.CORRUPT_MESSAGE
