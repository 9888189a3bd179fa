"""Record batches of magic 2: the 61 bytes that a broker looks at, and the records inside.

What the header says is known without opening the batch. A broker stores a batch as it is and only rewrites base offset
and leader epoch, which the checksum does not cover; ``rebase`` does that.
Source: org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import cast

from google_crc32c import extend as _crc32c_on
from google_crc32c import value as _crc32c

from kwire.errors import CrcError, DecodeError, EncodeError, LimitError, Truncated
from kwire.records import compression
from kwire.records.limits import SMALLEST_RECORD
from kwire.records.record import MESSAGE, R, Record, read_records, write_records

__all__ = ["Batch", "Record", "batches", "build_batch", "read_batch", "rebase"]

HEADER = struct.Struct(">qiibIhiqqqhii")
REBASED = struct.Struct(">qii")  # what a broker writes anew: base offset, length, leader epoch
PREFIX = 12  # base offset and length: what stands before the part that the length counts
MAGIC_AT = 16
CRC_AT = 17
CRC_FROM = 21  # the checksum covers everything from the attributes on
MAX_TIMESTAMP_AT = 35
COUNT_AT = 57
MAX_BATCH = 2**31 - 1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


@dataclass(slots=True)  # frozen, making one would take longer than reading its header
class Batch:
    """The header of one batch, and its bytes. Offsets are absolute, timestamps milliseconds since 1970.

    ``position``: where the batch began in what it was read from; errors of its records count from there.
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
        """True if all records have the time at which a broker stored them, ``max_timestamp``."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """When compaction may drop the tombstones and markers of the batch; None if that is not known yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    def crc_is_right(self) -> bool:
        """True if the checksum matches."""
        return bool(_crc32c(self.data[CRC_FROM:]) == self.crc)

    def records(self, *, verify_crc: bool = True, copy: bool = True, limit: int | None = None) -> Iterator[Record]:
        """The records, decompressed; those before a broken one come before its error. See ``records_as``."""
        return self.records_as(Record, verify_crc=verify_crc, copy=copy, limit=limit)

    def records_as(
        self, into: type[R], *, verify_crc: bool = True, copy: bool = True, limit: int | None = None
    ) -> Iterator[R]:
        """The records as objects of a class derived from Record, whose own fields are left unset.

        ``copy=False``: keys and values are memoryviews of the batch, which is cheaper where they are large.
        ``limit``: bytes that the records may take, that of ``limits`` if None.

        An error counts bytes from where the batch was read; in a compressed batch it has the byte at which the
        compressed part begins, and tells the other in its text. Raises: CrcError, DecodeError, LimitError.
        """
        if verify_crc and not self.crc_is_right():
            raise CrcError(
                f"crc {self.crc:#010x} does not match the bytes", message=MESSAGE, offset=self.position + CRC_AT
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
                f"{self.count} records of at least {SMALLEST_RECORD} bytes, {left} bytes left",
                path="count",
                message=MESSAGE,
                offset=self.position + COUNT_AT,
            )
        return chain.from_iterable(self._some(body if copy else cast("bytes", memoryview(body)), at, into))

    def _some(self, body: bytes, at: int, into: type[R]) -> Iterator[list[R]]:
        append_time = self.max_timestamp if self.log_append_time else None
        try:
            yield from read_records(body, at, self.count, self.base_offset, self.base_timestamp, append_time, into)
        except DecodeError as error:
            if self.codec != compression.NONE:
                error.reason += f" (byte {error.offset} after decompression)"
                error.offset = HEADER.size
            error.offset += self.position
            raise


def read_batch(data: bytes, at: int = 0) -> Batch:
    """The batch that begins at ``at``. Raises: Truncated, DecodeError (not magic 2, or a length that cannot be)."""
    left = len(data) - at
    if left < HEADER.size:
        raise Truncated(f"expected {HEADER.size} bytes of batch header, found {left}", message=MESSAGE, offset=at)
    fields = HEADER.unpack_from(data, at)
    length, magic = fields[1], fields[3]
    if magic != 2:
        raise DecodeError(f"magic {magic}, not 2", message=MESSAGE, path="magic", offset=at + MAGIC_AT)
    if length < HEADER.size - PREFIX:
        raise DecodeError(f"batch length {length} is too small", message=MESSAGE, path="length", offset=at + 8)
    end = at + PREFIX + length
    if end > len(data):
        raise Truncated(f"expected {PREFIX + length} bytes, found {left}", message=MESSAGE, offset=at)
    return Batch(data[at:end], at, *fields)


def batches(data: bytes) -> Iterator[Batch]:
    """All batches of a records field; one cut short at the end is left out, as brokers cut answers to a size."""
    at = 0
    while len(data) - at >= HEADER.size:
        try:
            batch = read_batch(data, at)
        except Truncated:
            return
        yield batch
        at += len(batch.data)


def rebase(batch: Batch, base_offset: int, leader_epoch: int) -> bytes:
    """The bytes of the batch with another base offset and leader epoch; the checksum stays right."""
    return REBASED.pack(base_offset, batch.length, leader_epoch) + batch.data[REBASED.size :]


def restamp(batch: Batch, max_timestamp: int, *, log_append_time: bool) -> Batch:
    """The batch with another largest timestamp and type of timestamps, as a broker stores it, and a new checksum."""
    attributes = batch.attributes | LOG_APPEND_TIME if log_append_time else batch.attributes & ~LOG_APPEND_TIME
    data = bytearray(batch.data)
    struct.pack_into(">h", data, CRC_FROM, attributes)
    struct.pack_into(">q", data, MAX_TIMESTAMP_AT, max_timestamp)
    struct.pack_into(">I", data, CRC_AT, _crc32c(bytes(data[CRC_FROM:])))
    return read_batch(bytes(data))


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
) -> bytes:
    """One batch of these records; their offsets are counted up from ``base_offset``, which is 0 if None.

    ``keep_offsets``: they have their own, as after compaction, and ``base_offset`` is the first of them if None.
    ``last_offset``: of the batch, where it is not that of the last record; only then may there be no records.
    ``log_append_time``: milliseconds since 1970, the timestamp of all records as consumers see them.

    Raises: EncodeError for what a batch cannot hold; ValueError if there are no records, or for an unknown codec.
    """
    if not records and last_offset is None:
        raise ValueError("a batch has at least one record")
    if base_offset is None:
        base_offset = records[0].offset if keep_offsets and records else 0
    deltas = [record.offset - base_offset for record in records] if keep_offsets else None
    if last_offset is None:
        last_offset = records[-1].offset if keep_offsets else base_offset + len(records) - 1
    timestamps = [record.timestamp for record in records] or [-1]
    most = max(timestamps) if log_append_time is None else log_append_time
    attributes = codec | LOG_APPEND_TIME * (log_append_time is not None) | TRANSACTIONAL * transactional
    attributes |= CONTROL * control
    body = compression.compress(codec, write_records(records, deltas, timestamps[0]))
    try:
        tail = struct.pack(
            ">hiqqqhii",
            attributes,
            last_offset - base_offset,
            timestamps[0],
            most,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
        size = len(tail) + len(body) + CRC_FROM - PREFIX
        crc = _crc32c_on(_crc32c(tail), body)
        return struct.pack(">qiibI", base_offset, size, leader_epoch, 2, crc) + tail + body
    except struct.error as error:
        raise EncodeError(f"a field of the header is out of range: {error}", message=MESSAGE) from error
