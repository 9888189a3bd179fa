from __future__ import annotations

import pytest

from kwire.engines.varints import SHORT, uvarint

WRITTEN = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (8191, "ff3f"),
    (8192, "8040"),
    (16383, "ff7f"),
    (16384, "808001"),
    (2**31 - 1, "ffffffff07"),
    (2**64 - 1, "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "data"), WRITTEN)
def test_uvarint(value: int, data: str) -> None:
    assert uvarint(value).hex() == data


def test_varint_table_has_the_right_entries() -> None:
    assert len(SHORT) == 8192
    for value, data in enumerate(SHORT):
        assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data)) == value
        assert [byte > 0x7F for byte in data] == [True] * (len(data) - 1) + [False]
        assert data[-1] or not value, "no longer than needed"


def test_nothing_is_below_zero() -> None:
    with pytest.raises(ValueError, match="-1 is negative"):
        uvarint(-1)
