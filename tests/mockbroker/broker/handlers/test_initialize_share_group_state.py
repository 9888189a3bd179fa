"""The requests to the share coordinator: initialize, read, write and delete states."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode
from kwire.messages.delete_share_group_state import DeleteShareGroupStateRequest
from kwire.messages.initialize_share_group_state import InitializeShareGroupStateRequest
from kwire.messages.read_share_group_state import ReadShareGroupStateRequest
from kwire.messages.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from kwire.messages.write_share_group_state import WriteShareGroupStateRequest
from mockbroker.share.state import StateKey

KINDS = {
    InitializeShareGroupStateRequest: {"state_epoch": 2, "start_offset": 0},
    ReadShareGroupStateRequest: {},
    WriteShareGroupStateRequest: {"state_epoch": 2, "start_offset": 0},
    DeleteShareGroupStateRequest: {},
    ReadShareGroupStateSummaryRequest: {},
}


@pytest.fixture
def h() -> BrokerHarness:
    return BrokerHarness(topics={"t": 1}, brokers=2)


def send(
    h: BrokerHarness, kind: Any, *, index: int = 0, group: str = "g", topic: UUID | None = None, **fields: Any
) -> Any:
    """Send a request for one partition to its share coordinator, and return the result of the partition."""
    topic = topic or h.topic_id("t")
    partition = kind.Topic.Partition(partition=index, **(KINDS[kind] | fields))
    request = kind(group_id=group, topics=[kind.Topic(topic_id=topic, partitions=[partition])])
    node = h.broker.share_coordinator(StateKey(group, topic, index))
    answer = h.ask(request, 0, node=node)
    return answer.results[0].partitions[0]


def test_a_state_is_initialized_written_read_and_deleted(h):
    assert send(h, InitializeShareGroupStateRequest).error_code == ErrorCode.NONE
    batch = WriteShareGroupStateRequest.Topic.Partition.StateBatch(
        first_offset=3, last_offset=5, delivery_state=2, delivery_count=1
    )
    assert send(h, WriteShareGroupStateRequest, state_batches=[batch], start_offset=2).error_code == ErrorCode.NONE
    response = send(h, ReadShareGroupStateRequest)
    assert (response.state_epoch, response.start_offset) == (2, 2)
    assert [(each.first_offset, each.last_offset) for each in response.state_batches] == [(3, 5)]
    assert send(h, ReadShareGroupStateSummaryRequest).start_offset == 2
    assert send(h, DeleteShareGroupStateRequest).error_code == ErrorCode.NONE
    assert send(h, ReadShareGroupStateSummaryRequest).start_offset == -1


@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__.removesuffix("Request") for kind in KINDS])
def test_errors_of_every_request(h, kind):
    send(h, InitializeShareGroupStateRequest)
    assert send(h, kind, index=-1).error_message == "The partition id cannot be a negative number."
    if kind is not ReadShareGroupStateRequest and kind is not WriteShareGroupStateRequest:
        assert send(h, kind, topic=UUID(int=99)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    key = StateKey("g", h.topic_id("t"), 0)
    partition = kind.Topic.Partition(partition=0, **KINDS[kind])
    topics = [kind.Topic(topic_id=h.topic_id("t"), partitions=[partition])]
    answer = h.ask(kind(group_id="g", topics=topics), 0, node=1 - h.broker.share_coordinator(key))
    assert answer.results[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    for group, requested in (("", topics), ("g", []), ("g", [kind.Topic(topic_id=h.topic_id("t"), partitions=[])])):
        assert h.ask(kind(group_id=group, topics=requested), 0).results == []


@pytest.mark.parametrize("kind", [ReadShareGroupStateRequest, WriteShareGroupStateRequest], ids=["read", "write"])
def test_uninitialized_states_are_an_invalid_request(h, kind):
    response = send(h, kind)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message.endswith("operation on uninitialized share partition not allowed.")
