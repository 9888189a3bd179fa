"""Record batches of magic 2: the header of 61 bytes, and the records.

The header is available without decompressing the batch. A broker stores a batch unchanged except for base offset and
leader epoch, which the checksum does not cover. ``rebase`` replaces these two fields.
Source: org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import cast

from kwire.errors import CrcError, DecodeError, EncodeError, LimitError, Truncated
from kwire.lazy_dataclass import dataclass
from kwire.records import compression
from kwire.records.checksum import crc32c
from kwire.records.limits import SMALLEST_RECORD
from kwire.records.native import batches_of, records_of, written_natively
from kwire.records.record import MESSAGE, WRONG_TYPE, R, Record, check_types, read_records, write_records

__all__ = ["Batch", "Record", "batches", "build_batch", "read_batch", "rebase"]

HEADER = struct.Struct(">qiibIhiqqqhii")
UNCOVERED = struct.Struct(">qiibI")  # the fields of a header up to the checksum
COVERED = struct.Struct(">hiqqqhii")  # the other fields, which the checksum covers
REBASED = struct.Struct(">qii")  # fields that a broker rewrites: base offset, length (unchanged), leader epoch
PREFIX = 12  # base offset and length, which the length does not count
MAGIC_AT = 16
CRC_AT = 17
CRC_FROM = 21  # the checksum covers everything from the attributes on
MAX_TIMESTAMP_AT = 35
COUNT_AT = 57

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


@dataclass(slots=True)  # not frozen: creating a frozen one takes longer than reading its header
class Batch:
    """A record batch: its header fields, and its bytes. Offsets are absolute, timestamps in milliseconds since 1970.

    Attributes:
        data: bytes of the batch, including the header.
        position: byte offset of the batch in the data that was read. Offsets in errors count from the start of this
            data.
        base_offset: offset of the first record.
        length: size of the batch in bytes, without the fields ``base_offset`` and ``length``.
        leader_epoch: leader epoch of the partition; -1 if unknown.
        magic: 2.
        crc: CRC-32C of the bytes from ``attributes`` on.
        attributes: bits for codec, timestamp type, transactional, control and delete horizon.
        last_offset_delta: offset of the last record, relative to ``base_offset``.
        base_timestamp: timestamp to which the records' timestamps are relative; or the delete horizon, if set.
        max_timestamp: largest timestamp.
        producer_id: producer id of an idempotent producer; -1 for none.
        producer_epoch: epoch of the producer id; -1 for none.
        base_sequence: sequence number of the first record; -1 for none.
        count: number of records.
    """

    data: bytes
    position: int = field(compare=False)
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """True if all records have the timestamp ``max_timestamp``, the time at which the broker stored the batch."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """The time after which compaction may drop tombstones and transaction markers of the batch; None if not set.

        The time is in milliseconds since 1970.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def crc_is_right(self) -> bool:
        """Return whether the CRC in the header matches the data of the batch."""
        return crc32c(self.data, CRC_FROM) == self.crc

    def records(self, *, verify_crc: bool = True, copy: bool = True, limit: int | None = None) -> Iterator[Record]:
        """Yield the decompressed records of the batch. For the arguments and errors, see ``records_as``.

        The error of an invalid record is raised after the records before it were yielded.
        """
        if NATIVE is not None and copy and limit is None:
            records: Iterator[Record] | None = NATIVE.records(self, verify_crc)
            if records is not None:
                return records
        return self.records_as(Record, verify_crc=verify_crc, copy=copy, limit=limit)

    def records_as(
        self, into: type[R], *, verify_crc: bool = True, copy: bool = True, limit: int | None = None
    ) -> Iterator[R]:
        """Yield the decompressed records as instances of a subclass of Record. Additional fields of the subclass are
        not set.

        If a record in a compressed batch is invalid, the offset in the error is the offset of the compressed bytes. The
        error text contains the offset in the decompressed data. Raises: CrcError, DecodeError, LimitError.

        Args:
            into: the subclass of Record.
            verify_crc: False to skip the check of the checksum.
            copy: True for keys and values as bytes; False for memoryviews, which is cheaper for large values.
            limit: maximum size of the decompressed records, in bytes; None for the default of ``records.limits``.
        """
        if verify_crc and not self.crc_is_right():
            raise CrcError(
                f"the CRC {self.crc:#010x} in the batch header does not match the data",
                message=MESSAGE,
                offset=self.position + CRC_AT,
            )
        body, at = self.data, HEADER.size
        if self.codec != compression.NONE:
            try:
                body, at = compression.decompress(self.codec, self.data[at:], limit=limit), 0
            except DecodeError as error:
                error.offset += self.position + HEADER.size
                raise
        left = len(body) - at
        if not 0 <= self.count * SMALLEST_RECORD <= left:
            raise LimitError(
                f"{self.count} records of at least {SMALLEST_RECORD} bytes do not fit into {left} bytes",
                path="count",
                message=MESSAGE,
                offset=self.position + COUNT_AT,
            )
        return chain.from_iterable(self._some(body if copy else cast("bytes", memoryview(body)), at, into))

    def _some(self, body: bytes, at: int, into: type[R], first: int = 0) -> Iterator[list[R]]:
        """Yield lists of the batch's records, from record number ``first`` on. The native engine calls this method too.

        Args:
            body: decompressed records, or the whole batch if it is not compressed.
            at: offset of the first record to yield in ``body``.
            into: class of the records.
            first: number of the first record to yield; the batch's first record has the number 0.

        Raises: DecodeError if a record is not valid.
        """
        append_time = self.max_timestamp if self.log_append_time else None
        header = self.count, self.base_offset, self.base_timestamp, append_time
        try:
            yield from read_records(body, at, *header, into, first)
        except DecodeError as error:
            if self.codec != compression.NONE:
                error.reason += f" (byte {error.offset} after decompression)"
                error.offset = HEADER.size
            error.offset += self.position
            raise


def read_batch(data: bytes, at: int = 0) -> Batch:
    """Decode the header of the batch that begins at offset ``at`` of ``data``. The records are not decoded.

    Raises: Truncated if the data ends before the end of the batch; DecodeError if magic is not 2 or the length is
    invalid.
    """
    if NATIVE is not None and not at and data.__class__ is bytes:
        batch: Batch | None = NATIVE.only(data)
        if batch is not None:
            return batch
    left = len(data) - at
    if left < HEADER.size:
        raise Truncated(f"expected {HEADER.size} bytes of batch header, found {left}", message=MESSAGE, offset=at)
    fields = HEADER.unpack_from(data, at)
    length, magic = fields[1], fields[3]
    if magic != 2:
        raise DecodeError(f"magic is {magic}, expected 2", message=MESSAGE, path="magic", offset=at + MAGIC_AT)
    if length < HEADER.size - PREFIX:
        reason = f"batch length {length} is below the minimum of {HEADER.size - PREFIX}"
        raise DecodeError(reason, message=MESSAGE, path="length", offset=at + 8)
    end = at + PREFIX + length
    if end > len(data):
        raise Truncated(f"expected {PREFIX + length} bytes, found {left}", message=MESSAGE, offset=at)
    return Batch(data[at:end], at, *fields)


def read_only_batch(data: bytes) -> Batch | None:
    """Return the batch in ``data`` if the data is exactly one batch with a correct CRC, and the native engine is used.

    In all other cases, the result is None.
    """
    if NATIVE is None:
        return None
    batch: Batch | None = NATIVE.checked(data)
    return batch


NATIVE = batches_of(Batch, Record)  # reader of batches; None if Python reads them
WRITER = records_of(Record)  # writer of batches; None if Python writes them


def batches(data: bytes) -> Iterator[Batch]:
    """Yield the record batches of magic 2 in the records field of a Produce request or Fetch response.

    A truncated last batch is omitted, because brokers limit Fetch responses by a size in bytes. Raises: DecodeError if
    the bytes are not valid.
    """
    at = 0
    while True:
        try:
            batch = read_batch(data, at)
        except Truncated:
            return
        yield batch
        at += len(batch.data)
        if at == len(data):
            return


def rebase(batch: Batch, base_offset: int, leader_epoch: int) -> bytes:
    """Return the bytes of a batch after its base offset and its leader epoch were replaced by the given ones.

    The CRC does not change, because it does not cover these two fields.
    """
    if NATIVE is not None:
        rebased: bytes | None = NATIVE.rebased(batch.data, base_offset, leader_epoch)
        if rebased is not None:
            return rebased
    return REBASED.pack(base_offset, batch.length, leader_epoch) + batch.data[REBASED.size :]


def restamp(batch: Batch, max_timestamp: int, *, log_append_time: bool) -> Batch:
    """Return a copy of the batch with the given largest timestamp and timestamp type, and with a new CRC.

    A broker does this before it stores a batch of a topic with LogAppendTime.

    Args:
        batch: the batch to copy.
        max_timestamp: largest timestamp, in milliseconds since 1970.
        log_append_time: True if ``max_timestamp`` is the time at which the broker stored the batch.
    """
    attributes = batch.attributes | LOG_APPEND_TIME if log_append_time else batch.attributes & ~LOG_APPEND_TIME
    data = bytearray(batch.data)
    struct.pack_into(">h", data, CRC_FROM, attributes)
    struct.pack_into(">q", data, MAX_TIMESTAMP_AT, max_timestamp)
    struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data), CRC_FROM))
    return read_batch(bytes(data))


def recompress(batch: Batch, codec: int, *, level: int | None = None, limit: int | None = None) -> Batch:
    """Return a copy of the batch that is compressed with the given codec and has a new CRC. The records are not
    decoded.

    Args:
        batch: the batch to copy.
        codec: number of the compression codec.
        level: compression level; None for the default of the codec.
        limit: maximum size of the decompressed records, in bytes; None for the default of ``records.limits``.

    Raises: DecodeError if the records cannot be decompressed; LimitError if the decompressed records exceed ``limit``.
    """
    body = compression.decompress(batch.codec, batch.data[HEADER.size :], limit=limit)
    if limit is not None and len(body) > limit:
        raise LimitError(f"{len(body)} bytes of records exceed the limit of {limit} bytes", message=MESSAGE)
    data = bytearray(batch.data[: HEADER.size])
    data += compression.compress(codec, body, level=level)
    struct.pack_into(">i", data, PREFIX - 4, len(data) - PREFIX)
    struct.pack_into(">h", data, CRC_FROM, batch.attributes & ~CODEC_MASK | codec)
    struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data), CRC_FROM))
    return read_batch(bytes(data))


def header(covered: bytes, records: Sequence[bytes], base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    """Return the header of a batch.

    Args:
        covered: the encoded fields that the checksum covers, see COVERED.
        records: the encoded records, in one or more buffers.
        base_offset: base offset.
        leader_epoch: leader epoch of the partition; -1 if unknown.

    Raises: struct.error for a value that does not fit.
    """
    crc = crc32c(covered)
    for part in records:
        crc = crc32c(part, 0, crc)
    length = HEADER.size - PREFIX + sum(map(len, records))
    return UNCOVERED.pack(base_offset, length, leader_epoch, 2, crc) + covered


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = compression.NONE,
    base_offset: int | None = None,
    last_offset: int | None = None,
    keep_offsets: bool = False,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    log_append_time: int | None = None,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """Build a record batch.

    Args:
        records: records in order.
        codec: number of the compression codec.
        base_offset: base offset in the header. None for 0; with ``keep_offsets``, None for the first record's own
            offset.
        last_offset: last offset in the header, if it is higher than the offset of the last record; the batch may then
            have no records. None for the offset of the last record.
        keep_offsets: True to use the records' own offsets, as after compaction; False for consecutive offsets.
        leader_epoch: leader epoch of the partition; -1 if unknown.
        producer_id: producer id of an idempotent producer; -1 if the producer is not idempotent.
        producer_epoch: epoch of the producer id; -1 without a producer id.
        base_sequence: sequence number of the first record; -1 without a producer id.
        log_append_time: timestamp that consumers get for all records, in milliseconds since 1970; None to use the
            records' own timestamps.
        transactional: True if the batch is part of a transaction.
        control: True for a control batch, such as the end of a transaction.
        delete_horizon: time after which compaction may drop tombstones and markers of the batch, in milliseconds since
            1970; None for no such time.
        max_timestamp: largest timestamp in the header, in milliseconds since 1970; None to compute it from the records.

    Raises: EncodeError for a value that does not fit or has the wrong type; ValueError if there are no records or the
    codec is unknown.
    """
    if WRITER is not None:
        try:
            whole: bytes | None = WRITER.build(
                records,
                codec,
                base_offset,
                last_offset,
                keep_offsets,
                leader_epoch,
                producer_id,
                producer_epoch,
                base_sequence,
                log_append_time,
                transactional,
                control,
                delete_horizon,
                max_timestamp,
            )
        except (OverflowError, TypeError):
            whole = None  # the Python code raises the error, if the value is not valid
        if whole is not None:
            return whole
    if not records and last_offset is None:
        raise ValueError("a batch needs at least one record")
    try:
        if base_offset is None:
            base_offset = records[0].offset if keep_offsets and records else 0
        deltas = [record.offset - base_offset for record in records] if keep_offsets else None
        if last_offset is None:
            last_offset = records[-1].offset if keep_offsets else base_offset + len(records) - 1
        timestamps = [record.timestamp for record in records] or [-1]
        base_timestamp = timestamps[0] if delete_horizon is None else delete_horizon
        most = max(timestamps) if log_append_time is None else log_append_time
    except WRONG_TYPE:
        check_types(records)
        raise
    most = most if max_timestamp is None else max_timestamp
    attributes = codec | LOG_APPEND_TIME * (log_append_time is not None) | TRANSACTIONAL * transactional
    attributes |= CONTROL * control | DELETE_HORIZON * (delete_horizon is not None)
    try:
        covered = COVERED.pack(
            attributes,
            last_offset - base_offset,
            base_timestamp,
            most,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
        if codec == compression.NONE:
            whole = written_natively(Record, records, deltas, base_timestamp, (base_offset, leader_epoch, covered))
            if whole is not None:
                return whole
        body = compression.compress(codec, write_records(records, deltas, base_timestamp))
        return header(covered, [body], base_offset, leader_epoch) + body
    except struct.error as error:
        write_records(records, deltas, base_timestamp)  # the error of a record comes first
        fields = {
            "base_offset": (base_offset, 64),
            "leader_epoch": (leader_epoch, 32),
            "last offset delta": (last_offset - base_offset, 32),
            "base timestamp": (base_timestamp, 64),
            "max timestamp": (most, 64),
            "producer_id": (producer_id, 64),
            "producer_epoch": (producer_epoch, 16),
            "base_sequence": (base_sequence, 32),
        }
        for name, (value, bits) in fields.items():
            if isinstance(value, int) and not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise EncodeError(f"{name} {value} does not fit into {bits} bits", message=MESSAGE) from error
        raise EncodeError(
            f"a value does not fit into its field of the batch header: {error}", message=MESSAGE
        ) from error
