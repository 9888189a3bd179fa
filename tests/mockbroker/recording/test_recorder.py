from __future__ import annotations

import pytest

from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Exchange, Moment
from mockbroker.recording import recorder as module
from mockbroker.recording.recorder import Closed, Event, EventRecorder, Frame, Opened

CONNECTION = Connection(3, Address("::1", 5), 0, Address("real", 9), Address("127.0.0.1", 7))
AT = Moment(1.0, 100.5)
US = 100_500_000


def exchange(request: bytes = b"request", response: bytes | None = b"response") -> Exchange:
    return Exchange(CONNECTION, 12, 4, 1, AT, request, request, AT, response, response)


@pytest.fixture
def wakes() -> list[None]:
    return []


@pytest.fixture
def recorder(wakes: list[None]) -> EventRecorder:
    made = EventRecorder(lambda: wakes.append(None))
    made.opened(CONNECTION, AT)
    return made


def test_events_are_what_the_client_sent_and_received(recorder: EventRecorder, wakes: list[None]) -> None:
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
    assert len(wakes) == 1


def test_a_response_that_the_client_does_not_get_is_not_recorded(recorder: EventRecorder) -> None:
    recorder.taken()
    recorder.answered(exchange(response=None))
    assert recorder.taken() == []


def test_memory_of_unwritten_frames_is_bounded(recorder: EventRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 1_000)
    for _ in range(10):
        recorder.requested(exchange(bytes(300)))
    recorder.closed(CONNECTION, AT)
    assert [type(event) for event in recorder.taken()] == [Opened, Frame, Frame, Frame, Closed]
    assert recorder.dropped == 1
