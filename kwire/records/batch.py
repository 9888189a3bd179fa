"""Record batches of magic 2: the 61 bytes that a broker looks at, and the records inside.

Source: org.apache.kafka.common.record.DefaultRecordBatch. A broker stores a batch as it is and only rewrites base
offset and leader epoch, which the checksum does not cover; ``rebase`` does that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from google_crc32c import value as _crc32c

from kwire.errors import CrcError, DecodeError, LimitError, Truncated
from kwire.records import compression

HEADER = struct.Struct(">qiibIhiqqqhii")
PREFIX = 12  # base offset and length: what stands before the part that the length counts
MAGIC_AT = 16
CRC_FROM = 21  # the checksum covers everything from the attributes on
MAX_BATCH = 2**31 - 1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of one batch, and its bytes. Offsets are absolute, timestamps milliseconds since 1970."""

    data: bytes
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
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)

    def crc_is_right(self) -> bool:
        """True if the checksum matches."""
        return bool(_crc32c(self.data[CRC_FROM:]) == self.crc)

    def records(self) -> Iterator[Record]:
        """The records, decompressed. Raises: CrcError, DecodeError, LimitError."""
        if not self.crc_is_right():
            raise CrcError(f"crc {self.crc:#010x} does not match the bytes", message="RecordBatch", offset=17)
        body = compression.decompress(self.codec, self.data[HEADER.size :])
        at = 0
        for _ in range(self.count):
            record, at = _read_record(body, at, self)
            yield record
        if at != len(body):
            raise DecodeError(f"{len(body) - at} bytes behind the last record", message="RecordBatch", offset=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. ``timestamp`` in milliseconds since 1970; ``headers`` keep their order."""

    offset: int = 0
    timestamp: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default_factory=tuple)


def read_batch(data: bytes, at: int = 0) -> Batch:
    """The batch that begins at ``at``. Raises: Truncated, DecodeError (not magic 2, or a length that cannot be)."""
    left = len(data) - at
    if left < HEADER.size:
        raise Truncated(f"expected {HEADER.size} bytes of batch header, found {left}", message="RecordBatch", offset=at)
    fields = HEADER.unpack_from(data, at)
    length, magic = fields[1], fields[3]
    if magic != 2:
        raise DecodeError(f"magic {magic}, only 2 is supported yet", message="RecordBatch", offset=at + MAGIC_AT)
    if length < HEADER.size - PREFIX:
        raise DecodeError(f"batch length {length} is too small", message="RecordBatch", offset=at + 8)
    end = at + PREFIX + length
    if end > len(data):
        raise Truncated(f"expected {PREFIX + length} bytes, found {left}", message="RecordBatch", offset=at)
    return Batch(data[at:end], *fields)


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
    head = struct.pack(">qii", base_offset, batch.length, leader_epoch)
    return head + batch.data[len(head) :]


def build_batch(
    records: Sequence[Record],
    *,
    codec: int = compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """One batch of these records; their offsets are counted up from ``base_offset``. Raises: ValueError if empty."""
    if not records:
        raise ValueError("a batch has at least one record")
    base_timestamp = records[0].timestamp
    body = b"".join(
        _write_record(record, index, record.timestamp - base_timestamp) for index, record in enumerate(records)
    )
    tail = struct.pack(
        ">hiqqqhii",
        codec,
        len(records) - 1,
        base_timestamp,
        max(record.timestamp for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    ) + compression.compress(codec, body)
    head = struct.pack(">qiibI", base_offset, len(tail) + CRC_FROM - PREFIX, leader_epoch, 2, _crc32c(tail))
    return head + tail


def _read_record(body: bytes, at: int, batch: Batch) -> tuple[Record, int]:
    size, at = _varint(body, at)
    end = at + size
    if size < 0 or end > len(body):
        raise Truncated(f"a record of {size} bytes, {len(body) - at} left", message="RecordBatch", offset=at)
    at += 1  # attributes of a record are unused
    timestamp, at = _varint(body, at)
    delta, at = _varint(body, at)
    key, at = _blob(body, at)
    value, at = _blob(body, at)
    count, at = _varint(body, at)
    if not 0 <= count <= end - at:
        raise LimitError(f"{count} headers in {end - at} bytes", message="RecordBatch", offset=at)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _blob(body, at)
        if name is None:
            raise DecodeError("a header without a key", message="RecordBatch", offset=at)
        content, at = _blob(body, at)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    if at != end:
        raise DecodeError(f"a record of {size} bytes ends {at - end:+d} bytes off", message="RecordBatch", offset=at)
    stamp = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else _int64(batch.base_timestamp + timestamp)
    offset = _int64(batch.base_offset + delta)
    return Record(offset=offset, timestamp=stamp, key=key, value=value, headers=headers), at


def _write_record(record: Record, delta: int, timestamp: int) -> bytes:
    parts = [b"\0", _zigzag(_int64(timestamp)), _zigzag(delta), _sized(record.key), _sized(record.value)]
    parts.append(_zigzag(len(record.headers)))
    for name, content in record.headers:
        parts += _sized(name.encode("utf-8", "surrogateescape")), _sized(content)
    body = b"".join(parts)
    return _zigzag(len(body)) + body


def _int64(value: int) -> int:
    """A sum of two int64 as Java has it: one that overflows wraps around."""
    return (value + 2**63) % 2**64 - 2**63


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Truncated("a varint ends too early", message="RecordBatch", offset=at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFF_FFFF_FFFF_FFFF
            return (value >> 1) ^ -(value & 1), at
    raise LimitError("a varint is longer than 10 bytes", message="RecordBatch", offset=at)


def _zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _blob(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise Truncated(f"expected {size} bytes, found {len(data) - at}", message="RecordBatch", offset=at)
    return data[at : at + size], at + size


def _sized(data: bytes | None) -> bytes:
    return _zigzag(-1) if data is None else _zigzag(len(data)) + data
