import struct
from unittest.mock import patch
from uuid import UUID

import pytest

from kwire.engines import runtime
from kwire.engines.runtime import (
    COUNTS,
    SHORT,
    TABLE_SIZE,
    WARM,
    Packers,
    Refused,
    Unpackers,
    uuid,
    uuid_bytes,
    uuids,
    uvarint,
    varint,
)
from kwire.limits import MAX_VARINT

NUMBERS = [0, 1, 127, 128, 300, 16383, 16384, 2**21, 2**28 - 1, 2**28, MAX_VARINT]


@pytest.mark.parametrize("number", NUMBERS)
def test_varints(number: int) -> None:
    data = varint(number)
    assert data[0] == number if number < 128 else uvarint(data, 1, data[0]) == (number, len(data))


def test_a_varint_has_limits() -> None:
    for data in (b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\xff\x01"):
        with pytest.raises(Refused):
            uvarint(data, 1, data[0])
    with pytest.raises(Refused):
        varint(MAX_VARINT + 1)


def test_counts_are_varints_of_one_more() -> None:
    assert [varint(n + 1) for n in range(SHORT)] == COUNTS


def test_unpackers_read_a_text_and_the_fields_after_it() -> None:
    assert Unpackers("s", "hB", 1, False)[4](b"..abc\x01\x02\x03", 2) == (b"abc", 258, 3)
    assert Unpackers("s", "B", 1, True)[0](b"\x07", 0) == (b"", 7)
    assert Unpackers("i", "B", 0, True)[-5](b"\x07", 0) == (7,)
    assert Unpackers("16s", "", 1, False)[3](bytes(32), 0) == (bytes(32),)
    for null in (Unpackers("s", "B", 1, False), Unpackers("i", "B", 1, False)):
        with pytest.raises(Refused):
            null[0]


def test_tables_stop_growing() -> None:
    unpackers = Unpackers("s", "B", 1, True)
    packers = Packers("h", "*i")
    for n in range(2 * TABLE_SIZE):
        assert unpackers[n]
        for _ in range(WARM):
            assert packers[n]
    assert len(unpackers) == len(packers) == TABLE_SIZE
    assert len(packers._seen) <= TABLE_SIZE
    with pytest.raises(struct.error):
        unpackers[MAX_VARINT](b"abc", 0)


def test_full_table_is_cleared_after_many_misses() -> None:
    unpackers, packers = Unpackers("s", "B", 1, True), Packers("h", "*i")
    for n in range(TABLE_SIZE):
        assert unpackers[n + 1]
        for _ in range(WARM):
            assert packers[n]
    with patch.object(runtime, "FORGET", 100):
        for table in (unpackers, packers):
            for _ in range(101 + WARM):
                assert table[TABLE_SIZE + 1]
            assert list(table) == [TABLE_SIZE + 1]


@pytest.mark.parametrize("first", [0, 1, 126, 127, 128, 20_000])
@pytest.mark.parametrize("second", [0, 126, 127])
def test_packers_write_counts_of_any_length(first: int, second: int) -> None:
    a, b = list(range(first)), list(range(second))
    packers = Packers("h16s", "*i", "q", "*h", "x")
    written = packers[first, second](7, bytes(16), a, 8, b)
    for _ in range(WARM):
        assert packers[first, second](7, bytes(16), a, 8, tuple(b)) == written
    assert len(packers) == 1
    ours = struct.pack(f">{first}i", *a), struct.pack(f">{second}h", *b)
    assert (
        written
        == b"\0\7"
        + bytes(16)
        + varint(first + 1)
        + ours[0]
        + struct.pack(">q", 8)
        + varint(second + 1)
        + ours[1]
        + b"\0"
    )


def test_uuids() -> None:
    for value in (UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)):
        made = uuid(value.bytes)
        assert (made, hash(made), str(made), made.is_safe) == (value, hash(value), str(value), value.is_safe)
        assert uuid_bytes(made) == value.bytes
    assert uuids(bytes(16) + UUID(int=5).bytes) == [UUID(int=0), UUID(int=5)]
    with pytest.raises(Refused):
        uuid_bytes("no")  # type: ignore[arg-type]
