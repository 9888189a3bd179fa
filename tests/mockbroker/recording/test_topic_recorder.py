from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.frames import pack
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.observer import Connection, Exchange, Moment
from mockbroker.recording import recorder as recorder_module
from mockbroker.recording import topic_recorder as module
from mockbroker.recording.recorder import Closed, Opened
from mockbroker.recording.topic_recorder import OVERHEAD, Collected, Frames, TopicEvent, TopicRecorder

CONNECTION = Connection(3, Address("::1", 5), 0, Address("real", 9), Address("127.0.0.1", 7))
AT = Moment(1.0, 100.5)
US = 100_500_000


def exchange(request: bytes = b"request", response: bytes | None = b"response") -> Exchange:
    return Exchange(CONNECTION, 12, 4, 1, AT, request, request, AT, response, response)


class Recorded:
    """A recorder, and the data that it passes on."""

    def __init__(self) -> None:
        self.wakes = 0
        self.put: list[Collected] = []
        self.recorder = TopicRecorder(self._wake, self.put.append)
        self.recorder.opened(CONNECTION, AT)

    def _wake(self) -> None:
        self.wakes += 1

    def pass_bytes(self, data: bytes, *, ends_frame: bool = True) -> None:
        self.recorder.passed(CONNECTION, True, data, AT, ends_frame=ends_frame)

    def take(self) -> Sequence[TopicEvent]:
        self.recorder.flush()
        return [event for each in self.put for event in each.events]


def frames_of(events: Sequence[TopicEvent]) -> list[bytes]:
    return [b"".join(event.data) for event in events if isinstance(event, Frames)]


def test_events_are_what_the_client_sent_and_received() -> None:
    recorded = Recorded()
    recorded.recorder.requested(exchange())
    recorded.recorder.answered(exchange())
    recorded.recorder.answered(exchange(response=None))
    recorded.pass_bytes(pack(b"forwarded"))
    recorded.recorder.closed(CONNECTION, AT)
    prefixes = b"\0\0\0\7", b"\0\0\0\x08"
    assert recorded.take() == [
        Opened(3, "[::1]:5", "127.0.0.1:7", US),
        Frames(3, True, (prefixes[0], b"request"), US, (12, 4)),
        Frames(3, False, (prefixes[1], b"response"), US, (12, 4)),
        Frames(3, True, [pack(b"forwarded")], US, None),
        Closed(3, US),
    ]
    assert recorded.wakes == 1


def test_frames_are_passed_on_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 10_000)
    recorded = Recorded()
    for _ in range(3):
        recorded.pass_bytes(pack(bytes(6_000)))
    assert frames_of(recorded.put[0].events) == [pack(bytes(6_000))] * 2
    assert len(recorded.put) == 1


def test_incomplete_frames_wait_for_their_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_INCOMPLETE", 1_000)
    recorded = Recorded()
    recorded.pass_bytes(pack(bytes(500))[:300], ends_frame=False)
    assert frames_of(recorded.take()) == []
    recorded.pass_bytes(pack(bytes(500))[300:])
    assert frames_of(recorded.take()) == [pack(bytes(500))]
    recorded.pass_bytes(pack(bytes(5_000))[:2_000], ends_frame=False)
    assert isinstance(recorded.take()[-1], Closed)
    assert recorded.recorder.dropped == 1


def test_memory_of_unwritten_frames_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that were passed on count until they are released."""
    monkeypatch.setattr(recorder_module, "MAX_WAITING", 3_000 + 4 * OVERHEAD)
    recorded = Recorded()
    for _ in range(3):
        recorded.pass_bytes(pack(bytes(900)))
    recorded.recorder.flush()
    assert recorded.recorder.waiting == 3 * len(pack(bytes(900))) + 4 * OVERHEAD
    recorded.pass_bytes(pack(bytes(900)))
    assert recorded.recorder.dropped == 1
    assert isinstance(recorded.take()[-1], Closed)
    for each in recorded.put:
        recorded.recorder.release(each)
    assert recorded.recorder.waiting == 0


def test_connections_that_open_and_close_do_not_take_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit, new connections are not recorded."""
    monkeypatch.setattr(recorder_module, "MAX_WAITING", 10 * OVERHEAD)
    recorded = Recorded()
    for number in range(100):
        connection = Connection(number, Address("::1", 5), 0, Address("real", 9), Address("127.0.0.1", 7))
        recorded.recorder.opened(connection, AT)
        recorded.recorder.passed(connection, True, pack(b"x"), AT, ends_frame=True)
        recorded.recorder.closed(connection, AT)
    assert recorded.recorder.waiting <= 13 * OVERHEAD
    assert recorded.recorder.dropped > 90
    assert len(recorded.take()) <= 13
