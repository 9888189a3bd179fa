"""Compression of the records of a batch, in the forms that Kafka's clients write and read.

gzip: one member or several. snappy: the framing of snappy-java (called xerial after its maker), or one raw block. lz4:
the frame format. zstd: frames.

Decompression is bounded: no codec gives more than its limit, a size that the data claims is checked before anything is
allocated for it, and whatever is wrong with the data is a DecodeError. Source: org.apache.kafka.common.compress.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cramjam

from kwire.errors import DecodeError, LimitError, Truncated

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
MAX_DECOMPRESSED = 16 * 1024 * 1024  # bytes; or MAX_RATIO times the input, whichever is larger
MAX_RATIO = 100

GZIP_MAGIC = b"\x1f\x8b"
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, and the oldest that can read it
XERIAL_BLOCK = 32 * 1024  # bytes before compression; that of snappy-java
LZ4_HEADER = bytes.fromhex("04224d18 60 40 82")  # blocks stand alone, or Kafka refuses; 64 KiB; checksum of these two
LZ4_BLOCK = 64 * 1024
LZ4_STORED = 0x8000_0000  # bit of a block size: the block is not compressed
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
TOO_SMALL = "failed to write whole buffer"  # what cramjam says when the output does not fit


def decompress(codec: int, data: bytes, *, limit: int | None = None) -> bytes:
    """The records of a batch. ``limit``: bytes they may take. Raises: DecodeError, LimitError."""
    if codec == NONE:
        return data
    if codec not in _DECOMPRESS:
        raise _error(f"compression {codec} does not exist")
    if limit is None:
        limit = max(MAX_DECOMPRESSED, MAX_RATIO * len(data))
    return _DECOMPRESS[codec](data, limit)


def compress(codec: int, data: bytes) -> bytes:
    """``data`` compressed; the same input gives the same bytes. Raises: ValueError for a codec that does not exist."""
    if codec == NONE:
        return data
    if codec not in _COMPRESS:
        raise ValueError(f"compression {codec} does not exist")
    return _COMPRESS[codec](data)


def _gunzip(data: bytes, limit: int) -> bytes:
    """All members, as Java's GZIPInputStream reads them; like there, what is no member behind one is ignored."""
    parts: list[bytes] = []
    left = limit
    while not parts or data.startswith(GZIP_MAGIC):
        inflater = zlib.decompressobj(wbits=31)
        try:
            part = inflater.decompress(data, left + 1)
        except zlib.error as error:
            raise _error(f"not gzip: {error}") from error
        if len(part) > left:
            raise _too_much(limit)
        if not inflater.eof:
            raise _error("the gzip stream ends too early")
        parts.append(part)
        left -= len(part)
        data = inflater.unused_data
    return b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _unsnappy_block(data, limit, limit)
    parts: list[bytes] = []
    left = limit
    for block in _xerial_blocks(data):
        parts.append(_unsnappy_block(block, left, limit))
        left -= len(parts[-1])
    return b"".join(parts)


def _xerial_blocks(data: bytes) -> Iterator[bytes]:
    """The blocks behind a header; another header may stand where a block could, when streams were glued together."""
    at = 0
    while at < len(data):
        if data.startswith(XERIAL_MAGIC, at):
            if len(data) - at < len(XERIAL_HEADER):
                raise _truncated(f"expected {len(XERIAL_HEADER)} bytes of snappy header, found {len(data) - at}")
            at += len(XERIAL_HEADER)
            continue
        if len(data) - at < 4:
            raise _truncated(f"expected 4 bytes of snappy block size, found {len(data) - at}")
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise _truncated(f"a snappy block of {size} bytes, {len(data) - at} left")
        yield data[at : at + size]
        at += size


def _unsnappy_block(data: bytes, left: int, limit: int) -> bytes:
    try:
        claimed: int = cramjam.snappy.decompress_raw_len(data)
        if claimed > left:
            raise _too_much(limit)
        out = bytearray(claimed)
        cramjam.snappy.decompress_raw_into(data, out)
    except cramjam.DecompressionError as error:
        raise _error(f"not snappy: {error}") from error
    return bytes(out)


def _unlz4(data: bytes, limit: int) -> bytes:
    if not data:
        raise _error("not lz4: no bytes")
    return _into_buffers("lz4", cramjam.lz4.decompress_into, data, 0, limit)


def _unzstd(data: bytes, limit: int) -> bytes:
    claimed = _zstd_content_size(data)
    if claimed > limit:
        raise _too_much(limit)
    return _into_buffers("zstd", cramjam.zstd.decompress_into, data, claimed, limit)


def _zstd_content_size(data: bytes) -> int:
    """What the header of the first frame claims; 0 if it does not say. Source: RFC 8878, section 3.1.1.1."""
    if len(data) < 5 or not data.startswith(ZSTD_MAGIC):
        return 0
    descriptor = data[4]
    alone = descriptor >> 5 & 1  # a single segment has no byte for its window
    at = 5 + (1 - alone) + (0, 1, 2, 4)[descriptor & 3]
    size = (alone, 2, 4, 8)[descriptor >> 6]
    return int.from_bytes(data[at : at + size], "little") + (256 if size == 2 else 0)


def _into_buffers(name: str, into: Callable[[bytes, bytearray], Any], data: bytes, claimed: int, limit: int) -> bytes:
    """Decompress into a buffer that grows until all fits or the limit is reached: neither format is sure to say."""
    size = min(limit, claimed or max(4096, 4 * len(data)))
    while True:
        out = bytearray(size)
        try:
            del out[into(data, out) :]
            return bytes(out)
        except cramjam.DecompressionError as error:
            if TOO_SMALL not in str(error):
                raise _error(f"not {name}: {str(error).removeprefix('lz4: ')}") from error
            if size >= limit:
                raise _too_much(limit) from error
        size = min(limit, 4 * max(size, 1024))


def _xerial(data: bytes) -> bytes:
    parts = [XERIAL_HEADER]
    for at in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + XERIAL_BLOCK]))
        parts += struct.pack(">i", len(block)), block
    return b"".join(parts)


def _lz4(data: bytes) -> bytes:
    """One frame, made here because cramjam's has blocks that depend on each other."""
    parts = [LZ4_HEADER]
    for at in range(0, len(data), LZ4_BLOCK):
        plain = data[at : at + LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += struct.pack("<I", len(block)), block
        else:
            parts += struct.pack("<I", len(plain) | LZ4_STORED), plain
    return b"".join([*parts, bytes(4)])


def _error(reason: str) -> DecodeError:
    return DecodeError(reason, message="RecordBatch")


def _truncated(reason: str) -> Truncated:
    return Truncated(reason, message="RecordBatch")


def _too_much(limit: int) -> LimitError:
    return LimitError(f"more than {limit} bytes after decompression", message="RecordBatch")


_DECOMPRESS: Mapping[int, Callable[[bytes, int], bytes]] = {
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
_COMPRESS: Mapping[int, Callable[[bytes], bytes]] = {
    GZIP: lambda data: gzip.compress(data, mtime=0),
    SNAPPY: _xerial,
    LZ4: _lz4,
    ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
