"""Compression of the records of a batch, in the forms that Kafka's clients write and read.

gzip: one member or several. snappy: the framing of snappy-java (called xerial after its maker), or one raw block. lz4:
the frame format, and the slightly wrong one of message sets of magic 0. zstd: frames.

Decompression is bounded: no codec gives more than its limit, a size that the data claims is checked before anything is
allocated for it, and whatever is wrong with the data is a DecodeError, whose offset counts from the start of the
compressed bytes. Source: org.apache.kafka.common.compress.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cramjam

from kwire.errors import DecodeError, LimitError, Truncated
from kwire.records import limits

NONE, GZIP, SNAPPY, LZ4, ZSTD = 0, 1, 2, 3, 4  # as the attributes of a batch have them
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
IN_BATCHES_ONLY = frozenset({ZSTD})  # codecs that message sets cannot have (KIP-110)
PRODUCED_SINCE: Mapping[int, int] = {ZSTD: 7}  # the first version of Produce, for codecs that not all versions have

GZIP_MAGIC = b"\x1f\x8b"
GZIP_STEP = 16 * 1024  # bytes that zlib is given at a time: what stands behind a member is copied once for each
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, and the oldest that can read it
XERIAL_BLOCK = 32 * 1024  # bytes before compression; that of snappy-java
LZ4_MAGIC = bytes.fromhex("04224d18")
LZ4_FLAGS = bytes.fromhex("60 40")  # blocks stand alone, or Kafka refuses; 64 KiB
LZ4_BLOCK = 64 * 1024
LZ4_STORED = 0x8000_0000  # bit of a block size: the block is not compressed
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
ZSTD_SKIPPED = bytes.fromhex("2a4d18")  # behind one byte 0x50 to 0x5f: a frame without content
ZSTD_LARGEST_WINDOW = 128 * 1024 * 1024  # zstd itself refuses more
TOO_SMALL = "failed to write whole buffer"  # what cramjam says when the output does not fit


def may_be_produced(codec: int, version: int) -> bool:
    """Check that the codec exists, and that a Produce of this version may have it.

    Source: org.apache.kafka.common.requests.ProduceRequest.validateRecords; KIP-110.
    """
    return codec in NAMES and version >= PRODUCED_SINCE.get(codec, 0)


def decompress(codec: int, data: bytes, *, limit: int | None = None, old_lz4: bool = False) -> bytes:
    """The records of a batch.

    ``limit``: bytes they may take, that of ``limits`` if None. ``old_lz4``: the checksum in the header of an lz4 frame
    does not count, as in message sets of magic 0. Raises: DecodeError, LimitError.
    """
    if codec == NONE:
        return data
    if codec not in _DECOMPRESS:
        raise _error(f"compression {codec} does not exist")
    if limit is None:
        limit = limits.decompressed(len(data))
    if codec == LZ4 and old_lz4:
        data = _with_right_checksum(data)
    return _DECOMPRESS[codec](data, limit)


def compress(codec: int, data: bytes, *, old_lz4: bool = False) -> bytes:
    """``data`` compressed; the same input gives the same bytes. Raises: ValueError for a codec that does not exist.

    ``old_lz4``: the checksum in the header covers the magic bytes too, as in message sets of magic 0 (KAFKA-3160).
    """
    if codec == NONE:
        return data
    if codec not in _COMPRESS:
        raise ValueError(f"compression {codec} does not exist")
    if codec == LZ4 and old_lz4:
        return _lz4(data, LZ4_OLD_HEADER)
    return _COMPRESS[codec](data)


def _gunzip(data: bytes, limit: int) -> bytes:
    """All members, as Java's GZIPInputStream reads them; like there, what is no member behind one is ignored."""
    parts: list[bytes] = []
    left = limit
    at = 0
    while not parts or data.startswith(GZIP_MAGIC, at):
        inflater = zlib.decompressobj(wbits=31)
        while not inflater.eof:
            if at >= len(data):
                raise _error("the gzip stream ends too early", at)
            step = data[at : at + GZIP_STEP]
            try:
                part = inflater.decompress(step, left + 1)
            except zlib.error as error:
                raise _error(f"not gzip: {error}", at) from error
            if len(part) > left:
                raise _too_much(limit)
            parts.append(part)
            left -= len(part)
            at += len(step) - len(inflater.unused_data)
    return b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _unsnappy_block(data, limit, limit)
    parts: list[bytes] = []
    left = limit
    for at, block in _xerial_blocks(data):
        parts.append(_unsnappy_block(block, left, limit, at))
        left -= len(parts[-1])
    return b"".join(parts)


def _xerial_blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each block behind a header begins, and its bytes; streams glued together have more headers in between."""
    at = 0
    while at < len(data):
        if data.startswith(XERIAL_MAGIC, at):
            if len(data) - at < len(XERIAL_HEADER):
                raise _truncated(f"expected {len(XERIAL_HEADER)} bytes of snappy header, found {len(data) - at}", at)
            at += len(XERIAL_HEADER)
            continue
        if len(data) - at < 4:
            raise _truncated(f"expected 4 bytes of snappy block size, found {len(data) - at}", at)
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise _truncated(f"a snappy block of {size} bytes, {len(data) - at} left", at - 4)
        yield at, data[at : at + size]
        at += size


def _unsnappy_block(data: bytes, left: int, limit: int, at: int = 0) -> bytes:
    try:
        claimed: int = cramjam.snappy.decompress_raw_len(data)
        if claimed > left:
            raise _too_much(limit, at)
        out = bytearray(claimed)
        cramjam.snappy.decompress_raw_into(data, out)
    except cramjam.DecompressionError as error:
        raise _error(f"not snappy: {error}", at) from error
    return bytes(out)


def _unlz4(data: bytes, limit: int) -> bytes:
    if not data:
        raise _error("not lz4: no bytes")
    return _into_buffers("lz4", cramjam.lz4.decompress_into, data, 0, limit)


def _with_right_checksum(data: bytes) -> bytes:
    """An lz4 frame whose header has the checksum that it should have, whatever it had."""
    if len(data) < 7:
        return data
    end = 6 + (data[4] >> 3 & 1) * 8 + (data[4] & 1) * 4  # there may be a content size and the id of a dictionary
    return data[:end] + _lz4_checksum(data[4:end]) + data[end + 1 :]


def _lz4_checksum(header: bytes) -> bytes:
    """One byte of the xxHash-32 of less than 16 bytes. Source: lz4_Frame_format.md, xxhash_spec.md."""
    assert len(header) < 16
    words = len(header) & ~3
    value = 0x165667B1 + len(header)
    for at in range(0, words, 4):
        value = _rotated(value + int.from_bytes(header[at : at + 4], "little") * 0xC2B2AE3D, 17) * 0x27D4EB2F
    for byte in header[words:]:
        value = _rotated(value + byte * 0x165667B1, 11) * 0x9E3779B1
    value &= 0xFFFF_FFFF
    value = (value ^ value >> 15) * 0x85EBCA77 & 0xFFFF_FFFF
    value = (value ^ value >> 13) * 0xC2B2AE3D & 0xFFFF_FFFF
    return bytes([(value ^ value >> 16) >> 8 & 0xFF])


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFF_FFFF
    return value << bits | value >> 32 - bits


def _unzstd(data: bytes, limit: int) -> bytes:
    frames, claimed = _zstd_frames(data, limit)
    return _into_buffers("zstd", cramjam.zstd.decompress_into, frames, claimed, limit)


def _zstd_frames(data: bytes, limit: int) -> tuple[bytes, int]:
    """The frames, with windows of no more than ``limit``, and how much content they claim in all (0: unknown).

    zstd allocates the window that a header claims, up to 128 MiB for a frame of some bytes. A window larger than all
    that may come out is never needed, and high levels of zstd claim one, so it is made smaller and not refused.
    Source: RFC 8878, sections 3.1.1 and 3.1.2.
    """
    frames = bytearray(data)
    total, sure = 0, True
    at = 0
    while len(data) - at >= 8:  # the last bytes of something broken are left to zstd
        if data[at + 1 : at + 4] == ZSTD_SKIPPED and data[at] >> 4 == 5:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if not data.startswith(ZSTD_MAGIC, at):
            break
        descriptor = data[at + 4]
        at += 5
        alone = descriptor >> 5 & 1  # a single segment has no byte for its window
        if not alone:
            frames[at] = _smaller_window(data[at], limit)
            at += 1
        at += (0, 1, 2, 4)[descriptor & 3]
        size = (alone, 2, 4, 8)[descriptor >> 6]
        claimed = int.from_bytes(data[at : at + size], "little") + (256 if size == 2 else 0)
        total += claimed
        if total > limit:
            raise _too_much(limit, at)
        sure = sure and size > 0
        at = _behind_blocks(data, at + size) + (descriptor & 4)  # a checksum of 4 bytes, if bit 2 says so
    return bytes(frames), total if sure else 0


def _smaller_window(byte: int, limit: int) -> int:
    """A window descriptor for at most the power of two that is not below ``limit``."""
    window = (8 + (byte & 7)) << (byte >> 3) + 7
    enough = max(limit - 1, 1023).bit_length()
    return (enough - 10) << 3 if 1 << enough < window <= ZSTD_LARGEST_WINDOW else byte


def _behind_blocks(data: bytes, at: int) -> int:
    last = 0
    while not last and len(data) - at >= 3:
        header = int.from_bytes(data[at : at + 3], "little")
        last = header & 1
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)  # a block of one byte repeated has only that byte
    return at


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


LZ4_HEADER = LZ4_MAGIC + LZ4_FLAGS + _lz4_checksum(LZ4_FLAGS)
LZ4_OLD_HEADER = LZ4_MAGIC + LZ4_FLAGS + _lz4_checksum(LZ4_MAGIC + LZ4_FLAGS)


def _lz4(data: bytes, header: bytes = LZ4_HEADER) -> bytes:
    """One frame, made here because cramjam's has blocks that depend on each other."""
    parts = [header]
    for at in range(0, len(data), LZ4_BLOCK):
        plain = data[at : at + LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += struct.pack("<I", len(block)), block
        else:
            parts += struct.pack("<I", len(plain) | LZ4_STORED), plain
    return b"".join([*parts, bytes(4)])


def _error(reason: str, at: int = 0) -> DecodeError:
    return DecodeError(reason, message="RecordBatch", offset=at)


def _truncated(reason: str, at: int) -> Truncated:
    return Truncated(reason, message="RecordBatch", offset=at)


def _too_much(limit: int, at: int = 0) -> LimitError:
    return LimitError(f"more than {limit} bytes after decompression", message="RecordBatch", offset=at)


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
