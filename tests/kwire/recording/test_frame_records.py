from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from kwire.engines.chosen import native_package
from kwire.frames import pack
from kwire.recording import frame_records as module
from kwire.recording.frame_records import HEAD, LARGE, UNKNOWN, ConnectionRecords, FrameRecords
from kwire.records import Record
from kwire.records.record import read_records

TIME_US = 1_700_000_000_500_250
TIME_MS = TIME_US // 1_000
NATIVE: Any = native_package()
FORMS = [
    pytest.param(FrameRecords, id="python"),
    pytest.param(
        getattr(NATIVE, "FrameRecords", None),
        id="native",
        marks=pytest.mark.skipif(NATIVE is None, reason="kwire-native is not installed, or not the default engine"),
    ),
]


def request(number: int, key: int = 12, version: int = 4, body: bytes = b"") -> bytes:
    return HEAD.pack(key, version, number) + body


def response(number: int, body: bytes = b"") -> bytes:
    return number.to_bytes(4, "big") + body


def decoded(buffers: Sequence[bytes], count: int) -> list[Record]:
    data = b"".join(buffers)
    records = [record for some in read_records(data, 0, count, 0, TIME_MS, None, Record) for record in some]
    assert len(records) == count
    return records


def divided(data: bytes, random: Random) -> list[bytes]:
    """Return the same bytes in several buffers."""
    cuts = sorted(random.choices(range(len(data) + 1), k=random.randrange(4)))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if begin < end]


def test_a_record_has_the_fields_of_a_frame_log_as_headers() -> None:
    records = ConnectionRecords("run-1", "127.0.0.1:1", "127.0.0.1:7")
    (record,) = decoded(*records.records(True, [pack(request(9))], TIME_US, 3, 0))
    assert (record.key, record.value, record.timestamp) == (b"run-1", request(9), TIME_MS + 3)
    assert record.headers == (
        ("time_us", b"1700000000500250"),
        ("connection", b"run-1"),
        ("client", b"127.0.0.1:1"),
        ("broker", b"127.0.0.1:7"),
        ("direction", b"request"),
        ("api_key", b"12"),
        ("api_version", b"4"),
    )
    (record,) = decoded(*records.records(False, [pack(response(9))], TIME_US, 0, 1))
    assert dict(record.headers)["direction"] == b"response"


@pytest.mark.parametrize("form", FORMS)
def test_a_response_has_the_api_of_its_request(form: Any) -> None:
    """A request without a response, such as Produce with acks=0, is left out."""
    frames = form(10)
    for number, key in enumerate((12, 0, 3)):
        assert frames.api(True, request(number, key)) == (key, 4)
    assert frames.api(False, response(7)) == UNKNOWN
    assert frames.api(False, response(0)) == (12, 4)
    assert frames.api(False, response(2)) == (3, 4)
    assert frames.api(False, response(1)) == UNKNOWN
    assert frames.api(False, b"\0") == UNKNOWN


@pytest.mark.parametrize("form", FORMS)
def test_requests_without_a_response_have_bounded_memory(form: Any) -> None:
    frames = form(2)
    for number in range(3):
        frames.api(True, request(number))
    assert [frames.api(False, response(number)) for number in range(3)] == [UNKNOWN, (12, 4), (12, 4)]


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, 1_000_000], ids=["joined", "in parts", "1 MB"])
def test_a_large_frame_is_not_copied(size: int) -> None:
    records, frame = ConnectionRecords("run-1", "c", "b"), request(1, body=bytes(size - HEAD.size))
    data = [pack(frame)[:5], pack(frame)[5:9], pack(frame)[9:]]
    buffers, count = records.records(True, data, TIME_US, 0, 0)
    (record,) = decoded(buffers, count)
    assert (record.value, dict(record.headers)["api_key"]) == (frame, b"12")
    assert any(buffer is data[2] for buffer in buffers) == (size >= LARGE)
    (answered,) = decoded(*records.records(False, [pack(response(1))], TIME_US, 0, 0))
    assert dict(answered.headers)["api_key"] == b"12"


def test_a_known_api_is_not_searched() -> None:
    records = ConnectionRecords("run-1", "c", "b")
    (record,) = decoded(*records.records(False, [pack(b""), b""], TIME_US, 0, 0, (17, 1)))
    assert (record.value, dict(record.headers)["api_key"]) == (b"", b"17")


@pytest.mark.skipif(NATIVE is None, reason="kwire-native is not installed, or not the default engine")
@pytest.mark.parametrize("seed", range(30))
def test_the_native_records_are_those_of_python(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    native = ConnectionRecords("run-1", "127.0.0.1:1", "[::1]:7")
    monkeypatch.setattr(module, "native_package", lambda: None)
    python = ConnectionRecords("run-1", "127.0.0.1:1", "[::1]:7")
    first = random.choice([0, 60, 8_190, 2_000_000])
    for _ in range(30):
        to_broker = random.random() < 0.5
        frames = []
        for _ in range(random.randrange(1, 5)):
            number, body = random.randrange(20), random.randbytes(random.choice([0, 1, 50, 130, 9_000]))
            key = random.choice([-1, 0, 3, 12, 32_767])
            frame = request(number, key, random.randrange(20), body) if to_broker else response(number, body)
            frames.append(pack(frame[: random.choice([2, 5, len(frame)])] if random.random() < 0.1 else frame))
        data = divided(b"".join(frames), random)
        time_us, since = TIME_US + random.randrange(10**9), random.choice([-5, 0, 70, 10**6])
        made = [each.records(to_broker, data, time_us, since, first) for each in (native, python)]
        assert b"".join(made[0][0]) == b"".join(made[1][0])
        assert made[0][1] == made[1][1] == len(frames)
        first += len(frames)
