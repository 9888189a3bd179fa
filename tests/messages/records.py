"""Messages of the Python API of kwire about records, and of ``kwire explain`` about them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from google_crc32c import value as crc32c
from messages.row import Row

from kwire.engines.varints import uvarint
from kwire.explain.pieces import TreeBuilder
from kwire.explain.records import Allowance, Reader
from kwire.records import Record, build_batch, build_message_set, read
from kwire.records.batch import read_batch, recompress
from kwire.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress
from kwire.records.control import ControlType, build_marker, control_records, read_control_record
from kwire.records.message_set import read_message
from kwire.records.record import read_records

BATCH = build_batch([Record(value=b"v")])
MESSAGE = build_message_set([Record(value=b"v")])
XERIAL = b"\x82SNAPPY\x00"


def batch(records: bytes, count: int = 1, codec: int = 0) -> bytes:
    """Return a batch with these bytes as its records, and a right checksum."""
    tail = struct.pack(">hiqqqhii", codec, 0, 0, 0, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c(tail)) + tail


def message(fields: bytes, *, attributes: int = 0, magic: int = 0, offset: int = 0, size: int | None = None) -> bytes:
    """Return a message with these bytes after its attributes, and a right checksum."""
    tail = struct.pack(">bb", magic, attributes) + fields
    return struct.pack(">qiI", offset, len(tail) + 4 if size is None else size, zlib.crc32(tail)) + tail


def wrapper(content: bytes | None, codec: int = GZIP, **options: Any) -> bytes:
    """Return a message whose value is a compressed message set; null for None."""
    packed = None if content is None else compress(codec, content)
    value = struct.pack(">i", -1) if packed is None else struct.pack(">i", len(packed)) + packed
    timestamp = bytes(8) if options.get("magic") else b""
    return message(timestamp + struct.pack(">i", -1) + value, attributes=codec, **options)


def varint(number: int) -> bytes:
    return uvarint((number << 1) ^ (number >> 63))


def record(rest: bytes, size: int | None = None) -> bytes:
    """Return a record with these bytes after its length."""
    return varint(len(rest) if size is None else size) + rest


def read_all(data: bytes) -> Callable[[], object]:
    """Read all records of a records field."""
    return lambda: [list(each.records()) for each in read(data)]


def records(data: bytes, count: int = 1) -> Callable[[], object]:
    """Read the records of a batch with these bytes."""
    return read_all(batch(data, count))


def explained(data: bytes, allowance: Allowance | None = None) -> Callable[[], str]:
    """Explain a records field; return the errors that are shown."""

    def errors() -> str:
        reader = Reader(data, TreeBuilder(0, "records"), allowance or Allowance())
        reader.batches("")
        pending, texts = list(reader.tree.done()), []
        while pending:
            piece = pending.pop(0)
            texts += [piece.error] * bool(piece.error)
            pending += [*piece.fields, *(piece.unpacked.pieces if piece.unpacked else ())]
        return "\n".join(texts)

    return errors


def few_leaves() -> Allowance:
    allowance = Allowance()
    allowance.leaves = 3
    return allowance


def few_frame_leaves() -> Allowance:
    allowance = Allowance()
    allowance.frame_leaves = 3
    return allowance


HEAD = b"\0\0\0"  # attributes, timestamp and offset of a record
NULLS = b"\1\1"  # a null key and a null value
NO_HEADERS = b"\0"

ROWS = [
    # batches
    Row("truncated batch header", lambda: read_batch(BATCH[:20]), "Truncated: RecordBatch at byte 0: expected 61 bytes of batch header, found 20"),
    Row("truncated batch", lambda: read_batch(BATCH[:-1]), "Truncated: RecordBatch at byte 0: expected 69 bytes, found 68"),
    Row("magic of a batch", lambda: read_batch(BATCH[:16] + b"\3" + BATCH[17:]), "DecodeError: RecordBatch at byte 16, magic: magic is 3, expected 2"),
    Row("length of a batch", lambda: read_batch(BATCH[:8] + bytes(4) + BATCH[12:]), "DecodeError: RecordBatch at byte 8, length: batch length 0 is below the minimum of 49"),
    Row("checksum of a batch", read_all(BATCH[:-2] + b"x" + BATCH[-1:]), "CrcError: RecordBatch at byte 17: the CRC 0x9e41f0b2 in the batch header does not match the data"),
    Row("count of a batch", read_all(batch(b"", 5)), "LimitError: RecordBatch at byte 57, count: 5 records of at least 7 bytes do not fit into 0 bytes"),
    Row("batch without records", lambda: build_batch([]), "ValueError: a batch needs at least one record"),
    Row("producer id as text", lambda: build_batch([Record()], producer_id="7"), "EncodeError: RecordBatch: a value does not fit into its field of the batch header: $REASON"),  # type: ignore[arg-type]
    Row("producer id out of range", lambda: build_batch([Record()], producer_id=2**70), "EncodeError: RecordBatch: producer_id 1180591620717411303424 does not fit into 64 bits"),
    Row("offset below the first", lambda: build_batch([Record(offset=2**40)], base_offset=0, keep_offsets=True), "EncodeError: RecordBatch: an offset delta of +1099511627776 is out of range (-2147483647 to 2147483647)"),
    Row("header key with a lone surrogate", lambda: build_batch([Record(headers=[("\ud800", b"")])]), "EncodeError: RecordBatch: header key '\\ud800' cannot be encoded as UTF-8: surrogates not allowed"),
    Row("value as text", lambda: build_batch([Record(value="v")]), "EncodeError: RecordBatch, records[0].value: expected bytes, got str"),  # type: ignore[arg-type]
    Row("header of three elements", lambda: build_batch([Record(headers=[("h", b"", 1)])]), "EncodeError: RecordBatch, records[0].headers[0]: expected a key and a value, got 3 elements"),  # type: ignore[list-item]
    # records
    Row("record above the data", records(record(HEAD + NULLS + NO_HEADERS, 99)), "Truncated: RecordBatch at byte 61, records[0]: a record has 99 bytes, but only 6 remain"),
    Row("record that ends too early", records(record(HEAD + NULLS + NO_HEADERS + b"x")), "DecodeError: RecordBatch at byte 61, records[0]: the length of the record is 7, but its fields take 6 bytes"),
    Row("bytes after the records", records(record(HEAD + NULLS + NO_HEADERS) + b"more"), "DecodeError: RecordBatch at byte 68: 4 trailing bytes after the last record"),
    Row("negative record count", lambda: list(read_records(b"", 0, -1, 0, 0, None, Record)), "DecodeError: RecordBatch at byte 0, count: the record count -1 is negative"),
    Row("key above the data", records(record(HEAD + varint(9) + b"\0\0\0\0")), "Truncated: RecordBatch at byte 65, records[0].key: expected 9 bytes, found 4"),
    Row("truncated varint", records(record(HEAD + b"\1\x80\x80\x80")), "Truncated: RecordBatch at byte 66, records[0].value: the data ends inside a varint"),
    Row("varint of 6 bytes", records(record(HEAD + b"\x80\x80\x80\x80\x80\1")), "LimitError: RecordBatch at byte 65, records[0].key: a varint is longer than the limit of 5 bytes"),
    Row("headers above the data", records(record(HEAD + NULLS + varint(50))), "LimitError: RecordBatch at byte 67, records[0].headers: 50 headers do not fit into 0 bytes"),
    Row("records that are too large to recompress", lambda: recompress(read_batch(build_batch([Record(value=bytes(9))])), 0, limit=5), "LimitError: RecordBatch at byte 0: 16 bytes of records exceed the limit of 5 bytes"),
    Row("many headers", records(record(HEAD + NULLS + varint(100_001) + b"\0\1" * 100_001)), "LimitError: RecordBatch at byte 69, records[0].headers: 100001 headers exceed the limit of 100000"),
    Row("header without a key", records(record(HEAD + NULLS + varint(1) + b"\1\1")), "DecodeError: RecordBatch at byte 68, records[0].headers[0].key: the key of a header is null, but Kafka requires a string"),
    Row("record of a compressed batch", read_all(batch(compress(GZIP, record(HEAD + NULLS + NO_HEADERS, 99)), 1, GZIP)), "Truncated: RecordBatch at byte 61, records[0]: a record has 99 bytes, but only 6 remain (byte 0 after decompression)"),
    # compression
    Row("unknown codec of a batch", lambda: decompress(7, b""), "DecodeError: RecordBatch at byte 0: unknown compression codec 7: expected 0 (none), 1 (gzip), 2 (snappy), 3 (lz4), 4 (zstd)"),
    Row("unknown codec to compress with", lambda: compress(7, b""), "ValueError: unknown compression codec 7: expected 0 (none), 1 (gzip), 2 (snappy), 3 (lz4), 4 (zstd)"),
    Row("truncated gzip", lambda: decompress(GZIP, compress(GZIP, b"data")[:-4]), "DecodeError: RecordBatch at byte 20: the gzip stream is truncated"),
    Row("data that is not gzip", lambda: decompress(GZIP, b"not gzip"), "DecodeError: RecordBatch at byte 0: invalid gzip data: $REASON"),
    Row("data above the limit", lambda: decompress(GZIP, compress(GZIP, bytes(100)), limit=10), "LimitError: RecordBatch at byte 0: decompressed data exceeds the limit of 10 bytes"),
    Row("truncated snappy header", lambda: decompress(SNAPPY, XERIAL), "Truncated: RecordBatch at byte 0: expected 16 bytes of snappy header, found 8"),
    Row("truncated snappy block size", lambda: decompress(SNAPPY, XERIAL + bytes(8) + b"\0"), "Truncated: RecordBatch at byte 16: expected 4 bytes of snappy block size, found 1"),
    Row("snappy block above the data", lambda: decompress(SNAPPY, XERIAL + bytes(8) + b"\0\0\0\x63"), "Truncated: RecordBatch at byte 16: a snappy block has 99 bytes, but only 0 remain"),
    Row("data that is not snappy", lambda: decompress(SNAPPY, b"\x05\xff\xff"), "DecodeError: RecordBatch at byte 0: invalid snappy data: $REASON"),
    Row("lz4 without bytes", lambda: decompress(LZ4, b""), "DecodeError: RecordBatch at byte 0: invalid lz4 data: no bytes"),
    Row("data that is not lz4", lambda: decompress(LZ4, b"not lz4"), "DecodeError: RecordBatch at byte 0: invalid lz4 data: $REASON"),
    Row("data that is not zstd", lambda: decompress(ZSTD, b"not zstd"), "DecodeError: RecordBatch at byte 0: invalid zstd data: $REASON"),
    # message sets
    Row("truncated message header", lambda: read_message(MESSAGE[:10]), "Truncated: Message at byte 0: expected 18 bytes of message header, found 10"),
    Row("truncated message", lambda: read_message(MESSAGE[:-1]), "Truncated: Message at byte 0: the message has 35 bytes, but only 34 remain"),
    Row("magic of a message", lambda: read_message(MESSAGE[:16] + b"\3" + MESSAGE[17:]), "DecodeError: Message at byte 16, magic: magic is 3, expected 0 or 1"),
    Row("size of a message", lambda: read_message(MESSAGE[:8] + bytes(4) + MESSAGE[12:]), "DecodeError: Message at byte 8, size: message size 0 is below the minimum of 22"),
    Row("checksum of a message", read_all(MESSAGE[:-1] + b"x"), "CrcError: Message at byte 12: checksum 0xb461472e does not match the data"),
    Row("key above its message", read_all(message(struct.pack(">ii", 99, -1))), "Truncated: Message at byte 18, key: expected 99 bytes, found 4"),
    Row("message without a value", read_all(message(struct.pack(">i", 2) + b"kk" + b"\0\0")), "Truncated: Message at byte 24, value: expected 4 bytes, found 2"),
    Row("zstd in a message set", read_all(message(struct.pack(">ii", -1, -1), attributes=ZSTD)), "DecodeError: Message at byte 17, attributes: compression codec 4 is not allowed in message sets"),
    Row("wrapper without a value", read_all(wrapper(None)), "DecodeError: Message at byte 22, value: the compressed wrapper message has a null value instead of a message set"),
    Row("wrapper without messages", read_all(wrapper(b"")), "DecodeError: Message at byte 0, value: the compressed wrapper message contains no messages"),
    Row("wrapper inside a wrapper", read_all(wrapper(wrapper(MESSAGE))), "LimitError: Message at byte 0, records[0]: a compressed message inside a compressed message exceeds the limit of 1 level of nesting (byte 17 after decompression)"),
    Row("offset of a wrapper", read_all(wrapper(message(bytes(8) + struct.pack(">ii", -1, -1), magic=1, offset=9), magic=1, offset=3)), "DecodeError: Message at byte 0, offset: the wrapper has offset 3, but its last message has 9"),
    Row("size of an inner message", read_all(wrapper(message(b"", size=3))), "DecodeError: Message at byte 0, size: message size 3 is below the minimum of 14 (byte 8 after decompression)"),
    Row("message set without records", lambda: build_message_set([]), "ValueError: a message set needs at least one record"),
    Row("magic of a message set", lambda: build_message_set([Record()], magic=2), "ValueError: message sets have magic 0 or 1, got 2"),
    Row("codec of a message set", lambda: build_message_set([Record()], codec=ZSTD), "ValueError: compression codec 4 is not allowed in message sets"),
    Row("append time of magic 0", lambda: build_message_set([Record()], magic=0, log_append_time=1), "ValueError: messages of magic 0 have no timestamp: leave out log_append_time"),
    Row("headers in a message set", lambda: build_message_set([Record(headers=[("h", b"")])]), "EncodeError: Message: records with magic 0 or 1 cannot have headers: use build_batch"),
    Row("timestamp out of range", lambda: build_message_set([Record(timestamp=2**70)]), "EncodeError: Message: offset 0 or timestamp 1180591620717411303424 does not fit into a 64-bit integer: $REASON"),
    # control records
    Row("records of an ordinary batch", lambda: control_records(read_batch(BATCH)), "ValueError: the batch at offset 0 is not a control batch: check batch.control first"),
    Row("control record without a key", lambda: read_control_record(Record()), "DecodeError: ControlRecordKey at byte 0: the control record has no key, so its type is unknown"),
    Row("control record without a value", lambda: read_control_record(Record(key=b"\0\0\0\1")), "DecodeError: EndTxnMarker at byte 0: a control record of type 1 needs a value, but the value is null"),
    Row("marker of a snapshot", lambda: build_marker(ControlType.LEADER_CHANGE, producer_id=1, producer_epoch=0, timestamp=0), "ValueError: LEADER_CHANGE does not end a transaction: use ABORT or COMMIT"),
    # explanations
    Row("explained magic", explained(BATCH[:16] + b"\3" + BATCH[17:]), "magic is 3, expected 0, 1 or 2"),
    Row("explained batch that is truncated", explained(BATCH[:-1]), "a batch has 69 bytes, but only 68 remain"),
    Row("explained batch header that is truncated", explained(BATCH[:30]), "a record batch has at least 61 bytes, but only 30 remain"),
    Row("explained length of a batch", explained(BATCH[:8] + bytes(4) + BATCH[12:]), "a batch has 12 bytes, below the minimum of 61"),
    Row("explained record above the data", explained(batch(record(HEAD + NULLS + NO_HEADERS, 99))), "a record has 99 bytes, but only 6 remain"),
    Row("explained record that ends too early", explained(batch(record(HEAD + NULLS + NO_HEADERS + b"x"))), "the length of the record is 7, but its fields take 6 bytes"),
    Row("explained bytes after the records", explained(batch(record(HEAD + NULLS + NO_HEADERS) + b"more")), "4 trailing bytes after the last record"),
    Row("explained headers above the data", explained(batch(record(HEAD + NULLS + varint(50)))), "50 headers do not fit into 0 bytes"),
    Row("explained key above the data", explained(batch(record(HEAD + varint(9)))), "key has 9 bytes, but only 0 remain"),
    Row("explained varint that is truncated", explained(batch(record(HEAD + b"\x80"))), "the data ends inside a varint"),
    Row("explained varint of six bytes", explained(batch(record(HEAD + b"\x80" * 6))), "a varint is longer than the limit of 5 bytes"),
    Row("explained header without a key", explained(batch(record(HEAD + NULLS + varint(1) + varint(-1) + varint(-1)))), "the key of a header is null, but Kafka requires a string"),
    Row("explained integer that is truncated", explained(message(struct.pack(">i", 2) + b"kk" + b"\0\0")), "expected 4 bytes of int32, found 2"),
    Row("explained bytes after a message", explained(message(struct.pack(">ii", -1, -1) + b"more")), "4 trailing bytes after the value"),
    Row("explained frame above the limit", explained(build_batch([Record()] * 9), few_frame_leaves()), "the frame has more than 500000 leaves: the rest is not shown"),
    Row("explained records above the limit", explained(build_batch([Record()] * 9, codec=GZIP), few_leaves()), "the decompressed data of the frame has more than 50000 leaves: the rest is not shown"),
    Row("explained codec", explained(batch(b"x", 1, 7)), "unknown compression codec 7: expected 0 (none), 1 (gzip), 2 (snappy), 3 (lz4), 4 (zstd)"),
]  # fmt: skip
