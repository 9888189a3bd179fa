import pytest

from kwire.engines.chosen import available
from kwire.records.checksum import crc32c_with

ENGINES = [engine for engine in available() if engine != "reference"]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_check_value_of_crc32c(engine: str) -> None:
    crc32c = crc32c_with(engine)
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"..123456789", 2) == 0xE3069283
    assert crc32c(b"56789", 0, crc32c(b"1234")) == 0xE3069283
    assert crc32c(b"") == 0
