import struct
from uuid import UUID

import pytest

from kwire.engines.runtime import (
    COUNTS,
    SHORT,
    TABLE_SIZE,
    Packers,
    Refused,
    Unpackers,
    long_slice,
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


def test_unpackers_read_an_array_and_the_fields_after_it() -> None:
    assert Unpackers("h", "hB", 1, False)[3](b"..\0\5\0\6\1\2\3", 2) == (5, 6, 258, 3)
    assert Unpackers("i", "B", 1, True)[0](b"\x07", 0) == (7,)
    assert Unpackers("i", "B", 0, True)[-5](b"\x07", 0) == (7,)
    assert Unpackers("16s", "", 1, False)[3](bytes(32), 0) == (bytes(32),)
    with pytest.raises(Refused):
        Unpackers("i", "B", 1, False)[0]


def test_tables_stop_growing() -> None:
    unpackers, packers = Unpackers("i", "B", 1, True), Packers("i", True)
    for n in range(2 * TABLE_SIZE):
        assert unpackers[n]
        assert packers[n]
    assert len(unpackers) == len(packers) == TABLE_SIZE
    with pytest.raises(struct.error):
        unpackers[MAX_VARINT](b"abc", 0)


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 20_000])
def test_packers_write_arrays_of_any_length(length: int) -> None:
    numbers = range(length)
    elements = struct.pack(f">{length}i", *numbers)
    assert Packers("i", compact=True)[length](*numbers) == varint(length + 1) + elements
    assert Packers("i", compact=False)[length](*numbers) == struct.pack(">i", length) + elements


@pytest.mark.parametrize("length", [127, 128, 20_000])
def test_long_slices(length: int) -> None:
    data = varint(length + 1) + bytes(length)
    assert long_slice(data + b"x", 1, data[0], length, null=False) == (bytes(length), len(data))
    with pytest.raises(Refused):
        long_slice(data, 1, data[0], length - 1, null=False)


def test_null_in_a_varint_of_two_bytes() -> None:
    assert long_slice(b"\x80\0", 1, 128, 5, null=True) == (None, 2)
    with pytest.raises(Refused):
        long_slice(b"\x80\0", 1, 128, 5, null=False)


def test_uuids() -> None:
    for value in (UUID(int=0), UUID(int=1), UUID(int=2**128 - 1)):
        made = uuid(value.bytes)
        assert (made, hash(made), str(made), made.is_safe) == (value, hash(value), str(value), value.is_safe)
        assert uuid_bytes(made) == value.bytes
    assert uuids(bytes(16) + UUID(int=5).bytes) == [UUID(int=0), UUID(int=5)]
    with pytest.raises(Refused):
        uuid_bytes("no")  # type: ignore[arg-type]
