from __future__ import annotations

from collections.abc import Generator

import pytest

from kwire import buffers
from kwire.buffers import join_in_steps, reserve


def run(steps: Generator[None, None, bytes]) -> tuple[int, bytes]:
    """Return the number of yields and the result."""
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return number, end.value
        number += 1


@pytest.mark.parametrize(
    ("parts", "yields"),
    [
        ([], 0),
        ([b"abcd"], 0),
        ([b"abcdefghi"], 0),
        ([memoryview(b"abcdefghi")], 2),
        ([b"ab", b"", b"cd", b"e", b"fghijklmnopq", b"r"], 4),
    ],
    ids=["nothing", "one step", "bytes", "view", "parts"],
)
def test_parts_are_joined_in_steps(monkeypatch: pytest.MonkeyPatch, parts: list[bytes], yields: int) -> None:
    monkeypatch.setattr(buffers, "STEP", 4)
    assert run(join_in_steps(parts)) == (yields, b"".join(parts))


def test_one_byte_string_is_not_copied() -> None:
    data = bytes(2 * buffers.STEP)
    assert run(join_in_steps([data]))[1] is data


def test_reserved_buffer_is_written_in_place() -> None:
    buffer = reserve(1_000)
    for at in range(0, 1_000, 100):
        assert buffer.write(bytes([at // 100]) * 100) == 100
    content = buffer.getvalue()
    assert content == b"".join(bytes([number]) * 100 for number in range(10))
    assert buffer.getvalue() is content
