"""OffsetCommit: unknown topics come before errors of the group."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from mockbroker.groups.offsets import Committed

Topic = OffsetCommitRequest.Topic
VERSIONS = range(2, 11)
NOWHERE = UUID(int=999_999)


def partition(index: int, offset: int = 5, metadata: str | None = "") -> Topic.Partition:
    return Topic.Partition(partition_index=index, committed_offset=offset, committed_metadata=metadata)


def topic(harness: BrokerHarness, name: str, *partitions: Topic.Partition, topic_id: UUID | None = None) -> Topic:
    existing = harness.broker.cluster.topics.get(name)
    partition_response = topic_id or (existing.topic_id if existing else NOWHERE)
    return Topic(name=name, topic_id=partition_response, partitions=list(partitions))


def commit(harness: BrokerHarness, version: int, *topics: Topic, node: int | None = None, **requested: Any) -> Any:
    request = OffsetCommitRequest(**{"group_id": "g"} | requested, topics=list(topics))
    return harness.ask(request, version, node=node)


def errors(response: Any) -> list[int]:
    return [partition_response.error_code for each in response.topics for partition_response in each.partitions]


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(topics={"t": 3, "u": 1})


@pytest.mark.parametrize("version", VERSIONS)
def test_negative_generation_creates_a_simple_group(harness, version):
    response = commit(harness, version, topic(harness, "t", partition(0, 7, "note"), partition(2, 8, None)))
    assert errors(response) == [E.NONE, E.NONE]
    group = harness.broker.groups["g"]
    assert (group.state.value, group.protocol_type) == ("Empty", "")
    assert group.offsets.get("t", 0) == Committed(offset=7, metadata="note")
    assert group.offsets.get("t", 2) == Committed(offset=8)
    assert response.topics[0].name == ("t" if version < 10 else "")
    assert version < 10 or response.topics[0].topic_id == harness.topic_id("t")


def test_leader_epoch_is_stored(harness):
    requested = Topic.Partition(partition_index=0, committed_offset=1, committed_leader_epoch=4, committed_metadata="")
    commit(harness, 6, topic(harness, "t", requested))
    assert harness.broker.groups["g"].offsets.get("t", 0) == Committed(offset=1, leader_epoch=4)


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_group_id_is_allowed(harness, version):
    assert errors(commit(harness, version, topic(harness, "t", partition(0)), group_id="")) == [E.NONE]


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_partitions_come_first(harness, version):
    topics = [
        topic(harness, "t", partition(0), partition(9), partition(1)),
        topic(harness, "no-such-topic", partition(0)),
    ]
    response = commit(harness, version, *topics)
    unknown = E.UNKNOWN_TOPIC_ID if version >= 10 else E.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        [(partition_response.partition_index, partition_response.error_code) for partition_response in each.partitions]
        for each in response.topics
    ] == [
        [(9, E.UNKNOWN_TOPIC_OR_PARTITION), (0, E.NONE), (1, E.NONE)],
        [(0, unknown)],
    ]


def test_v10_zero_topic_id_is_unknown(harness):
    zero = Topic(topic_id=UUID(int=0), partitions=[partition(0)])
    assert errors(commit(harness, 10, zero)) == [E.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("version", VERSIONS)
def test_absent_group_with_a_generation(harness, version):
    response = commit(
        harness, version, topic(harness, "t", partition(0)), generation_id_or_member_epoch=0, member_id="m"
    )
    assert errors(response) == [E.GROUP_ID_NOT_FOUND if version >= 9 else E.ILLEGAL_GENERATION]
    assert harness.broker.groups == {}


def test_unknown_topic_comes_before_illegal_generation(harness):
    response = commit(harness, 7, topic(harness, "no-such-topic", partition(0)), generation_id_or_member_epoch=5)
    assert errors(response) == [E.UNKNOWN_TOPIC_OR_PARTITION]


def test_group_is_not_checked_without_known_partitions(harness):
    commit(harness, 7, topic(harness, "no-such-topic", partition(0)))
    commit(harness, 7)
    assert harness.broker.groups == {}


@pytest.mark.parametrize("version", [2, 8, 10])
def test_not_the_coordinator(version):
    harness = BrokerHarness(brokers=3)
    node = (harness.broker.coordinator("g") + 1) % 3
    response = commit(harness, version, topic(harness, "t", partition(0), partition(9)), node=node)
    assert errors(response) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_COORDINATOR]


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        pytest.param("x" * 4_096, E.NONE, id="4096"),
        pytest.param("x" * 4_097, E.OFFSET_METADATA_TOO_LARGE, id="4097 of one unit each"),
        pytest.param("é" * 4_096, E.NONE, id="4096 of two bytes each"),
        pytest.param("\U0001f600" * 2_048, E.NONE, id="2048 of two units each"),
        pytest.param("\U0001f600" * 2_049, E.OFFSET_METADATA_TOO_LARGE, id="2049 of two units each"),
    ],
)
def test_metadata_limit_counts_utf16_units(harness, metadata, error):
    response = commit(harness, 7, topic(harness, "t", partition(0, metadata=metadata), partition(1)))
    assert errors(response) == [error, E.NONE]
    stored = harness.broker.groups["g"].offsets
    assert (stored.get("t", 0) is None) is (error is not E.NONE)
    assert stored.get("t", 1)


@pytest.mark.parametrize("offset", [-7, -1, 0, 2**63 - 1, -(2**63)])
def test_any_offset_is_stored(harness, offset):
    commit(harness, 7, topic(harness, "t", partition(0, offset)))
    assert harness.broker.groups["g"].offsets.get("t", 0) == Committed(offset=offset)


def test_commit_of_a_member_is_journaled(harness):
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )
    member_id = harness.ask(join, 3).member_id
    requested_topic = topic(harness, "t", partition(0, 9), partition(9))
    refused = commit(harness, 7, requested_topic, member_id=member_id, generation_id_or_member_epoch=1)
    assert errors(refused) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.REBALANCE_IN_PROGRESS]  # the group has not synced yet
    assert [event for event in harness.journal.events if event.event == "commit"] == []
    harness.broker.groups["g"].transition_to(type(harness.broker.groups["g"].state).STABLE, 0.0)
    commit(harness, 7, requested_topic, member_id=member_id, generation_id_or_member_epoch=1)
    (event,) = [event for event in harness.journal.events if event.event == "commit"]
    assert (event.member_id, event.generation, event.offsets) == (member_id, 1, {"t": {0: 9}})


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_unknown_instance_id(harness, version):
    commit(harness, 2, topic(harness, "t", partition(0)))
    existing = topic(harness, "t", partition(0))
    response = commit(harness, version, existing, group_instance_id="i", generation_id_or_member_epoch=1, member_id="m")
    assert errors(response) == [E.UNKNOWN_MEMBER_ID]
