from __future__ import annotations

import pytest
from tools.handmade_calls import GROUP, CallLog

from kwire.analysis.extract import events_of
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

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
    result = events_of(log.calls[0])
    assert [event.event for event in result] == expected
    assert {event.group_id for event in result} == {GROUP}
    assert [event.part for event in result] == list(range(len(result)))


def test_unreadable_metadata_is_no_reason_to_stop() -> None:
    log = CallLog()
    log.join("a", 0, 1, "a")
    log.calls[0].request.protocols[0].metadata = b"\xff"
    assert events_of(log.calls[0])[0].topics is None


def test_a_commit_with_an_empty_topic_name() -> None:
    topic = TxnOffsetCommitRequest.Topic(partitions=[TxnOffsetCommitRequest.Topic.Partition(partition_index=3)])
    request = TxnOffsetCommitRequest(group_id="g", topics=[topic])
    call = CallLog().call("a", 0, request, TxnOffsetCommitResponse(), 3)
    assert [(event.topic, event.partition) for event in events_of(call)] == [("", 3)]


def test_coordinator() -> None:
    answer = FindCoordinatorResponse(node_id=7, host="h", port=1)
    call = CallLog().call("a", 0, FindCoordinatorRequest(key="g"), answer, 1)
    results = [(event.event, event.leader, event.node_id) for event in events_of(call)]
    assert results == [("coordinator_found", "h:1", 7)]


def test_share_groups_are_events() -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["tea"])
    answer = ShareGroupHeartbeatResponse(member_epoch=1, assignment=ShareGroupHeartbeatResponse.Assignment())
    call = CallLog().call("a", 0, request, answer, 1)
    result = events_of(call)
    assert [(event.event, event.protocol) for event in result] == [
        ("join_sent", "share"),
        ("join_done", "share"),
        ("assigned", "share"),
    ]


@pytest.mark.parametrize("error", [None, 0, 121])
def test_acknowledgements_are_counted_by_type(error: int | None) -> None:
    topic, answered = ShareAcknowledgeRequest.Topic, ShareAcknowledgeResponse.Topic
    batch = topic.Partition.AcknowledgementBatch
    batches = [batch(first_offset=3, last_offset=6, acknowledge_types=[1])]
    batches.append(batch(first_offset=7, last_offset=11, acknowledge_types=[1, 2, 3, 0, 2]))
    partition = topic.Partition(partition_index=4, acknowledgement_batches=batches)
    request = ShareAcknowledgeRequest(group_id="g", member_id="m", topics=[topic(partitions=[partition])])
    result = answered.Partition(partition_index=4, error_code=error or 0)
    answer = None if error is None else ShareAcknowledgeResponse(responses=[answered(partitions=[result])])
    actual = events_of(CallLog().call("a", 0, request, answer, 1))
    assert [(event.event, event.first_offset, event.records) for event in actual] == [
        ("accepted", 3, 5),
        ("released", 8, 2),
        ("rejected", 9, 1),
        ("gaps", 10, 1),
    ]
    assert {(event.member_id, event.partition, event.error_code) for event in actual} == {("m", 4, error)}


def test_a_share_fetch_acquires_and_acknowledges() -> None:
    topic, answered = ShareFetchRequest.Topic, ShareFetchResponse.Topic
    batch = topic.Partition.AcknowledgementBatch(first_offset=0, last_offset=1, acknowledge_types=[2])
    partition = topic.Partition(partition_index=0, acknowledgement_batches=[batch])
    request = ShareFetchRequest(group_id="g", member_id="m", topics=[topic(partitions=[partition])])
    acquired = [
        answered.Partition.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
        for first, last, count in ((0, 1, 2), (5, 5, 1))
    ]
    answer = ShareFetchResponse(responses=[answered(partitions=[answered.Partition(acquired_records=acquired)])])
    result = events_of(CallLog().call("a", 0, request, answer, 1))
    assert [(event.event, event.first_offset, event.records, event.deliveries) for event in result] == [
        ("released", 0, 2, None),
        ("acquired", 0, 3, 2),
    ]
