"""DeleteShareGroupOffsets: the share state of topics is deleted."""

from __future__ import annotations

from typing import Any

import pytest
from tools.consumer_group_harness import ConsumerGroupHarness
from tools.share_group_harness import ShareGroupHarness

from kwire import ErrorCode as E
from kwire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from mockbroker.base.release import RELEASES
from mockbroker.broker import failover
from mockbroker.share.state import StateKey

Topic = DeleteShareGroupOffsetsRequest.Topic


def delete(harness: Any, *topics: str, group: str = "g") -> Any:
    requested = [Topic(topic_name=name) for name in topics]
    return harness.ask(DeleteShareGroupOffsetsRequest(group_id=group, topics=requested), 0)


def empty_group(**how: Any) -> ShareGroupHarness:
    harness = ShareGroupHarness(**how)
    harness.enter("a")
    harness.settle()
    harness.leave("a")
    return harness


def test_the_state_of_a_topic_is_deleted() -> None:
    harness = empty_group()
    responses = delete(harness, "t", "nowhere", "t").responses
    assert [(each.topic_name, each.error_code) for each in responses] == [
        ("t", E.NONE),
        ("nowhere", E.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert harness.broker.share_states.summary(StateKey("g", harness.topic_id("t"), 0)) is None
    assert (harness.group.initialized, harness.group.deleting) == ({}, {})
    assert delete(harness, "t").responses[0].error_message == "There is no offset information to delete."


@pytest.mark.parametrize("more", [0, 300])
def test_topics_without_offsets_are_in_the_response_twice(more: int) -> None:
    harness = empty_group()
    requested = ["nowhere", "t", "t", "nowhere", *["t"] * more]
    topics = [(each.topic_name, each.error_code) for each in delete(harness, *requested).responses]
    unknown = ("nowhere", E.UNKNOWN_TOPIC_OR_PARTITION)
    assert topics == [("t", E.NONE), unknown, unknown]
    assert [each.error_code for each in delete(harness, "t", "t").responses] == [E.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_state_without_a_share_coordinator_is_deleted_later() -> None:
    config = {"share.coordinator.state.topic.replication.factor": 1}
    harness = empty_group(brokers=2, config=config, topics={"t": 3})
    failover.stop_broker(harness.broker, 1, harness.now)
    assert delete(harness, "t").responses[0].error_code == E.COORDINATOR_NOT_AVAILABLE
    assert list(harness.group.deleting.values()) == ["t"]
    failover.start_broker(harness.broker, 1, harness.now)
    assert delete(harness, "t").responses[0].error_code == E.NONE
    assert harness.group.deleting == {}


def test_the_group_must_exist_and_be_empty() -> None:
    harness = ShareGroupHarness()
    assert delete(harness, "t").error_message == "Group g not found."
    harness.enter("a")
    assert delete(harness, "t").error_code == E.NON_EMPTY_GROUP
    other = ConsumerGroupHarness()
    other.join("a")
    assert delete(other, "t").error_message == "Group g is not a share group."


@pytest.mark.parametrize(("release", "group", "error"), [("4.2", "", 24), ("4.1", "g", 35)])
def test_invalid_requests_are_rejected(release: str, group: str, error: int) -> None:
    assert delete(ShareGroupHarness(release=RELEASES[release]), "t", group=group).error_code == error


def test_many_topics_are_deleted_in_slices() -> None:
    names = [f"t{number}" for number in range(20)]
    harness = ShareGroupHarness(topics=dict.fromkeys(names, 30))
    harness.enter("a", names)
    harness.settle()
    harness.leave("a")
    responses = delete(harness, *names, *names).responses
    assert [each.topic_name for each in responses] == names
    assert {each.error_code for each in responses} == {E.NONE}
    assert harness.group.initialized == {}
