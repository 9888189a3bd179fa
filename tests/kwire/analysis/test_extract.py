from __future__ import annotations

import pytest
from tools.handmade_calls import GROUP, CallLog

from kwire.analysis.extract import events_of
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

KINDS = [  # what happens, the events
    (lambda log: log.join("a", 0, 1, "a"), ["join_sent", "join_done"]),
    (lambda log: log.join("a", 0, -1, error=79, member_id=""), ["join_sent", "member_id_given"]),
    (lambda log: log.join("a", 0, -1, error=25), ["join_sent", "join_error"]),
    (lambda log: log.sync("a", 0, 1, [0], {"a": [0], "b": [1]}), ["sync_sent", "planned", "planned", "sync_done"]),
    (lambda log: log.sync("a", 0, 1, [], error=27), ["sync_sent", "sync_error"]),
    (lambda log: log.beat("a", 0, 1), ["heartbeat"]),
    (lambda log: log.beat("a", 0, 1, error=27), ["heartbeat_error"]),
    (lambda log: log.leave("a", 0), ["leave"]),
    (lambda log: log.commit("a", 0, 1, 0, 5), ["commit"]),
    (lambda log: log.commit("a", 0, 1, 0, 5, error=22), ["commit_error"]),
]


@pytest.mark.parametrize(("happens", "expected"), KINDS)
def test_events_of_a_call(happens, expected: list[str]) -> None:  # type: ignore[no-untyped-def]
    log = CallLog()
    happens(log)
    found = events_of(log.calls[0])
    assert [event.event for event in found] == expected
    assert {event.group_id for event in found} == {GROUP}
    assert [event.part for event in found] == list(range(len(found)))


def test_unreadable_metadata_is_no_reason_to_stop() -> None:
    log = CallLog()
    log.join("a", 0, 1, "a")
    log.calls[0].request.protocols[0].metadata = b"\xff"
    assert events_of(log.calls[0])[0].topics is None


def test_coordinator() -> None:
    answer = FindCoordinatorResponse(host="h", port=1)
    call = CallLog().call("a", 0, FindCoordinatorRequest(key="g"), answer, 1)
    assert [(event.event, event.leader) for event in events_of(call)] == [("coordinator_found", "h:1")]


def test_share_groups_are_events() -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["tea"])
    answer = ShareGroupHeartbeatResponse(member_epoch=1, assignment=ShareGroupHeartbeatResponse.Assignment())
    call = CallLog().call("a", 0, request, answer, 1)
    found = events_of(call)
    assert [(event.event, event.protocol) for event in found] == [
        ("join_sent", "share"),
        ("join_done", "share"),
        ("assigned", "share"),
    ]
