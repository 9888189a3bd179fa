"""Record batches as they stand in conversations: read for comparison, and given other producer ids. Pure."""

from __future__ import annotations

import base64
import struct
from typing import Any

import google_crc32c

from kwire.records import RecordSet, read
from kwire.records.batch import CRC_FROM, HEADER, Batch
from kwire.records.compression import decompress
from kwire.records.control import control_records

PRODUCER_ID = struct.Struct(">q")
PRODUCER_ID_AT = 43  # in the header of a record batch
CRC_AT = 17


def read_records(text: str) -> list[dict[str, Any]]:
    """Batches and messages in base64, as objects without what differs in every run: checksums, when a broker wrote a
    marker, and which bytes compression makes. What is cut off at the end is left out.

    Raises: kwire.DecodeError.
    """
    return [_read(each) if isinstance(each, Batch) else _read_message(each) for each in read(base64.b64decode(text))]


def _read(batch: Batch) -> dict[str, Any]:
    found: dict[str, Any] = {
        "base_offset": batch.base_offset,
        "leader_epoch": batch.leader_epoch,
        "attributes": batch.attributes,
        "last_offset_delta": batch.last_offset_delta,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "count": batch.count,
    }
    if batch.control:
        return found | {"markers": [[record.name, repr(record.message)] for record in control_records(batch)]}
    body = decompress(batch.codec, batch.data[HEADER.size :])
    return found | {"max_timestamp": batch.max_timestamp, "body": body.hex()}


def _read_message(message: RecordSet) -> dict[str, Any]:
    return {
        "magic": message.magic,
        "codec": message.codec,
        "log_append_time": message.log_append_time,
        "offset": message.last_offset,
        "timestamp": message.max_timestamp,
        "records": [[each.offset, each.timestamp, repr(each.key), repr(each.value)] for each in message.records()],
    }


def with_producer(records: bytes, producer_id: int) -> bytes:
    """The first batch with another producer id and the checksum that fits."""
    patched = bytearray(records)
    PRODUCER_ID.pack_into(patched, PRODUCER_ID_AT, producer_id)
    struct.pack_into(">I", patched, CRC_AT, google_crc32c.value(bytes(patched[CRC_FROM:])))
    return bytes(patched)


def producer_of(records: bytes) -> int:
    """The producer id of the first batch; -1 if there is none."""
    if len(records) < HEADER.size:
        return -1
    found: int = PRODUCER_ID.unpack_from(records, PRODUCER_ID_AT)[0]
    return found
