"""Malformed records: the bytes of the records field of a response, changed in one of the forms.

Each function returns the records unchanged if they have no complete batch that the form can change. A batch is a record
batch of magic 2, or a message of magic 0 or 1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from google_crc32c import value as crc32c

from kwire.engines.varints import uvarint
from kwire.errors import DecodeError
from kwire.records import Batch, Message, Record, RecordSet, build_message_set, read
from kwire.records import batch as batches
from kwire.records import message_set as messages
from kwire.records.compression import GZIP, compress
from kwire.records.limits import SMALLEST_RECORD
from kwire.records.record import write_records

CRC = struct.Struct(">I")
SCHEMA_ID = struct.Struct(">bi")  # magic byte 0 and the id, before a value that a schema registry describes
INVERTED = bytes(range(255, -1, -1))
ZEROS = bytes(1 << 20)  # a piece of a decompression bomb
GZIP_HEADER = bytes.fromhex("1f8b 0800 00000000 02ff")


def change_crc(records: bytes, *, add: int) -> bytes:
    """Return the records with another CRC of the first batch."""
    for first in _complete(records):
        at = _crc_at(first.magic)
        return records[:at] + CRC.pack((_crc(first.data) + add) & 0xFFFF_FFFF) + records[at + CRC.size :]
    return records


def change_magic(records: bytes, *, value: int) -> bytes:
    """Return the records with another magic of the first batch; its CRC is valid."""
    for first in _complete(records):
        changed = bytearray(first.data)
        struct.pack_into(">b", changed, batches.MAGIC_AT, value)
        return _with_crc(bytes(changed), first.magic) + records[len(changed) :]
    return records


def change_record_count(records: bytes, *, value: int) -> bytes:
    """Return the records with another record count of the first batch; its CRC is valid. A message has no count."""
    for first in _complete(records):
        if isinstance(first, Batch):
            return _rebuilt(first, count=value) + records[len(first.data) :]
        return records
    return records


def insert_bomb(records: bytes, *, bytes: int) -> bytes:  # noqa: A002 the name of the parameter
    """Return the records with a gzip bomb instead of the first batch with data: one record whose value is zeros.

    The bomb has the offsets, producer and timestamps of that batch, and a valid CRC. Decompressed it has so many bytes,
    in a record batch up to two less, because the length of a record has no fixed size.
    """
    for first in _with_data(records):
        bomb = _batch_bomb(first, bytes) if isinstance(first, Batch) else _message_bomb(first, bytes)
        return records[: first.position] + bomb + records[first.position + len(first.data) :]
    return records


def corrupt_values(records: bytes) -> bytes:
    """Return the records with all bits of all values inverted; the CRCs are valid. Control batches are unchanged."""
    return _with_values(records, lambda value: value.translate(INVERTED))


def change_schema_id(records: bytes, *, id: int) -> bytes:  # noqa: A002 the name of the parameter
    """Return the records with values that refer to a schema, in the wire format of schema registries; CRCs are valid.

    A value that begins with magic byte 0 and a schema id gets another id; other values get both in front of them.
    """
    prefix = SCHEMA_ID.pack(0, id)
    return _with_values(records, lambda value: prefix + (value[SCHEMA_ID.size :] if _has_schema_id(value) else value))


def _has_schema_id(value: bytes) -> bool:
    return len(value) >= SCHEMA_ID.size and value[0] == 0


def _with_values(records: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return the records with changed values that are not null; the CRCs are valid. Control batches are unchanged."""
    parts, at = [], 0
    for each in _with_data(records):
        parts += [records[at : each.position], _changed(each, change)]
        at = each.position + len(each.data)
    return b"".join([*parts, records[at:]])


def duplicate(records: bytes, *, count: int) -> bytes:
    """Return the records with all complete batches ``count`` more times, before a batch that is cut."""
    size = sum(len(each.data) for each in _complete(records))
    return records[:size] * (1 + count) + records[size:]


FORMS: Mapping[str, Callable[..., bytes]] = {
    "crc": change_crc,
    "magic": change_magic,
    "record_count": change_record_count,
    "decompression_bomb": insert_bomb,
    "corrupt_values": corrupt_values,
    "schema_id": change_schema_id,
    "duplicate_records": duplicate,
}
OF_ALL_PARTITIONS = frozenset({"corrupt_values", "schema_id", "duplicate_records"})  # others change the first one only


def _complete(records: bytes) -> Iterator[RecordSet]:
    """Yield the complete batches, up to an invalid one."""
    with suppress(DecodeError):
        yield from read(records)


def _with_data(records: bytes) -> Iterator[Batch | Message]:
    for each in _complete(records):
        if isinstance(each, Message) or (isinstance(each, Batch) and not each.control):
            yield each


def _crc_at(magic: int) -> int:
    return batches.CRC_AT if magic >= 2 else messages.CRC_AT


def _crc(data: bytes) -> int:
    crc: int = CRC.unpack_from(data, _crc_at(data[batches.MAGIC_AT]))[0]
    return crc


def _with_crc(data: bytes, magic: int) -> bytes:
    """Return a batch with a valid CRC. ``magic``: the format, whatever magic the batch declares."""
    at = _crc_at(magic)
    covered = data[batches.CRC_FROM if magic >= 2 else messages.CRC_FROM :]
    crc = crc32c(covered) if magic >= 2 else zlib.crc32(covered)
    return data[:at] + CRC.pack(crc) + data[at + CRC.size :]


def _rebuilt(
    batch: Batch, *, attributes: int | None = None, count: int | None = None, body: bytes | None = None
) -> bytes:
    """Return a record batch with other attributes, record count or records, and a valid CRC."""
    body = batch.data[batches.HEADER.size :] if body is None else body
    header = batches.HEADER.pack(
        batch.base_offset,
        batches.HEADER.size - batches.PREFIX + len(body),
        batch.leader_epoch,
        batch.magic,
        0,
        batch.attributes if attributes is None else attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count if count is None else count,
    )
    return _with_crc(header + body, batch.magic)


def _changed(each: Batch | Message, change: Callable[[bytes], bytes]) -> bytes:
    """Return a batch with changed values, or as it is if its records cannot be read or no value changes."""
    if isinstance(each, Batch):  # with the records' own timestamps, which log append time hides
        plain: Batch | Message = replace(each, attributes=each.attributes & ~batches.LOG_APPEND_TIME)
    else:
        plain = each
    try:
        records = list(plain.records(verify_crc=False))
    except DecodeError:
        return each.data
    changed = [None if record.value is None else change(record.value) for record in records]
    if changed == [record.value for record in records]:
        return each.data
    for record, value in zip(records, changed, strict=True):
        record.value = value
    if isinstance(each, Batch):
        deltas = [record.offset - each.base_offset for record in records]
        body = compress(each.codec, write_records(records, deltas, each.base_timestamp))
        return _rebuilt(each, body=body)
    append_time = each.max_timestamp if each.log_append_time else None
    return build_message_set(
        records, magic=each.magic, codec=each.codec, keep_offsets=True, log_append_time=append_time
    )


def _batch_bomb(batch: Batch, size: int) -> bytes:
    head, value_size = _record_of_zeros(size)
    body = _gzipped(head, value_size + 1)  # the number of headers is a zero too
    attributes = batch.attributes & ~batches.CODEC_MASK | GZIP
    return _rebuilt(batch, attributes=attributes, count=1, body=body)


def _record_of_zeros(size: int) -> tuple[bytes, int]:
    """Return a record of at most ``size`` bytes: all before its value, and the number of zeros of its value."""
    value_size = max(size - SMALLEST_RECORD, 0)
    while True:
        fields = bytes(3) + b"\x01" + uvarint(value_size << 1)  # attributes, two deltas, null key; zigzag varints
        head = uvarint(len(fields) + value_size + 1 << 1) + fields
        if not value_size or len(head) + value_size + 1 <= size:
            return head, value_size
        value_size -= 1


def _message_bomb(message: Message, size: int) -> bytes:
    """Return a wrapper with one message. ``size``: bytes of that message."""
    fields = messages.FIELDS_AT[message.magic]
    value_size = max(size - fields - 2 * messages.SIZE.size, 0)
    offset = 0 if message.magic else message.offset  # relative since magic 1
    prefix = messages.PREFIX.pack(offset, fields - messages.PREFIX.size + 2 * messages.SIZE.size + value_size)
    attributes = bytes([message.magic, 0])
    timestamp = messages.TIMESTAMP.pack(message.timestamp) if message.magic else b""
    covered = attributes + timestamp + messages.SIZE.pack(-1) + messages.SIZE.pack(value_size)
    crc = CRC.pack(_crc32_of_zeros(value_size, zlib.crc32(covered)))
    packed = _gzipped(prefix + crc + covered, value_size)
    plain = Record(offset=message.offset, timestamp=message.timestamp, value=packed)
    wrapper = bytearray(build_message_set([plain], magic=message.magic, keep_offsets=True))
    wrapper[messages.MAGIC_AT + 1] = message.attributes & ~messages.CODEC_MASK | GZIP
    return _with_crc(bytes(wrapper), message.magic)


@lru_cache(maxsize=8)
def _gzipped(head: bytes, zeros: int) -> bytes:
    """Return the gzip stream of some bytes and then zeros, without ever having all of them in memory."""
    pieces, rest = divmod(zeros, len(ZEROS))
    parts = [_deflated(head), _deflated(ZEROS) * pieces, _deflated(ZEROS[:rest], last=True)]
    crc = _crc32_of_zeros(zeros, zlib.crc32(head))
    return GZIP_HEADER + b"".join(parts) + struct.pack("<II", crc, len(head) + zeros)


def _deflated(data: bytes, *, last: bool = False) -> bytes:
    """Return a part of a deflate stream that ends at a byte and refers to no other part."""
    deflate = zlib.compressobj(9, wbits=-15)
    return deflate.compress(data) + deflate.flush(zlib.Z_FINISH if last else zlib.Z_FULL_FLUSH)


def _crc32_of_zeros(zeros: int, crc: int) -> int:
    """Return the CRC of bytes with the given CRC and then zeros."""
    pieces, rest = divmod(zeros, len(ZEROS))
    for _ in range(pieces):
        crc = zlib.crc32(ZEROS, crc)
    return zlib.crc32(ZEROS[:rest], crc)
