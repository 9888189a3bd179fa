"""Message sets of magic 0 and 1: the record format of Produce and Fetch before record batches.

A message set is a sequence of messages. A compressed message is a wrapper: its value is a message set of its own (the
inner messages). The offset of a wrapper is the offset of its last message. Inner messages have absolute offsets in
magic 0. In magic 1, their offsets are relative to the first inner message. Magic 1 adds the timestamp. With log append
time, the timestamp of the wrapper applies to all inner messages. Source: org.apache.kafka.common.record.LegacyRecord,
AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import cast

from kwire.errors import CrcError, DecodeError, EncodeError, LimitError, Truncated
from kwire.lazy_dataclass import dataclass
from kwire.records import compression
from kwire.records.limits import MAX_NESTING
from kwire.records.record import WRONG_TYPE, Record, as_bytes, check_types, int64

# The first versions of Produce and Fetch with record batches (KIP-98); older versions use message sets.
PRODUCE_BATCHES_SINCE, FETCH_BATCHES_SINCE = 3, 4

HEADER = struct.Struct(">qiIbb")  # offset, size, crc, magic, attributes; then the timestamp if magic is 1
PREFIX = struct.Struct(">qi")  # offset and size, which the size does not count
TIMESTAMP = struct.Struct(">q")
SIZE = struct.Struct(">i")  # size of a key or value; negative for null
CRC_AT = 12
CRC_FROM = 16  # the checksum covers everything from the magic on
MAGIC_AT = 16
FIELDS_AT = (18, 26)  # offset of the key in a message, by magic
SMALLEST = (14, 22)  # size of a message with null key and value, by magic

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
CODECS = tuple(codec for codec in compression.NAMES if codec not in compression.IN_BATCHES_ONLY)
NO_TIMESTAMP = -1  # timestamp of every message of magic 0
MESSAGE = "Message"


@dataclass(slots=True)  # not frozen: creating a frozen one takes longer than reading its header
class Message:
    """A message of magic 0 or 1. A compressed message is a wrapper: it contains inner messages, like a batch of magic
    2.

    Attributes:
        data: bytes of the message, including offset and size.
        position: byte offset of the message in the data that was read. Offsets in errors count from the start of this
            data.
        offset: offset of the message; for a wrapper, the offset of its last inner message.
        size: size of the message in bytes, without the fields ``offset`` and ``size``.
        crc: CRC-32 of the bytes from ``magic`` on.
        magic: 0 or 1.
        attributes: bits for codec and timestamp type.
        timestamp: milliseconds since 1970; -1 if magic is 0.
    """

    data: bytes
    position: int = field(compare=False)
    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def log_append_time(self) -> bool:
        """True if the timestamp is the broker's log append time. The timestamp of a wrapper then applies to all
        messages inside.
        """
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)

    @property
    def max_timestamp(self) -> int:
        """The timestamp in milliseconds since 1970; -1 if magic is 0."""
        return self.timestamp

    @property
    def last_offset(self) -> int:
        return self.offset

    @property
    def base_offset(self) -> int:
        """The offset of the first inner message of a wrapper; the message's own offset if it is not a wrapper.

        Reading the attribute decompresses a wrapper. Raises: DecodeError if the bytes are not valid.
        """
        if self.codec == compression.NONE:
            return self.offset
        _, first, last = self._inner_offsets(self._open(None))
        return int64(self._shift(last) + first)

    @property
    def count(self) -> int:
        """The number of inner messages of a wrapper; 1 if the message is not a wrapper.

        Reading the attribute decompresses a wrapper. Raises: DecodeError if the bytes are not valid.
        """
        return 1 if self.codec == compression.NONE else self._inner_offsets(self._open(None))[0]

    def crc_is_right(self) -> bool:
        """Return whether the CRC in the message header matches the data of the message."""
        return zlib.crc32(self.data[CRC_FROM:]) == self.crc

    def records(self, *, verify_crc: bool = True, copy: bool = True, limit: int | None = None) -> Iterator[Record]:
        """Yield the inner messages of a wrapper as records; for any other message, yield the message itself as a
        record.

        The error of an invalid inner message is raised after the messages before it were yielded. The error of an
        invalid message size is raised before any message is yielded.

        If an inner message is invalid, the offset in the error is the offset of the wrapper. The error text contains
        the offset in the decompressed data. Raises: CrcError, DecodeError, LimitError.

        Args:
            verify_crc: False to skip the check of the checksum.
            copy: True for keys and values as bytes; False for memoryviews, which are not copied.
            limit: maximum decompressed size of the inner messages, in bytes; None for the default of
                ``records.limits``.
        """
        if verify_crc:
            self._check_crc("")
        if self.codec == compression.NONE:
            return iter((self._record("", self.offset, self.timestamp, copy),))
        body = self._open(limit)
        _, _, last = self._inner_offsets(body)
        return self._inner_records(body, self._shift(last), verify_crc, copy)

    def _inner_records(self, body: bytes, shift: int, verify_crc: bool, copy: bool) -> Iterator[Record]:
        try:
            for index, (at, _) in enumerate(_prefixes(body)):
                path = f"records[{index}]"
                inner = read_message(body, at)
                if inner.codec != compression.NONE:
                    raise LimitError(
                        "a compressed message inside a compressed message exceeds "
                        f"the limit of {MAX_NESTING} level of nesting",
                        message=MESSAGE,
                        path=path,
                        offset=inner.position + FIELDS_AT[0] - 1,
                    )
                if verify_crc:
                    inner._check_crc(path)
                timestamp = self.timestamp if self.log_append_time and inner.magic else inner.timestamp
                yield inner._record(f"{path}.", int64(inner.offset + shift), timestamp, copy)
        except DecodeError as error:
            self._locate(error)
            raise

    def _locate(self, error: DecodeError) -> None:
        """Set the offset in the error of an inner message to the offset of this wrapper.

        The offset in the decompressed data, which the error had before, is appended to the reason.
        """
        error.reason += f" (byte {error.offset} after decompression)"
        error.offset = self.position

    def _check_crc(self, path: str) -> None:
        if not self.crc_is_right():
            reason = f"checksum {self.crc:#010x} does not match the data"
            raise CrcError(reason, message=MESSAGE, path=path, offset=self.position + CRC_AT)

    def _record(self, path: str, offset: int, timestamp: int, copy: bool) -> Record:
        data = self.data if copy else cast("bytes", memoryview(self.data))
        key, at = self._blob(data, FIELDS_AT[self.magic], f"{path}key")
        value, _ = self._blob(data, at, f"{path}value")
        return Record(offset=offset, timestamp=timestamp, key=key, value=value)

    def _blob(self, data: bytes, at: int, path: str) -> tuple[bytes | None, int]:
        left = len(data) - at - SIZE.size
        if left < 0:
            reason = f"expected {SIZE.size} bytes, found {left + SIZE.size}"
            raise Truncated(reason, message=MESSAGE, path=path, offset=self.position + at)
        (size,) = SIZE.unpack_from(data, at)
        if size > left:
            reason = f"expected {size} bytes, found {left}"
            raise Truncated(reason, message=MESSAGE, path=path, offset=self.position + at)
        at += SIZE.size
        return (None, at) if size < 0 else (data[at : at + size], at + size)

    def _open(self, limit: int | None) -> bytes:
        """Return the decompressed message set inside this wrapper.

        ``limit``: maximum size in bytes; None for the default of ``records.limits``. Raises: DecodeError if the data
        cannot be decompressed; LimitError if the result is larger than ``limit``.
        """
        if self.codec not in CODECS:
            reason = f"compression codec {self.codec} is not allowed in message sets"
            raise DecodeError(reason, message=MESSAGE, path="attributes", offset=self.position + FIELDS_AT[0] - 1)
        _, at = self._blob(self.data, FIELDS_AT[self.magic], "key")
        value, end = self._blob(self.data, at, "value")
        if value is None:
            raise DecodeError(
                "the compressed wrapper message has a null value instead of a message set",
                message=MESSAGE,
                path="value",
                offset=self.position + at,
            )
        try:
            return compression.decompress(self.codec, value, limit=limit, old_lz4=self.magic == 0)
        except DecodeError as error:
            error.message, error.path = MESSAGE, "value"
            error.offset += self.position + end - len(value)
            raise

    def _inner_offsets(self, body: bytes) -> tuple[int, int, int]:
        """Return the number of inner messages of this wrapper, and the encoded offsets of the first and the last of
        them.

        ``body``: decompressed message set of the wrapper. Raises: DecodeError if it is not valid or has no messages.
        """
        count = first = last = 0
        try:
            for _, last in _prefixes(body):
                first = first if count else last
                count += 1
        except DecodeError as error:
            self._locate(error)
            raise
        if not count:
            raise DecodeError(
                "the compressed wrapper message contains no messages",
                message=MESSAGE,
                path="value",
                offset=self.position,
            )
        return count, first, last

    def _shift(self, last: int) -> int:
        """Return the difference between the absolute and the encoded offset of the inner messages of this wrapper.

        ``last``: encoded offset of the last inner message. Raises: DecodeError if it is above the offset of the
        wrapper.
        """
        if self.magic == 0 or self.offset == 0:  # some producers leave the offset of the wrapper at 0
            return 0
        if self.offset < last:
            reason = f"the wrapper has offset {self.offset}, but its last message has {last}"
            raise DecodeError(reason, message=MESSAGE, path="offset", offset=self.position)
        return self.offset - last


def read_message(data: bytes, at: int = 0) -> Message:
    """Decode the header of the message that begins at offset ``at`` of ``data``.

    Raises: Truncated if the data ends before the end of the message; DecodeError if magic or size is invalid.
    """
    left = len(data) - at
    if left < HEADER.size:
        raise Truncated(f"expected {HEADER.size} bytes of message header, found {left}", message=MESSAGE, offset=at)
    offset, size, crc, magic, attributes = HEADER.unpack_from(data, at)
    if magic not in (0, 1):
        raise DecodeError(f"magic is {magic}, expected 0 or 1", message=MESSAGE, path="magic", offset=at + MAGIC_AT)
    if size < SMALLEST[magic]:
        raise _size_error(size, SMALLEST[magic], at)
    end = at + PREFIX.size + size
    if end > len(data):
        raise Truncated(
            f"the message has {PREFIX.size + size} bytes, but only {left} remain", message=MESSAGE, offset=at
        )
    timestamp = TIMESTAMP.unpack_from(data, at + HEADER.size)[0] if magic else NO_TIMESTAMP
    return Message(data[at:end], at, offset, size, crc, magic, attributes, timestamp)


def build_message_set(
    records: Sequence[Record],
    *,
    magic: int = 1,
    codec: int = compression.NONE,
    base_offset: int | None = None,
    keep_offsets: bool = False,
    log_append_time: int | None = None,
) -> bytes:
    """Build a message set, as a wrapper if ``codec`` is not NONE.

    Args:
        records: records in order.
        magic: format of the messages, 0 or 1.
        codec: number of the compression codec.
        base_offset: offset of the first message; None for 0. The messages after it get consecutive offsets.
        keep_offsets: True to use the records' own offsets, as after compaction.
        log_append_time: timestamp of all messages, in milliseconds since 1970; None to use the records' own timestamps.

    Raises: EncodeError for record headers, and for values that do not fit or have the wrong type; ValueError if there
    are no records, if the magic or codec is not allowed in message sets, or for ``log_append_time`` with magic 0.
    """
    if not records:
        raise ValueError("a message set needs at least one record")
    if magic not in (0, 1):
        raise ValueError(f"message sets have magic 0 or 1, got {magic}")
    if codec not in CODECS:
        raise ValueError(f"compression codec {codec} is not allowed in message sets")
    if log_append_time is not None and magic == 0:
        raise ValueError("messages of magic 0 have no timestamp: leave out log_append_time")
    if any(record.headers for record in records):
        raise EncodeError("records with magic 0 or 1 cannot have headers: use build_batch", message=MESSAGE)
    start = base_offset or 0
    offsets = [record.offset for record in records] if keep_offsets else range(start, start + len(records))
    stamped = LOG_APPEND_TIME if log_append_time is not None else 0
    stamps = [record.timestamp if log_append_time is None else log_append_time for record in records]
    shift = 0 if codec == compression.NONE or magic == 0 else (start if base_offset is not None else offsets[0])
    try:
        data = b"".join(
            _message(offset - shift, magic, stamped, timestamp, record.key, record.value)
            for record, offset, timestamp in zip(records, offsets, stamps, strict=True)
        )
    except WRONG_TYPE:
        check_types(records, MESSAGE)
        raise
    if codec == compression.NONE:
        return data
    packed = compression.compress(codec, data, old_lz4=magic == 0)
    return _message(offsets[-1], magic, stamped | codec, max(stamps), None, packed)


def _message(offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    key, value = key if key is None else as_bytes(key), value if value is None else as_bytes(value)
    try:
        tail = b"".join(
            (
                struct.pack(">bb", magic, attributes),
                TIMESTAMP.pack(timestamp) if magic else b"",
                SIZE.pack(-1 if key is None else len(key)),
                key or b"",
                SIZE.pack(-1 if value is None else len(value)),
                value or b"",
            )
        )
        return struct.pack(">qiI", offset, len(tail) + 4, zlib.crc32(tail)) + tail
    except struct.error as error:
        raise EncodeError(
            f"offset {offset} or timestamp {timestamp} does not fit into a 64-bit integer: {error}", message=MESSAGE
        ) from error


def _prefixes(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield the position in ``body`` and the encoded offset of each message, without decoding the messages.

    A truncated last message is omitted, as in Kafka.
    """
    at = 0
    while len(body) - at >= PREFIX.size:
        offset, size = PREFIX.unpack_from(body, at)
        if size < SMALLEST[0]:
            raise _size_error(size, SMALLEST[0], at)
        if size > len(body) - at - PREFIX.size:
            return
        yield at, offset
        at += PREFIX.size + size


def _size_error(size: int, least: int, at: int) -> DecodeError:
    reason = f"message size {size} is below the minimum of {least}"
    return DecodeError(reason, message=MESSAGE, path="size", offset=at + 8)
