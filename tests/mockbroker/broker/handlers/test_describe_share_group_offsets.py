"""DescribeShareGroupOffsets: start offsets and lag of share groups."""

from __future__ import annotations

from typing import Any

from tools.share_group_harness import ShareGroupHarness

from kwire import ErrorCode as E
from kwire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kwire.records.batch import Record, build_batch, read_batch
from mockbroker.base.release import RELEASES
from mockbroker.share.state import StateKey
from mockbroker.share.states import StateChange

Group = DescribeShareGroupOffsetsRequest.Group


def describe(harness: ShareGroupHarness, topics: dict[str, list[int]] | None = None, *, version: int = 1) -> Any:
    requested = None if topics is None else [Group.Topic(topic_name=name, partitions=n) for name, n in topics.items()]
    request = DescribeShareGroupOffsetsRequest(groups=[Group(group_id="g", topics=requested)])
    return harness.ask(request, version).groups[0]


def offsets(group: Any) -> dict[str, list[tuple[int, int, int]]]:
    return {
        topic.topic_name: [(each.partition_index, each.start_offset, each.lag) for each in topic.partitions]
        for topic in group.topics
    }


def append(harness: ShareGroupHarness, index: int, count: int) -> None:
    records = [Record(value=b"v") for _ in range(count)]
    harness.broker.cluster.topics["t"].partitions[index].append(read_batch(build_batch(records)))


def test_partitions_have_no_offset_before_the_first_fetch() -> None:
    harness = ShareGroupHarness()
    assert describe(harness).topics == []
    harness.enter("a")
    harness.settle()
    assert offsets(describe(harness)) == {"t": [(0, -1, -1), (1, -1, -1)]}
    assert offsets(describe(harness, {"t": [1, 9], "nowhere": [0]})) == {
        "t": [(1, -1, -1), (9, -1, -1)],
        "nowhere": [(0, -1, -1)],
    }


def test_the_lag_is_what_is_not_delivered_completely() -> None:
    harness = ShareGroupHarness()
    harness.enter("a")
    harness.settle()
    append(harness, 0, 10)
    states, key = harness.broker.share_states, StateKey("g", harness.topic_id("t"), 0)
    state_epoch = states.summary(key).state_epoch  # type: ignore[union-attr]
    assert states.write(key, StateChange(state_epoch, 0, 4, 2, ()), harness.now) == E.NONE
    assert offsets(describe(harness, {"t": [0]})) == {"t": [(0, 4, 4)]}
    assert offsets(describe(harness, {"t": [0]}, version=0)) == {"t": [(0, 4, -1)]}
    harness.broker.cluster.topics["t"].partitions[0].leader = -1
    assert describe(harness, {"t": [0]}).topics[0].partitions[0].error_code == E.LEADER_NOT_AVAILABLE


def test_all_partitions_are_described_by_the_coordinator_only() -> None:
    harness = ShareGroupHarness(brokers=2)
    other = 1 - harness.broker.coordinator("g")
    request = DescribeShareGroupOffsetsRequest(groups=[Group(group_id="g", topics=None)])
    group = harness.ask(request, 1, node=other).groups[0]
    assert (group.error_code, group.error_message) == (E.NOT_COORDINATOR, "This is not the correct coordinator.")


def test_without_share_groups_the_version_is_unsupported() -> None:
    assert describe(ShareGroupHarness(release=RELEASES["4.1"]), version=0).error_code == E.UNSUPPORTED_VERSION


def test_many_partitions_are_described_in_slices() -> None:
    harness = ShareGroupHarness(topics={"t": 3_000})
    harness.enter("a")
    harness.settle()
    (topic,) = describe(harness).topics
    assert [each.partition_index for each in topic.partitions] == list(range(3_000))


def test_invalid_partitions_are_an_error_of_the_group() -> None:
    harness = ShareGroupHarness()
    harness.enter("a")
    harness.settle()
    for topics in ({"t": [-1]}, {"t": [0, -1]}, {"t": []}, {"t": [], "nowhere": [0]}):
        group = describe(harness, topics)
        assert (group.error_code, group.topics) == (E.UNKNOWN_SERVER_ERROR, [])
        assert group.error_message == "The server experienced an unexpected error when processing the request."
    assert offsets(describe(harness, {"t": [0], "nowhere": [-1]})) == {"t": [(0, -1, -1)], "nowhere": [(-1, -1, -1)]}
    for name, error in (("t", E.UNKNOWN_SERVER_ERROR), ("nowhere", E.NONE)):
        requested = Group(group_id="", topics=[Group.Topic(topic_name=name, partitions=[0])])
        response = harness.ask(DescribeShareGroupOffsetsRequest(groups=[requested]), 1)
        assert response.groups[0].error_code == error
