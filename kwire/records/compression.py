"""Compression of the records of a batch. Decompression is bounded."""

from __future__ import annotations

import gzip
import zlib

from kwire.errors import DecodeError, LimitError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
MAX_DECOMPRESSED = 16 * 1024 * 1024  # bytes; or MAX_RATIO times the input, whichever is larger
MAX_RATIO = 100


def decompress(codec: int, data: bytes, *, limit: int | None = None) -> bytes:
    """The records of a batch. ``limit``: bytes they may take. Raises: DecodeError, LimitError."""
    if codec == NONE:
        return data
    if codec != GZIP:
        raise DecodeError(f"compression {NAMES.get(codec, codec)} is not supported yet", message="RecordBatch")
    if limit is None:
        limit = max(MAX_DECOMPRESSED, MAX_RATIO * len(data))
    inflater = zlib.decompressobj(wbits=31)
    try:
        out = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise DecodeError(f"not gzip: {error}", message="RecordBatch") from error
    if len(out) > limit:
        raise LimitError(f"more than {limit} bytes after decompression", message="RecordBatch")
    if not inflater.eof:
        raise DecodeError("the gzip stream ends too early", message="RecordBatch")
    return out


def compress(codec: int, data: bytes) -> bytes:
    """``data`` compressed; the same input gives the same bytes. Raises: ValueError for other codecs than gzip."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    raise ValueError(f"compression {NAMES.get(codec, codec)} is not supported yet")
