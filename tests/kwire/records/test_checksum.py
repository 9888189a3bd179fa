import google_crc32c
import pytest

from kwire.engines.chosen import available
from kwire.records import checksum
from kwire.records.checksum import crc32c_with

ENGINES = [engine for engine in available() if engine != "reference"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_check_value_of_crc32c(engine: str) -> None:
    crc32c = crc32c_with(engine)
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"..123456789", 2) == 0xE3069283
    assert crc32c(b"56789", 0, crc32c(b"1234")) == 0xE3069283
    assert crc32c(b"") == 0


def test_large_data_is_copied_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[bytes] = []

    def extend(before: int, data: bytes) -> int:
        pieces.append(data)
        return google_crc32c.extend(before, data)

    monkeypatch.setattr(checksum, "_extend", extend)
    data = b".." + bytes((256 << 10) + 1)
    assert crc32c_with("compiled")(data, 2) == google_crc32c.value(data[2:])
    assert [len(piece) for piece in pieces] == [256 << 10, 1]
    monkeypatch.setattr(checksum, "PIECE", 4)
    pieces.clear()
    assert crc32c_with("compiled")(b"..123456789", 2) == 0xE3069283
    assert pieces == [b"1234", b"5678", b"9"]
