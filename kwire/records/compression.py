"""Compression and decompression of records, in the formats that Kafka's clients write and read.

The formats by codec:

- gzip: one or more members;
- snappy: the framing of snappy-java (called xerial after its author), or one raw block;
- lz4: the frame format; in message sets of magic 0, the header checksum also covers the magic bytes (KAFKA-3160);
- zstd: frames.

Decompression is bounded: no codec returns more bytes than its limit, and a size that the data declares is checked
before memory is allocated for it. Invalid data raises DecodeError; its offset counts from the start of the compressed
bytes. Source: org.apache.kafka.common.compress.

Functions import cramjam and gzip themselves, so that a process that does not compress starts faster.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kwire.errors import DecodeError, LimitError, Truncated
from kwire.records import limits
from kwire.records.native import codecs

NONE, GZIP, SNAPPY, LZ4, ZSTD = 0, 1, 2, 3, 4  # codec in the attributes of a batch
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
KNOWN = ", ".join(f"{codec} ({name})" for codec, name in NAMES.items())
IN_BATCHES_ONLY = frozenset({ZSTD})  # codecs not allowed in message sets (KIP-110)
PRODUCED_SINCE: Mapping[int, int] = {
    ZSTD: 7
}  # first Produce version that allows the codec; all versions allow the others

GZIP_MAGIC = b"\x1f\x8b"
GZIP_STEP = 1 << 14  # bytes per call of zlib, which copies the data after a member with each call
GZIP_PIECE = 1 << 20  # bytes of the largest piece of decompressed data
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, and the oldest compatible version
XERIAL_BLOCK = 1 << 15  # bytes before compression, as in snappy-java
LZ4_MAGIC = bytes.fromhex("04224d18")
LZ4_FLAGS = bytes.fromhex("60 40")  # independent blocks (Kafka requires them) of 64 KiB
LZ4_BLOCK = 1 << 16
LZ4_STORED = 0x8000_0000  # bit of a block size: the block is not compressed
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
ZSTD_SKIPPED = bytes.fromhex("2a4d18")  # after a byte 0x50 to 0x5f: a frame without content
ZSTD_LARGEST_WINDOW = 1 << 27  # limit of zstd itself
ZSTD_BLOCK = 1 << 17  # largest block; zstd refuses blocks that are larger than the window
LARGE_GUESS = 1 << 20  # buffer up to which records are expected to take 16 times their compressed size; above it, 4
ZSTD_STEP = 1 << 20  # bytes that are compressed for one piece
TOO_SMALL = "failed to write whole buffer"  # cramjam's error if the output does not fit
NATIVE = codecs()  # None if kwire-native is not used


def may_be_produced(codec: int, version: int) -> bool:
    """Return True if the codec exists and this version of Produce allows it.

    Source: org.apache.kafka.common.requests.ProduceRequest.validateRecords; KIP-110.
    """
    return codec in NAMES and version >= PRODUCED_SINCE.get(codec, 0)


def decompress(codec: int, data: bytes, *, limit: int | None = None, old_lz4: bool = False) -> bytes:
    """Return the decompressed records of a batch.

    Args:
        codec: compression codec, a key of NAMES.
        data: compressed bytes.
        limit: maximum size of the result, in bytes; None for the default of ``records.limits``.
        old_lz4: True to ignore the header checksum of an lz4 frame, as in message sets of magic 0.

    Raises: DecodeError for invalid data or an unknown codec; LimitError if the result is larger than ``limit``.
    """
    if codec == NONE:
        return data
    if NATIVE is not None and data.__class__ is bytes and not old_lz4:
        most = limits.decompressed(len(data)) if limit is None else limit
        whole: bytes | None = NATIVE.decompress(codec, data, min(most, limits.FREE_DECOMPRESSED)) if most >= 0 else None
        if whole is not None:
            return whole
    return b"".join(decompressed_pieces(codec, data, limit=limit, old_lz4=old_lz4))


def decompressed_pieces(codec: int, data: bytes, *, limit: int | None = None, old_lz4: bool = False) -> Iterator[bytes]:
    """Yield the decompressed records of a batch in several parts, so that the caller can do other work between two
    parts.

    Data in gzip and in snappy-java's framing is yielded in small parts. Data in any other format is yielded as one part
    (see ``is_one_piece``). The arguments and errors are those of ``decompress``.
    """
    if codec == NONE:
        return iter((data,))
    if codec not in _DECOMPRESS:
        raise _error(f"unknown compression codec {codec}: expected {KNOWN}")
    if limit is None:
        limit = limits.decompressed(len(data))
    if codec == LZ4 and old_lz4:
        data = _with_correct_checksum(data)
    return _DECOMPRESS[codec](data, limit)


def is_one_piece(codec: int, data: bytes) -> bool:
    """Return whether ``decompressed_pieces`` yields all decompressed data at once."""
    return codec != GZIP and not (codec == SNAPPY and data.startswith(XERIAL_MAGIC))


def compress(codec: int, data: bytes, *, level: int | None = None, old_lz4: bool = False) -> bytes:
    """Return ``data`` in compressed form; the same input always results in the same bytes.

    Args:
        codec: compression codec, a key of NAMES.
        data: bytes to compress.
        level: compression level of gzip (1 to 9) or zstd (at most 22); None for the default. It is ignored for snappy
            and lz4.
        old_lz4: True for an lz4 header checksum that also covers the magic bytes, as in message sets of magic 0
            (KAFKA-3160).

    Raises: ValueError for an unknown codec.
    """
    if codec == NONE:
        return data
    if codec == GZIP:
        import gzip

        return gzip.compress(data, 9 if level is None else level, mtime=0)
    if codec == ZSTD:
        if NATIVE is not None and level is None and data.__class__ is bytes:
            frame: bytes | None = NATIVE.zstd_frame(data)
            if frame is not None:
                return frame
        import cramjam

        return bytes(cramjam.zstd.compress(data) if level is None else cramjam.zstd.compress(data, level))
    return b"".join(compressed_pieces(codec, data, old_lz4=old_lz4))


def compressed_pieces(codec: int, data: bytes, *, old_lz4: bool = False) -> Iterator[bytes]:
    """Compress ``data``, and yield the result in several parts, so that the caller can do other work between two parts.

    The same input always results in the same bytes. For gzip and zstd, these bytes differ from the result of
    ``compress``. The arguments and errors are those of ``compress``, without ``level``.
    """
    if codec == NONE:
        return iter((data,))
    if codec not in _COMPRESS:
        raise ValueError(f"unknown compression codec {codec}: expected {KNOWN}")
    if codec == LZ4 and old_lz4:
        return _lz4(data, LZ4_OLD_HEADER)
    return _COMPRESS[codec](data)


def _gunzip(data: bytes, limit: int) -> Iterator[bytes]:
    """Yield the decompressed content of all members of a gzip stream.

    Trailing bytes that are not a gzip member are ignored, as in Java's GZIPInputStream.
    """
    remaining = limit
    at = 0
    while not at or data.startswith(GZIP_MAGIC, at):
        inflater = zlib.decompressobj(wbits=31)
        while not inflater.eof:
            if at >= len(data):
                raise _error("the gzip stream is truncated", at)
            step = data[at : at + GZIP_STEP]
            try:
                piece = inflater.decompress(step, min(remaining + 1, GZIP_PIECE))
            except zlib.error as error:
                raise _error(f"invalid gzip data: {error}", at) from error
            if len(piece) > remaining:
                raise _too_much(limit)
            yield piece
            remaining -= len(piece)
            at += len(step) - len(inflater.unused_data) - len(inflater.unconsumed_tail)


def _unsnappy(data: bytes, limit: int) -> Iterator[bytes]:
    if not data.startswith(XERIAL_MAGIC):
        yield _unsnappy_block(data, limit, limit)
        return
    remaining = limit
    for at, block in _xerial_blocks(data):
        piece = _unsnappy_block(block, remaining, limit, at)
        yield piece
        remaining -= len(piece)


def _xerial_blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each block of a snappy-java stream.

    If streams are concatenated, the stream headers between blocks are skipped.
    """
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
            raise _truncated(f"a snappy block has {size} bytes, but only {len(data) - at} remain", at - 4)
        yield at, data[at : at + size]
        at += size


def _unsnappy_block(data: bytes, remaining: int, limit: int, at: int = 0) -> bytes:
    import cramjam

    try:
        claimed: int = cramjam.snappy.decompress_raw_len(data)
        if claimed > remaining:
            raise _too_much(limit, at)
        out = bytearray(claimed)
        cramjam.snappy.decompress_raw_into(data, out)
    except cramjam.DecompressionError as error:
        raise _error(f"invalid snappy data: {error}", at) from error
    return bytes(out)


def _unlz4(data: bytes, limit: int) -> Iterator[bytes]:
    if not data:
        raise _error("invalid lz4 data: no bytes")
    import cramjam

    yield _into_buffers("lz4", cramjam.lz4.decompress_into, data, 0, limit)


def _with_correct_checksum(data: bytes) -> bytes:
    """Return an lz4 frame whose header checksum is replaced by the correct one."""
    if len(data) < 7:
        return data
    end = 6 + (data[4] >> 3 & 1) * 8 + (data[4] & 1) * 4  # content size and dictionary id are optional
    return data[:end] + _lz4_checksum(data[4:end]) + data[end + 1 :]


def _lz4_checksum(header: bytes) -> bytes:
    """Return the header checksum of an lz4 frame: one byte of the xxHash-32 of the header.

    ``header``: the header that the checksum covers, with less than 16 bytes.

    Source: lz4_Frame_format.md, xxhash_spec.md.
    """
    assert len(header) < 16
    words = len(header) & ~3
    value = 0x165667B1 + len(header)
    for (word,) in struct.iter_unpack("<I", header[:words]):
        value = _rotated(value + word * 0xC2B2AE3D, 17) * 0x27D4EB2F
    for byte in header[words:]:
        value = _rotated(value + byte * 0x165667B1, 11) * 0x9E3779B1
    value &= 0xFFFF_FFFF
    value = (value ^ value >> 15) * 0x85EBCA77 & 0xFFFF_FFFF
    value = (value ^ value >> 13) * 0xC2B2AE3D & 0xFFFF_FFFF
    return bytes([(value ^ value >> 16) >> 8 & 0xFF])


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFF_FFFF
    return value << bits | value >> 32 - bits


def _unzstd(data: bytes, limit: int) -> Iterator[bytes]:
    import cramjam

    frames, claimed = _zstd_frames(data, limit)
    yield _into_buffers("zstd", cramjam.zstd.decompress_into, frames, claimed, limit)


def _zstd_frames(data: bytes, limit: int) -> tuple[bytes, int]:
    """Return zstd frames with smaller windows, and their total decompressed size in bytes.

    The size is 0 if a frame does not declare its size. Raises: LimitError if the declared sizes exceed ``limit``.

    zstd allocates the window that a frame header declares: up to 128 MiB, even for a frame of a few bytes. High
    compression levels declare windows that are larger than the output limit, although such a window is never needed.
    Therefore, a frame with such a window is not rejected, but its declared window is reduced. Source: RFC 8878,
    sections 3.1.1 and 3.1.2.

    Args:
        data: concatenated zstd frames.
        limit: maximum size of the decompressed data, in bytes.
    """
    frames = bytearray(data)
    total, complete = 0, True
    at = 0
    while len(data) - at >= 8:  # truncated last bytes are left to zstd's own error
        if data[at + 1 : at + 4] == ZSTD_SKIPPED and data[at] >> 4 == 5:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if not data.startswith(ZSTD_MAGIC, at):
            break
        descriptor = data[at + 4]
        at += 5
        single = descriptor >> 5 & 1  # a single-segment frame has no window byte
        if not single:
            frames[at] = _smaller_window(data[at], limit)
            at += 1
        at += (0, 1, 2, 4)[descriptor & 3]
        size = (single, 2, 4, 8)[descriptor >> 6]
        claimed = int.from_bytes(data[at : at + size], "little") + (256 if size == 2 else 0)
        total += claimed
        if total > limit:
            raise _too_much(limit, at)
        complete = complete and size > 0
        at = _after_blocks(data, at + size) + (descriptor & 4)  # a checksum of 4 bytes if bit 2 is set
    return bytes(frames), total if complete else 0


def _smaller_window(byte: int, limit: int) -> int:
    """Return a window descriptor of a zstd frame, reduced if its window is larger than needed.

    The reduced window is the smallest power of two that is neither below ``limit`` nor below the size of a block.

    Args:
        byte: window descriptor in the frame header.
        limit: maximum size of the decompressed data, in bytes.
    """
    window = (8 + (byte & 7)) << (byte >> 3) + 7
    enough = (max(limit, ZSTD_BLOCK) - 1).bit_length()
    return (enough - 10) << 3 if 1 << enough < window <= ZSTD_LARGEST_WINDOW else byte


def _after_blocks(data: bytes, at: int) -> int:
    while head := data[at : at + 3]:
        header = int.from_bytes(head, "little")
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)  # an RLE block has only one byte
        if header & 1:  # the last block
            break
    return at


def _into_buffers(name: str, into: Callable[[bytes, bytearray], Any], data: bytes, claimed: int, limit: int) -> bytes:
    """Decompress data of unknown size: enlarge the output buffer until the output fits or the limit is reached.

    Args:
        name: name of the codec, for errors.
        into: function that decompresses bytes into a buffer.
        data: compressed bytes.
        claimed: decompressed size that the data declares, in bytes; it may be wrong. 0 if the data declares no size.
        limit: maximum size of the result, in bytes.
    """
    import cramjam

    size = min(limit, claimed or max(4096, 4 * len(data), min(16 * len(data), LARGE_GUESS)))
    while True:
        out = bytearray(size)
        try:
            del out[into(data, out) :]
            return bytes(out)
        except cramjam.DecompressionError as error:
            if TOO_SMALL not in str(error):
                raise _error(f"invalid {name} data: {str(error).removeprefix('lz4: ')}") from error
            if size >= limit:
                raise _too_much(limit) from error
        size = min(limit, 4 * max(size, 1024))


def _gzip(data: bytes) -> Iterator[bytes]:
    deflater = zlib.compressobj(wbits=31)
    for at in range(0, len(data), GZIP_STEP):
        yield deflater.compress(data[at : at + GZIP_STEP])
    yield deflater.flush()


def _zstd(data: bytes) -> Iterator[bytes]:
    import cramjam

    compressor = cramjam.zstd.Compressor()
    for at in range(0, len(data), ZSTD_STEP):
        compressor.compress(data[at : at + ZSTD_STEP])
        yield bytes(compressor.flush())
    yield bytes(compressor.finish())


def _xerial(data: bytes) -> Iterator[bytes]:
    import cramjam

    yield XERIAL_HEADER
    for at in range(0, len(data), XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + XERIAL_BLOCK]))
        yield struct.pack(">i", len(block)) + block


LZ4_HEADER = LZ4_MAGIC + LZ4_FLAGS + _lz4_checksum(LZ4_FLAGS)
LZ4_OLD_HEADER = LZ4_MAGIC + LZ4_FLAGS + _lz4_checksum(LZ4_MAGIC + LZ4_FLAGS)


def _lz4(data: bytes, header: bytes = LZ4_HEADER) -> Iterator[bytes]:
    """Yield ``data`` as one lz4 frame of independent blocks.

    cramjam cannot be used for this: the blocks of its frames depend on each other.
    """
    import cramjam

    yield header
    for at in range(0, len(data), LZ4_BLOCK):
        plain = data[at : at + LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            yield struct.pack("<I", len(block)) + block
        else:
            yield struct.pack("<I", len(plain) | LZ4_STORED) + plain
    yield bytes(4)


def _error(reason: str, at: int = 0) -> DecodeError:
    return DecodeError(reason, message="RecordBatch", offset=at)


def _truncated(reason: str, at: int) -> Truncated:
    return Truncated(reason, message="RecordBatch", offset=at)


def _too_much(limit: int, at: int = 0) -> LimitError:
    return LimitError(f"decompressed data exceeds the limit of {limit} bytes", message="RecordBatch", offset=at)


_DECOMPRESS: Mapping[int, Callable[[bytes, int], Iterator[bytes]]] = {
    GZIP: _gunzip,
    SNAPPY: _unsnappy,
    LZ4: _unlz4,
    ZSTD: _unzstd,
}
_COMPRESS: Mapping[int, Callable[[bytes], Iterator[bytes]]] = {
    GZIP: _gzip,
    SNAPPY: _xerial,
    LZ4: _lz4,
    ZSTD: _zstd,
}
