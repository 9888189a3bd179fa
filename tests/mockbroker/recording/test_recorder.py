from __future__ import annotations

import pytest

from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Exchange, Moment
from mockbroker.recording import recorder as module
from mockbroker.recording.recorder import Bytes, Closed, Event, Frame, Opened, Recorder

CONNECTION = Connection(3, Address("::1", 5), 0, Address("real", 9), Address("127.0.0.1", 7))
AT = Moment(1.0, 100.5)
US = 100_500_000


def exchange(request: bytes = b"request", response: bytes | None = b"response") -> Exchange:
    return Exchange(CONNECTION, 12, 4, 1, AT, request, request, AT, response, response)


@pytest.fixture
def wakes() -> list[int]:
    return []


@pytest.fixture
def recorder(wakes: list[int]) -> Recorder:
    made = Recorder(lambda has_many: wakes.append(2 if has_many else 1))
    made.opened(CONNECTION, AT)
    return made


def test_events_are_what_the_client_sent_and_received(recorder: Recorder, wakes: list[int]) -> None:
    recorder.requested(exchange())
    recorder.answered(exchange())
    recorder.closed(CONNECTION, AT)
    expected: list[Event] = [
        Opened(3, "[::1]:5", "127.0.0.1:7", US),
        Frame(3, True, b"request", US, 12, 4),
        Frame(3, False, b"response", US, 12, 4),
        Closed(3, US),
    ]
    assert recorder.taken() == expected
    assert recorder.taken() == []
    assert wakes == [1]


def test_a_response_that_the_client_does_not_get_is_not_recorded(recorder: Recorder) -> None:
    recorder.taken()
    recorder.answered(exchange(response=None))
    assert recorder.taken() == []


def test_memory_of_unwritten_frames_is_bounded(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1_000)
    for _ in range(10):
        recorder.requested(exchange(bytes(300)))
    recorder.closed(CONNECTION, AT)
    assert [type(event) for event in recorder.taken()] == [Opened, Frame, Frame, Closed]
    assert recorder.dropped == 1


def test_bytes_that_pass_unchanged_are_recorded_as_they_are(wakes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY", 1_000)
    recorder = Recorder(lambda has_many: wakes.append(2 if has_many else 1), gets_bytes=True)
    recorder.opened(CONNECTION, AT)
    recorder.passed(CONNECTION, True, b"x" * 900, AT, ends_frame=False)
    recorder.passed(CONNECTION, False, b"z", AT, ends_frame=True)
    assert wakes == [1, 2]
    recorder.passed(CONNECTION, True, b"y", AT, ends_frame=True)
    assert wakes == [1, 2]
    assert recorder.taken()[1:] == [
        Bytes(3, True, b"x" * 900, US, False),
        Bytes(3, False, b"z", US, True),
        Bytes(3, True, b"y", US, True),
    ]
