from __future__ import annotations

import pytest

from kwire import encode_request, encode_response
from kwire.frames import pack
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from mockbroker.base.effects import Call, Client, Ticket
from mockbroker.broker.request_log import BYTES_KEPT, LARGEST_RESPONSE, REQUESTS_KEPT, RequestLog

HEARTBEAT, FIND_COORDINATOR = 12, 10
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
    log.record(call(), 200.0)
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
    frame = FRAME + bytes(size - len(FRAME))  # trailing bytes are ignored
    for number in range(REQUESTS_KEPT + 5):
        log.record(call(frame), float(number))
    assert [request.time_ms for request in log.select()] == [
        n * 1000 for n in range(REQUESTS_KEPT + 5 - kept, REQUESTS_KEPT + 5)
    ]


def response(size: int = 0) -> bytes:
    """Return a response frame of at least ``size`` bytes. Its trailing bytes are ignored."""
    frame = encode_response(HeartbeatResponse(error_code=27), 4, correlation_id=7)
    return pack(frame + bytes(max(0, size - len(frame) - 4)))


def test_response_has_its_error_code_and_latency() -> None:
    log = RequestLog(100.0)
    answered, pending = call(), call()
    log.record(answered, 101.0)
    log.record(pending, 101.2)
    log.now = 101.5
    log.record_response(answered.ticket, response())
    first, second = log.select()
    assert (first.response, first.error_code, first.latency_ms) == (HeartbeatResponse(error_code=27), 27, 500)
    assert (second.response, second.error_code, second.latency_ms) == (None, None, None)


@pytest.mark.parametrize(("version", "expected"), [(3, 0), (4, None)])
def test_error_code_is_absent_in_versions_without_the_field(version: int, expected: int | None) -> None:
    log, request = RequestLog(0.0), FindCoordinatorRequest()
    ticket = Ticket(1, 7, FIND_COORDINATOR, version)
    log.record(
        Call(ticket, Client(2, "c", "/127.0.0.1"), request, encode_request(request, version, correlation_id=7)), 0.0
    )
    log.record_response(ticket, pack(encode_response(FindCoordinatorResponse(), version, correlation_id=7)))
    assert log.select()[0].error_code == expected


def test_large_response_is_not_kept_but_its_latency() -> None:
    log = RequestLog(0.0)
    for size in (LARGEST_RESPONSE, LARGEST_RESPONSE + 1):
        received = call()
        log.record(received, 0.0)
        log.record_response(received.ticket, response(size))
    assert [(each.response is None, each.latency_ms) for each in log.select()] == [(False, 0), (True, 0)]


def test_oldest_responses_are_dropped_first() -> None:
    log = RequestLog(0.0)
    number = BYTES_KEPT // LARGEST_RESPONSE + 1
    for _ in range(number):
        received = call()
        log.record(received, 0.0)
        log.record_response(received.ticket, response(LARGEST_RESPONSE))
    kept = [each.response is not None for each in log.select()]
    assert kept == [False] * (number - number // 2) + [True] * (number // 2)


def test_entries_are_counted_from_the_start() -> None:
    log = RequestLog(0.0)
    for number in range(REQUESTS_KEPT + 5):
        log.record(call(), float(number))
    assert (len(log), log.removed) == (REQUESTS_KEPT, 5)
    assert [entry.received_at for entry in log.entries(REQUESTS_KEPT + 3)] == [REQUESTS_KEPT + 3, REQUESTS_KEPT + 4]
    assert len(log.entries(0)) == REQUESTS_KEPT
