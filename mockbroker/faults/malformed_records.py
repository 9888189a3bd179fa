"""Malformed records: the bytes of the records field of a response, changed in one of the forms.

Each function is a generator that yields after a limited amount of work, so that other requests are handled in between.
It returns the records unchanged if they have no complete batch that the form can change. A batch is a record batch of
magic 2, or a message of magic 0 or 1.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeGuard

from google_crc32c import extend as crc32c_on
from google_crc32c import value as crc32c

from kwire.buffers import join_in_steps
from kwire.engines.varints import uvarint
from kwire.errors import DecodeError, LimitError
from kwire.records import Batch, Message, Record, RecordSet, build_message_set, read
from kwire.records import batch as batches
from kwire.records import message_set as messages
from kwire.records.compression import (
    GZIP,
    GZIP_STEP,
    LZ4,
    LZ4_BLOCK,
    NONE,
    SNAPPY,
    XERIAL_BLOCK,
    ZSTD,
    ZSTD_STEP,
    compressed_pieces,
    decompressed_pieces,
    is_one_piece,
)
from kwire.records.limits import SMALLEST_RECORD
from kwire.records.record import write_records
from mockbroker.faults.slice_counter import ELEMENTS, BytesInSlices, SliceCounter

log = logging.getLogger("mockbroker")

CRC = struct.Struct(">I")
CRC_BITS = 32
SCHEMA_ID = struct.Struct(">bi")  # magic byte 0 and the id, before a value that a schema registry describes
INVERTED = bytes(range(255, -1, -1))
ZEROS = bytes(1 << 20)  # a piece of a decompression bomb
# By codec, the cost of a compressed piece, as bytes of an element in a slice: gzip takes much longer for each byte.
PIECE_COST = {NONE: 0, GZIP: 32 * GZIP_STEP, SNAPPY: XERIAL_BLOCK, LZ4: LZ4_BLOCK, ZSTD: ZSTD_STEP}
LARGEST_PIECE = 16 << 20  # bytes that are decompressed at once, of a batch in a format that cannot be divided
LARGEST_MESSAGE_SET = 4 << 20  # bytes that are decompressed at once, of a compressed message set (even gzip)
GZIP_HEADER = bytes.fromhex("1f8b 0800 00000000 02ff")


def change_crc(records: bytes, *, add: int) -> BytesInSlices:
    """Return the records with a wrong CRC in the first batch. ``add``: number that is added to the valid CRC."""
    for first in _complete(records):
        at = _crc_at(first.magic)
        return records[:at] + CRC.pack((_crc(first.data) + add) & 0xFFFF_FFFF) + records[at + CRC.size :]
    return records
    yield  # a generator, as the other forms


def change_magic(records: bytes, *, value: int) -> BytesInSlices:
    """Return the records with the magic byte ``value`` and a valid CRC in the first batch."""
    for first in _complete(records):
        changed = bytearray(first.data)
        struct.pack_into(">b", changed, batches.MAGIC_AT, value)
        return _with_crc(bytes(changed), first.magic) + records[len(changed) :]
    return records
    yield


def change_record_count(records: bytes, *, value: int) -> BytesInSlices:
    """Return the records with the record count ``value`` and a valid CRC in the first batch.

    Messages of magic 0 and 1 have no count and are not changed.
    """
    for first in _complete(records):
        if isinstance(first, Batch):
            return _rebuilt(first, count=value) + records[len(first.data) :]
        return records
    return records
    yield


def insert_bomb(records: bytes, *, bytes: int) -> BytesInSlices:  # noqa: A002 the name of the parameter
    """Return the records with a gzip bomb in place of the first batch that has data: one record whose value consists of
    zero bytes.

    The bomb has the offsets, producer and timestamps of the replaced batch, and a valid CRC.

    ``bytes``: size of the decompressed records of the bomb. In a record batch it may be up to two bytes less, because
    record lengths are varints.
    """
    count = SliceCounter()
    for first in _complete(records):
        if count.is_full(len(first.data)):
            yield
        if not _has_values(first):
            continue
        bomb = _batch_bomb(first, bytes) if isinstance(first, Batch) else _message_bomb(first, bytes)
        return records[: first.position] + bomb + records[first.position + len(first.data) :]
    return records


def corrupt_values(records: bytes) -> BytesInSlices:
    """Return the records with all bits of all values inverted; the CRCs are valid. Control batches are unchanged."""
    return (yield from _with_values(records, lambda value: value.translate(INVERTED)))


def change_schema_id(records: bytes, *, id: int) -> BytesInSlices:  # noqa: A002 the name of the parameter
    """Return the records with values that refer to a schema, in the wire format of schema registries. The CRCs are
    valid.

    If a value begins with magic byte 0 and a schema id, the id is replaced. Otherwise magic byte 0 and the id are put
    before the value.

    ``id``: the new schema id.
    """
    prefix = SCHEMA_ID.pack(0, id)

    def with_id(value: bytes) -> bytes:
        return prefix + (value[SCHEMA_ID.size :] if _has_schema_id(value) else value)

    return (yield from _with_values(records, with_id))


def _has_schema_id(value: bytes) -> bool:
    return len(value) >= SCHEMA_ID.size and value[0] == 0


def _with_values(records: bytes, change: Callable[[bytes], bytes]) -> BytesInSlices:
    """Return the records with changed values and valid CRCs. Null values and control batches are unchanged.

    Args:
        records: The bytes of the records field.
        change: Function that gets a value and returns the new value.
    """
    parts, at, count = [], 0, SliceCounter()
    for each in _complete(records):
        if count.is_full(len(each.data)):
            yield
        if _has_values(each):
            parts += [records[at : each.position], (yield from _changed(each, change, count))]
            at = each.position + len(each.data)
    parts.append(records[at:])
    yield
    return (yield from join_in_steps(parts))


def duplicate(records: bytes, *, count: int) -> BytesInSlices:
    """Return the records with ``count`` additional copies of all complete batches, before a truncated last batch if
    there is one.
    """
    size, counter = 0, SliceCounter()
    for each in _complete(records):
        size += len(each.data)
        if counter.is_full(len(each.data)):
            yield
    return records[:size] * (1 + count) + records[size:]


FORMS: Mapping[str, Callable[..., BytesInSlices]] = {
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
    """Yield the complete batches of a records field that precede the first invalid batch."""
    with suppress(DecodeError):
        yield from read(records)


def _has_values(each: RecordSet) -> TypeGuard[Batch | Message]:
    """Return whether the values of a batch can be changed; False for a control batch."""
    return isinstance(each, Message) or (isinstance(each, Batch) and not each.control)


def _crc_at(magic: int) -> int:
    return batches.CRC_AT if magic >= 2 else messages.CRC_AT


def _crc(data: bytes) -> int:
    crc: int = CRC.unpack_from(data, _crc_at(data[batches.MAGIC_AT]))[0]
    return crc


def _with_crc(data: bytes, magic: int) -> bytes:
    """Return a batch with a valid CRC.

    Args:
        data: The bytes of the batch.
        magic: Format of the batch, which may differ from the magic byte in ``data``.
    """
    at = _crc_at(magic)
    covered = data[batches.CRC_FROM if magic >= 2 else messages.CRC_FROM :]
    crc = crc32c(covered) if magic >= 2 else zlib.crc32(covered)
    return data[:at] + CRC.pack(crc) + data[at + CRC.size :]


def _rebuilt(
    batch: Batch, *, attributes: int | None = None, count: int | None = None, body: bytes | None = None
) -> bytes:
    """Return a copy of a record batch with some parts replaced, and a valid CRC.

    Args:
        batch: The batch.
        attributes: New attributes; None to keep them.
        count: New record count; None to keep it.
        body: New bytes of the records, which follow the header; None to keep the records.
    """
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
    crc = crc32c_on(crc32c(header[batches.CRC_FROM :]), body)
    return b"".join([header[: batches.CRC_AT], CRC.pack(crc), header[batches.CRC_FROM :], body])


def _changed(each: Batch | Message, change: Callable[[bytes], bytes], count: SliceCounter) -> BytesInSlices:
    """Return a batch or message with changed values.

    Return the batch unchanged if no value changes, if its records cannot be decoded, or if they are too large.

    Args:
        each: The batch or message.
        change: Function that gets a value and returns the new value.
        count: Counter of the work since the last ``yield``.
    """
    records, differs = [], False
    try:
        plain = (yield from _plain(each, count)) if isinstance(each, Batch) else each
        for record in plain.records(verify_crc=False, limit=LARGEST_MESSAGE_SET):  # a plain batch has no limit
            if (value := record.value) is not None:
                record.value = change(value)
                differs = differs or record.value != value
            records.append(record)
            if count.is_full(len(value or b"")):
                yield
    except LimitError as error:
        log.warning("a malform rule leaves the batch that ends at offset %d unchanged: %s", each.last_offset, error)
        return each.data
    except DecodeError:
        return each.data
    if not differs:
        return each.data
    if isinstance(each, Batch):
        return (yield from _with_records(each, records, count))
    return (yield from _with_messages(each, records, count))


def _plain(batch: Batch, count: SliceCounter) -> Generator[None, None, Batch]:
    """Return a copy of a batch without compression, and with CreateTime timestamps instead of log append time.

    ``count``: counter of the work since the last ``yield``.

    Raises: DecodeError if the records cannot be decompressed; LimitError if they are too large.
    """
    parts, body = [batch.data[: batches.HEADER.size]], batch.data[batches.HEADER.size :]
    limit = LARGEST_PIECE if batch.codec != NONE and is_one_piece(batch.codec, body) else None
    for piece in decompressed_pieces(batch.codec, body, limit=limit):
        parts.append(piece)
        if count.is_full(len(piece)):
            yield
    attributes = batch.attributes & ~(batches.CODEC_MASK | batches.LOG_APPEND_TIME)
    return replace(batch, data=(yield from join_in_steps(parts)), attributes=attributes)


def _with_records(batch: Batch, records: Sequence[Record], count: SliceCounter) -> BytesInSlices:
    """Return a record batch with its records replaced, and a valid CRC.

    Args:
        batch: The batch.
        records: The new records.
        count: Counter of the work since the last ``yield``.
    """
    parts = []
    for start in range(0, len(records), ELEMENTS):
        some = records[start : start + ELEMENTS]
        parts.append(write_records(some, [each.offset - batch.base_offset for each in some], batch.base_timestamp))
        yield
    body = yield from _compressed(batch.codec, (yield from join_in_steps(parts)), count)
    if count.is_full(len(body)):
        yield
    return _rebuilt(batch, body=body)


def _with_messages(message: Message, records: Sequence[Record], count: SliceCounter) -> BytesInSlices:
    """Return a message with a new value, or a compressed wrapper message with new inner messages. The CRCs are valid.

    Args:
        message: The message.
        records: The record with the new value; for a wrapper, a record for each inner message.
        count: Counter of the work since the last ``yield``.
    """
    magic = message.magic
    append_time = message.max_timestamp if message.log_append_time else None
    if message.codec == NONE:
        return build_message_set(records, magic=magic, keep_offsets=True, log_append_time=append_time)
    parts, first = [], records[0].offset if magic else 0  # offsets are relative since magic 1
    for start in range(0, len(records), ELEMENTS):
        some = [replace(each, offset=each.offset - first) for each in records[start : start + ELEMENTS]]
        parts.append(build_message_set(some, magic=magic, keep_offsets=True, log_append_time=append_time))
        yield
    plain = yield from join_in_steps(parts)
    packed = yield from _compressed(message.codec, plain, count, old_lz4=magic == 0)
    return _wrapper(message, message.codec, packed)


def _wrapper(message: Message, codec: int, packed: bytes) -> bytes:
    """Return a wrapper message with the offset and timestamp of ``message``, and a valid CRC.

    Args:
        message: The message, which may be a wrapper.
        codec: Compression codec of the new value.
        packed: The value of the wrapper message: a compressed message set.
    """
    plain = Record(offset=message.offset, timestamp=message.timestamp, value=packed)
    wrapper = bytearray(build_message_set([plain], magic=message.magic, keep_offsets=True))
    wrapper[messages.MAGIC_AT + 1] = message.attributes & ~messages.CODEC_MASK | codec
    return _with_crc(bytes(wrapper), message.magic)


def _compressed(codec: int, data: bytes, count: SliceCounter, *, old_lz4: bool = False) -> BytesInSlices:
    """Return compressed data.

    Args:
        codec: Compression codec.
        data: The data.
        count: Counter of the work since the last ``yield``.
        old_lz4: Whether to use the LZ4 frames of magic 0; see ``compressed_pieces``.
    """
    parts = []
    for piece in compressed_pieces(codec, data, old_lz4=old_lz4):
        parts.append(piece)
        if count.is_full(PIECE_COST[codec]):
            yield
    return (yield from join_in_steps(parts))


def _batch_bomb(batch: Batch, size: int) -> bytes:
    head, value_size = _record_of_zeros(size)
    body = _gzipped(head, value_size + 1)  # the number of headers is a zero too
    attributes = batch.attributes & ~batches.CODEC_MASK | GZIP
    return _rebuilt(batch, attributes=attributes, count=1, body=body)


def _record_of_zeros(size: int) -> tuple[bytes, int]:
    """Return the beginning of a record whose value consists of zero bytes, and the number of zero bytes.

    The caller appends the zero bytes. ``size``: maximum size of the record in bytes.
    """
    value_size = max(size - SMALLEST_RECORD, 0)
    while True:
        fields = bytes(3) + b"\x01" + uvarint(value_size << 1)  # attributes, two deltas, null key; zigzag varints
        head = uvarint(len(fields) + value_size + 1 << 1) + fields
        if not value_size or len(head) + value_size + 1 <= size:
            return head, value_size
        value_size -= 1


def _message_bomb(message: Message, size: int) -> bytes:
    """Return a compressed wrapper message with one large message. ``size``: size of the large message in bytes."""
    fields = messages.FIELDS_AT[message.magic]
    value_size = max(size - fields - 2 * messages.SIZE.size, 0)
    offset = 0 if message.magic else message.offset  # relative since magic 1
    prefix = messages.PREFIX.pack(offset, fields - messages.PREFIX.size + 2 * messages.SIZE.size + value_size)
    attributes = bytes([message.magic, 0])
    timestamp = messages.TIMESTAMP.pack(message.timestamp) if message.magic else b""
    covered = attributes + timestamp + messages.SIZE.pack(-1) + messages.SIZE.pack(value_size)
    crc = CRC.pack(_crc32_of_zeros(value_size, zlib.crc32(covered)))
    packed = _gzipped(prefix + crc + covered, value_size)
    return _wrapper(message, GZIP, packed)


@lru_cache(maxsize=8)
def _gzipped(head: bytes, zeros: int) -> bytes:
    """Return the gzip stream of ``head`` followed by ``zeros`` zero bytes, without creating all of them in memory."""
    pieces, rest = divmod(zeros, len(ZEROS))
    parts = [_deflated(head), _deflated(ZEROS) * pieces, _deflated(ZEROS[:rest], last=True)]
    crc = _crc32_of_zeros(zeros, zlib.crc32(head))
    return GZIP_HEADER + b"".join(parts) + struct.pack("<II", crc, len(head) + zeros)


def _deflated(data: bytes, *, last: bool = False) -> bytes:
    """Return a piece of a raw deflate stream with the compressed data. Pieces can be concatenated and repeated.

    A piece ends at a byte boundary, and refers to no other piece.

    Args:
        data: The data to compress.
        last: True to end the stream.
    """
    deflate = zlib.compressobj(9, wbits=-15)
    return deflate.compress(data) + deflate.flush(zlib.Z_FINISH if last else zlib.Z_FULL_FLUSH)


def _crc32_of_zeros(zeros: int, crc: int) -> int:
    """Return the CRC-32 of bytes that are followed by zeros, without a pass over the zeros.

    The new CRC is an affine function of the old one over GF(2); the function for n zeros applied twice is the function
    for 2n zeros.

    Args:
        zeros: Number of zeros.
        crc: CRC of the bytes before the zeros.
    """
    after = _Affine(zlib.crc32(b"\0"), [zlib.crc32(b"\0", 1 << bit) ^ zlib.crc32(b"\0") for bit in range(CRC_BITS)])
    while zeros:
        if zeros & 1:
            crc = after.of(crc)
        after, zeros = after.twice(), zeros >> 1
    return crc


class _Affine(NamedTuple):
    """An affine function from 32 bits to 32 bits over GF(2): the XOR of a constant and of one column for each bit that
    is set.

    Attributes:
        constant: The function value of 0.
        columns: For each bit, the change of the result if the bit is set.
    """

    constant: int
    columns: Sequence[int]

    def of(self, value: int) -> int:
        """Return the function value of ``value``."""
        result = self.constant
        for bit, column in enumerate(self.columns):
            if value >> bit & 1:
                result ^= column
        return result

    def twice(self) -> _Affine:
        """Return the function applied to its own result, f(f(x))."""
        return _Affine(self.of(self.constant), [self.of(column) ^ self.constant for column in self.columns])
