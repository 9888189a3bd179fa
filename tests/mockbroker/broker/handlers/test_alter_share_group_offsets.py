"""AlterShareGroupOffsets: the start offsets of share groups."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.consumer_group_harness import ConsumerGroupHarness
from tools.share_group_harness import ShareGroupHarness

from kwire import ErrorCode as E
from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from mockbroker.base.release import RELEASES
from mockbroker.share.state import StateKey

Topic = AlterShareGroupOffsetsRequest.Topic


def alter(harness: Any, offsets: dict[str, dict[int, int]], group: str = "g") -> Any:
    topics = [
        Topic(
            topic_name=name,
            partitions=[
                Topic.Partition(partition_index=index, start_offset=offset) for index, offset in starts.items()
            ],
        )
        for name, starts in offsets.items()
    ]
    return harness.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=topics), 0)


def start_offset(harness: ShareGroupHarness, index: int) -> int | None:
    summary = harness.broker.share_states.summary(StateKey("g", harness.topic_id("t"), index))
    return None if summary is None else summary.start_offset


def test_a_group_is_created_with_start_offsets() -> None:
    harness = ShareGroupHarness()
    (topic,) = alter(harness, {"t": {0: 7, 5: 1}}).responses
    assert (topic.topic_name, topic.topic_id) == ("t", harness.topic_id("t"))
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, E.NONE),
        (5, E.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert (start_offset(harness, 0), start_offset(harness, 1)) == (7, None)
    assert harness.describe().group_state == "Empty"
    assert harness.enter("a").assigned == {"t": [0]}


def test_an_unknown_topic_creates_no_group() -> None:
    harness = ShareGroupHarness()
    (topic,) = alter(harness, {"nowhere": {0: 1}}).responses
    assert topic.partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert "g" not in harness.broker.groups


def test_the_group_must_be_empty() -> None:
    harness = ShareGroupHarness()
    harness.enter("a")
    harness.settle()
    assert alter(harness, {"t": {0: 1}}).error_code == E.NON_EMPTY_GROUP
    harness.leave("a")
    assert alter(harness, {"t": {0: 1}}).error_code == E.NONE
    assert start_offset(harness, 0) == 1


def test_groups_of_other_types_are_rejected() -> None:
    harness = ConsumerGroupHarness()
    harness.join("a")
    assert alter(harness, {"t": {0: 1}}).error_message == "Group g is not a share group."


@pytest.mark.parametrize(("release", "group", "error"), [("4.2", "", 24), ("4.1", "g", 35)])
def test_invalid_requests_are_rejected(release: str, group: str, error: int) -> None:
    assert alter(ShareGroupHarness(release=RELEASES[release]), {"t": {0: 1}}, group).error_code == error


@pytest.mark.parametrize("count", [1, 300])
def test_a_negative_partition_is_an_error_of_the_request(count: int) -> None:
    harness = ShareGroupHarness(topics={"t": 300})
    response = alter(harness, {"t": dict.fromkeys(range(count), 3) | {-1: 0}})
    assert (response.error_code, response.responses) == (E.UNKNOWN_SERVER_ERROR, [])
    assert response.error_message.startswith("Initialize share group parameters has invalid partitionId - g ")
    assert start_offset(harness, 0) is None
    (topic,) = alter(harness, {"nowhere": {-1: 0}, "other": {}}).responses
    assert (topic.topic_name, topic.partitions[0].error_code) == ("nowhere", E.UNKNOWN_TOPIC_OR_PARTITION)
    harness.enter("a")
    assert alter(harness, {"t": {-1: 0}}).error_code == E.NON_EMPTY_GROUP


def test_many_partitions_are_altered_in_slices() -> None:
    harness = ShareGroupHarness(topics={"t": 500, "u": 1})
    first, second = alter(harness, {"t": dict.fromkeys(range(500), 3), "u": {0: 4}}).responses
    assert [len(first.partitions), len(second.partitions)] == [500, 1]
    assert start_offset(harness, 499) == 3


def test_unknown_topics_and_partitions_leave_the_others_alone() -> None:
    harness = ShareGroupHarness()
    answers = alter(harness, {"nowhere": {0: 1}, "t": {0: 7, 5: 1}}).responses
    assert [[each.error_code for each in topic.partitions] for topic in answers] == [
        [E.UNKNOWN_TOPIC_OR_PARTITION],
        [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    (shared,) = harness.group.initialized.values()
    assert (shared.name, shared.partitions) == ("t", {0})


def test_topic_with_a_new_start_offset_is_no_longer_deleted() -> None:
    harness = ShareGroupHarness()
    alter(harness, {"t": {0: 7}})
    other = UUID(int=99)
    harness.group.set_shared_topics(initialized={}, deleting={harness.topic_id("t"): "t", other: "old"})
    alter(harness, {"t": {0: 8}})
    assert harness.group.deleting == {other: "old"}
