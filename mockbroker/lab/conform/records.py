"""The record batches in conversations: conversion to comparable objects, and replacement of producer ids.

The functions are pure.
"""

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
PRODUCER_ID_AT = 43  # byte offset in the header of a record batch
CRC_AT = 17  # byte offset in the header of a record batch


def read_records(text: str) -> list[dict[str, Any]]:
    """Return one JSON object for each record batch or message, for comparison.

    Checksums, timestamps of transaction markers, delete horizons and compressed bytes are left out, because they differ
    in every run. A truncated last batch is left out too.

    Args:
        text: record batches or messages in base64.

    Raises: kwire.DecodeError if the records are malformed.
    """
    return [_read(each) if isinstance(each, Batch) else _read_message(each) for each in read(base64.b64decode(text))]


def _read(batch: Batch) -> dict[str, Any]:
    fields: dict[str, Any] = {
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
        return fields | {"markers": [[record.name, repr(record.message)] for record in control_records(batch)]}
    if batch.delete_horizon is not None:  # a time of the log cleaner, from which the timestamps of records count
        records = [[each.offset, each.timestamp, repr(each.key), repr(each.value)] for each in batch.records()]
        return fields | {"max_timestamp": batch.max_timestamp, "records": records}
    body = decompress(batch.codec, batch.data[HEADER.size :])
    return fields | {"max_timestamp": batch.max_timestamp, "body": body.hex()}


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
    """Return ``records``, a record batch, with another producer id and a new checksum."""
    patched = bytearray(records)
    PRODUCER_ID.pack_into(patched, PRODUCER_ID_AT, producer_id)
    struct.pack_into(">I", patched, CRC_AT, google_crc32c.value(bytes(patched[CRC_FROM:])))
    return bytes(patched)


def producer_of(records: bytes) -> int:
    """Return the producer id of the first record batch, or -1 if ``records`` contains no batch."""
    if len(records) < HEADER.size:
        return -1
    producer_id: int = PRODUCER_ID.unpack_from(records, PRODUCER_ID_AT)[0]
    return producer_id
