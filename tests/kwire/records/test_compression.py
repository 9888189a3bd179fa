from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from kwire.errors import DecodeError, LimitError
from kwire.records import compression
from kwire.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("data", [b"", b"x", bytes(100_000)])
def test_round_trip(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


def test_the_same_bytes_each_time() -> None:
    assert compress(GZIP, b"data") == compress(GZIP, b"data")
    assert compress(GZIP, b"data")[4:8] == bytes(4)  # no time in it


@pytest.mark.parametrize(("codec", "name"), [(SNAPPY, "snappy"), (LZ4, "lz4"), (ZSTD, "zstd"), (5, "5"), (7, "7")])
def test_not_supported_yet(codec: int, name: str) -> None:
    with pytest.raises(DecodeError, match=f"compression {name} is not supported yet"):
        decompress(codec, b"")
    with pytest.raises(ValueError, match=f"compression {name} is not supported yet"):
        compress(codec, b"")


REFUSED = [
    (b"", "the gzip stream ends too early"),
    (b"no gzip at all", "not gzip: "),
    (gzip.compress(b"data")[:-1], "the gzip stream ends too early"),
    (gzip.compress(b"data")[:-8] + bytes(8), "not gzip: "),
    (zlib.compress(b"data"), "not gzip: "),
]


@pytest.mark.parametrize(("data", "text"), REFUSED, ids=range(len(REFUSED)))
def test_damaged(data: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decompress(GZIP, data)


def test_a_bomb_is_bounded() -> None:
    bomb = gzip.compress(bytes(200_000_000), compresslevel=1)
    limit = max(compression.MAX_DECOMPRESSED, compression.MAX_RATIO * len(bomb))
    tracemalloc.start()
    with pytest.raises(LimitError, match=f"more than {limit} bytes after decompression"):
        decompress(GZIP, bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * limit


def test_the_limit_itself_is_accepted() -> None:
    data = gzip.compress(bytes(1000))
    assert decompress(GZIP, data, limit=1000) == bytes(1000)
    with pytest.raises(LimitError, match="more than 999 bytes"):
        decompress(GZIP, data, limit=999)
