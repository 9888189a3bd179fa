"""One connection: ApiVersions, then responses in order; late, repeated or invalid ones close it."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.envelope import decode_request, encode_response
from kwire.errorcodes import ErrorCode as E
from kwire.frames import FrameBuffer, pack
from kwire.messages.api_versions import API_VERSIONS, ApiVersionsResponse
from kwire.messages.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.heartbeat import HEARTBEAT, HeartbeatRequest, HeartbeatResponse
from mockbroker.client.call import Failure, OutgoingCall, VersionRange
from mockbroker.client.link import Link, LinkState

SERVED = {API_VERSIONS.key: (0, 4), HEARTBEAT.key: (0, 4), FIND_COORDINATOR.key: (2, 4)}


def link_of() -> Link:
    return Link("host", 9, "me", deadline=10.0)


def sent_requests(link: Link) -> list[Any]:
    """Return the requests that the link wants to send, and clear them."""
    frames = FrameBuffer()
    frames.feed(b"".join(link.outgoing))
    link.outgoing = []
    requests = []
    while (frame := frames.next_frame()) is not None:
        requests.append(decode_request(frame, strict=True))
    return requests


def answer(request: Any, body: object) -> bytes:
    return pack(encode_response(body, request.version, correlation_id=request.header.correlation_id))


def versions(served: dict[int, tuple[int, int]]) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in served.items()
        ]
    )


def ready(served: dict[int, tuple[int, int]] | None = None) -> Link:
    link = link_of()
    link.opened()
    (sent,) = sent_requests(link)
    link.received(answer(sent, versions(served or SERVED)), 0.0)
    assert link.state is LinkState.READY
    return link


def heartbeat(
    done: list[OutgoingCall] | None = None, *, deadline: float = 30.0, span: VersionRange = (0, None)
) -> OutgoingCall:
    def then(call: OutgoingCall) -> None:
        if done is not None:
            done.append(call)

    return OutgoingCall(HEARTBEAT.key, lambda _: HeartbeatRequest(group_id="g"), deadline, then, span)


def test_api_versions_is_the_first_request() -> None:
    link, call = link_of(), heartbeat()
    link.send_request(call, 0.0)
    assert (link.state, link.outgoing, link.in_flight) == (LinkState.CONNECTING, [], 1)
    link.opened()
    (sent,) = sent_requests(link)
    assert (sent.api.name, sent.version, sent.header.client_id) == ("ApiVersions", 4, "me")
    assert sent.body.client_software_name
    link.received(answer(sent, versions(SERVED)), 3.0)
    (sent,) = sent_requests(link)
    assert (sent.api.name, sent.version, call.sent_at) == ("Heartbeat", 4, 3.0)


@pytest.mark.parametrize(("listed", "second"), [({18: (0, 2)}, 2), ({18: (0, 3)}, 3), ({18: (0, 9)}, 3), ({}, 0)])
def test_api_versions_falls_back_to_the_version_of_the_broker(listed, second: int) -> None:
    link = link_of()
    link.opened()
    (sent,) = sent_requests(link)
    refusal = versions(listed)
    refusal.error_code = E.UNSUPPORTED_VERSION
    link.received(pack(encode_response(refusal, 0, correlation_id=sent.header.correlation_id)), 0.0)
    (again,) = sent_requests(link)
    assert again.version == second
    link.received(answer(again, versions(SERVED)), 0.0)
    assert link.state is LinkState.READY


def test_an_api_that_is_listed_twice_closes_the_connection() -> None:
    link = link_of()
    link.opened()
    (sent,) = sent_requests(link)
    listed = versions(SERVED)
    listed.api_keys += versions({HEARTBEAT.key: (0, 0)}).api_keys
    link.received(answer(sent, listed), 0.0)
    assert link.state is LinkState.CLOSED
    assert link.close_reason == "host:9 sent an invalid response: ApiVersions lists an API twice"


def test_other_api_versions_errors_close_the_connection() -> None:
    link, done = link_of(), []
    link.send_request(heartbeat(done), 0.0)
    link.opened()
    (sent,) = sent_requests(link)
    link.received(answer(sent, ApiVersionsResponse(error_code=E.INVALID_REQUEST)), 0.0)
    assert (link.state, done[0].failure) == (LinkState.CLOSED, Failure.DISCONNECTED)
    assert "host:9 failed ApiVersions: INVALID_REQUEST" in done[0].reason


@pytest.mark.parametrize(
    ("served", "span", "version"),
    [((0, 4), (0, None), 4), ((0, 2), (0, None), 2), ((0, 4), (0, 1), 1), ((3, 9), (2, None), 4)],
)
def test_newest_common_version_is_used(served, span, version: int) -> None:
    link = ready({HEARTBEAT.key: served})
    call = heartbeat(span=span)
    link.send_request(call, 0.0)
    assert (call.version, sent_requests(link)[0].version) == (version, version)


@pytest.mark.parametrize(
    ("served", "span", "text"),
    [
        ({}, (0, None), r"Heartbeat: the consumer needs v0-4, host:9 does not support this API"),
        ({HEARTBEAT.key: (0, 2)}, (3, None), r"Heartbeat: the consumer needs v3-4, host:9 supports v0-2"),
        ({HEARTBEAT.key: (7, 9)}, (0, None), r"Heartbeat: the consumer needs v0-4, host:9 supports v7-9"),
    ],
)
def test_no_version_in_common_fails_the_request_alone(served, span, text: str) -> None:
    link, done = ready(served | {18: (0, 4)}), []
    link.send_request(heartbeat(done, span=span), 0.0)
    assert (done[0].failure, done[0].reason) == (Failure.UNSUPPORTED, text)
    assert (link.state, link.outgoing) == (LinkState.READY, [])


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_responses_are_read_from_any_chunks(size: int) -> None:
    link, done = ready(), []
    for _ in range(3):
        link.send_request(heartbeat(done), 0.0)
    assert link.in_flight == 3
    data = b"".join(answer(sent, HeartbeatResponse(error_code=n)) for n, sent in enumerate(sent_requests(link), 25))
    for at in range(0, len(data), size):
        link.received(data[at : at + size], 1.0)
    assert [call.response.error_code for call in done] == [25, 26, 27]
    assert link.in_flight == 0


def broken(kind: str, first: Any, second: Any) -> bytes:
    match kind:
        case "out of order":
            return answer(second, HeartbeatResponse())
        case "of another API":
            return pack(encode_response(FindCoordinatorResponse(), 4, correlation_id=first.header.correlation_id))
        case "cut short":
            return pack(encode_response(HeartbeatResponse(), 4, correlation_id=first.header.correlation_id)[:-3])
        case "no frame":
            return b"\xff\xff\xff\xff"
        case _:
            return answer(first, HeartbeatResponse()) + answer(second, HeartbeatResponse()) * 2


@pytest.mark.parametrize("kind", ["out of order", "of another API", "cut short", "no frame", "twice"])
def test_invalid_response_closes_the_connection(kind: str) -> None:
    link, done = ready(), []
    for _ in range(2):
        link.send_request(heartbeat(done), 0.0)
    link.received(broken(kind, *sent_requests(link)), 0.0)
    assert link.state is LinkState.CLOSED
    assert "sent an invalid response" in link.close_reason
    assert len(done) == 2
    assert all(call.failure is Failure.DISCONNECTED for call in done if call.response is None)
    link.received(answer_again(), 0.0)
    assert len(done) == 2, "later responses are ignored"


def answer_again() -> bytes:
    return pack(encode_response(HeartbeatResponse(), 4, correlation_id=1))


def test_request_timeout_closes_the_connection() -> None:
    link, done = ready(), []
    link.send_request(heartbeat(done, deadline=300.0), 0.0)
    link.send_request(heartbeat(done, deadline=30.0), 0.0)
    assert link.next_deadline() == 30.0
    link.expire(29.9)
    assert link.state is LinkState.READY
    link.expire(30.0)
    assert link.state is LinkState.CLOSED
    assert [call.failure for call in done] == [Failure.TIMED_OUT, Failure.DISCONNECTED]
    assert [call.deadline for call in done] == [30.0, 300.0], "the overdue request, then later ones"


@pytest.mark.parametrize("opened", [False, True])
def test_connection_setup_times_out(opened: bool) -> None:
    link, done = link_of(), []
    link.send_request(heartbeat(done), 0.0)
    if opened:
        link.opened()
    assert link.next_deadline() == 10.0
    link.expire(10.0)
    assert (link.state, done[0].failure) == (LinkState.CLOSED, Failure.DISCONNECTED)


def test_request_on_a_closed_connection_fails_at_once() -> None:
    link, done = ready(), []
    link.closed()
    link.send_request(heartbeat(done), 0.0)
    assert (done[0].failure, done[0].reason) == (Failure.DISCONNECTED, "host:9 closed the connection")
    link.close("again")
    assert link.close_reason == "host:9 closed the connection"


def test_request_sent_from_a_callback_is_not_lost() -> None:
    link = ready()
    second = heartbeat()
    first = OutgoingCall(HEARTBEAT.key, lambda _: HeartbeatRequest(), 30.0, lambda _: link.send_request(second, 1.0))
    link.send_request(first, 0.0)
    link.received(answer(sent_requests(link)[0], HeartbeatResponse()), 1.0)
    link.received(answer(sent_requests(link)[0], HeartbeatResponse(error_code=27)), 2.0)
    assert second.response.error_code == 27


def test_request_is_built_for_the_negotiated_version() -> None:
    link, versions_built = ready(), []

    def build(version: int) -> FindCoordinatorRequest:
        versions_built.append(version)
        return FindCoordinatorRequest(coordinator_keys=["g"])

    link.send_request(OutgoingCall(FIND_COORDINATOR.key, build, 30.0), 0.0)
    assert versions_built == [4]


def test_open_link_has_no_close_reason() -> None:
    link = link_of()
    assert (link.close_reason, link.in_flight) == ("", 0)
    link.closed()
    assert link.close_reason == "host:9 closed the connection"
    link.close("a later reason")
    assert link.close_reason == "host:9 closed the connection"


def test_closed_link_has_no_requests_in_flight() -> None:
    link, done = ready(), []
    link.send_request(heartbeat(done), 0.0)
    link.close("a test")
    assert (link.in_flight, len(done), link.next_deadline()) == (0, 1, 10.0)
    waiting = link_of()
    waiting.send_request(heartbeat(done), 0.0)
    waiting.close("a test")
    assert (waiting.in_flight, len(done)) == (0, 2)


def test_responses_after_the_connection_was_closed_are_ignored() -> None:
    link = ready()
    done: list[OutgoingCall] = []

    def then(call: OutgoingCall) -> None:
        done.append(call)
        link.close("the first response was enough")

    for _ in range(2):
        link.send_request(OutgoingCall(HEARTBEAT.key, lambda _: HeartbeatRequest(group_id="g"), 30.0, then), 0.0)
    link.received(b"".join(answer(sent, HeartbeatResponse()) for sent in sent_requests(link)), 0.0)
    assert link.close_reason == "the first response was enough"
    assert [call.failure for call in done] == [None, Failure.DISCONNECTED]


def test_request_that_was_not_sent_has_no_version() -> None:
    call = heartbeat()
    assert (call.version, call.sent_at, call.response, call.failure, call.reason) == (-1, 0.0, None, None, "")


def test_failure_without_a_reason_has_the_text_of_the_failure() -> None:
    calls = heartbeat(), heartbeat()
    calls[0].fail(Failure.TIMED_OUT)
    calls[1].fail(Failure.DISCONNECTED, "the broker is gone")
    assert [call.reason for call in calls] == [Failure.TIMED_OUT.value, "the broker is gone"]


def test_first_timeout_of_queued_requests_is_the_deadline() -> None:
    link = link_of()
    link.deadline = 100.0
    assert link.next_deadline() == 100.0
    for deadline in (9.0, 5.0, 7.0):
        link.send_request(OutgoingCall(HEARTBEAT.key, lambda _: HeartbeatRequest(), deadline), 0.0)
    assert link.next_deadline() == 5.0
