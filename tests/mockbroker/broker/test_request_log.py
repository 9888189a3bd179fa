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


def test_request_has_its_time() -> None:
    log = RequestLog(100.0)
    received = call()
    log.record(received, 101.5)
    (request,) = log.select("Heartbeat")
    assert (request.time_ms, request.api, request.version, request.client_id) == (1500, "Heartbeat", 4, "c")
    assert (request.node, request.host) == (2, "127.0.0.1")
    assert request.body == received.request
    assert log.select("Fetch") == []
    log.restart(200.0)
    assert log.select() == []
    log.record(received, 200.0)
    assert log.select()[0].time_ms == 0


LIMITS = [  # size of each request, number of kept requests
    (60, REQUESTS_KEPT),
    (BYTES_KEPT // 4, 4),
    (BYTES_KEPT // 4 + 1, 3),
    (BYTES_KEPT + 1, 0),
]


@pytest.mark.parametrize(("size", "kept"), LIMITS)
def test_oldest_requests_are_removed_first(size: int, kept: int) -> None:
    log = RequestLog(0.0)
    received = call(FRAME + bytes(size - len(FRAME)))  # trailing bytes are ignored
    for number in range(REQUESTS_KEPT + 5):
        log.record(received, float(number))
    assert [request.time_ms for request in log.select()] == [
        n * 1000 for n in range(REQUESTS_KEPT + 5 - kept, REQUESTS_KEPT + 5)
    ]
