from __future__ import annotations

import pytest

from kwire.errors import LimitError
from kwire.records import limits
from kwire.records.compression import SNAPPY, ZSTD, compress, decompress

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("size", "most"),
    [(0, 16 * MIB), (1, 16 * MIB), (167_772, 16 * MIB), (167_773, 16_777_300), (MIB, 100 * MIB), (2 * MIB, 128 * MIB)],
)
def test_limit_of_decompressed_bytes(size: int, most: int) -> None:
    assert limits.decompressed(size) == most


def test_the_limit_grows_with_the_input() -> None:
    plain = bytes(limits.FREE_DECOMPRESSED + 1)
    with pytest.raises(LimitError):
        decompress(ZSTD, compress(ZSTD, plain))  # a thousandth of it
    assert decompress(SNAPPY, compress(SNAPPY, plain)) == plain  # a twentieth
