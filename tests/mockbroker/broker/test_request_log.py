from __future__ import annotations

import pytest

from kwire import encode_request
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.broker.request_log import BYTES_KEPT, REQUESTS_KEPT, RequestLog

HEARTBEAT = 12
REQUEST = HeartbeatRequest(group_id="g", member_id="m")
FRAME = encode_request(REQUEST, 4, correlation_id=7, client_id="c")


def call(frame: bytes = FRAME) -> Call[HeartbeatRequest]:
    return Call(Ticket(1, 7, HEARTBEAT, 4), Client(2, "c", "/127.0.0.1"), REQUEST, frame)


def test_a_request_is_told_with_its_time() -> None:
    log = RequestLog(100.0)
    asked = call()
    log.record(asked, 101.5)
    (told,) = log.select("Heartbeat")
    assert (told.time_ms, told.api, told.version, told.client_id) == (1500, "Heartbeat", 4, "c")
    assert (told.node, told.host) == (2, "127.0.0.1")
    assert told.body == asked.request
    assert log.select("Fetch") == []
    log.restart(200.0)
    assert log.select() == []
    log.record(asked, 200.0)
    assert log.select()[0].time_ms == 0


LIMITS = [  # bytes of each, how many are kept
    (60, REQUESTS_KEPT),
    (BYTES_KEPT // 4, 4),
    (BYTES_KEPT // 4 + 1, 3),
    (BYTES_KEPT + 1, 0),
]


@pytest.mark.parametrize(("size", "kept"), LIMITS)
def test_the_oldest_go_first(size: int, kept: int) -> None:
    log = RequestLog(0.0)
    asked = call(FRAME + bytes(size - len(FRAME)))  # what stands behind the body is ignored
    for number in range(REQUESTS_KEPT + 5):
        log.record(asked, float(number))
    assert [told.time_ms for told in log.select()] == [
        n * 1000 for n in range(REQUESTS_KEPT + 5 - kept, REQUESTS_KEPT + 5)
    ]
