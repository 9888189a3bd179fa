"""OffsetFetch: one group up to v7, several from v8 on, topic ids from v10 on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.offset_fetch import OffsetFetchRequest
from mockbroker.groups.offsets import Committed

Group = OffsetFetchRequest.Group
NOWHERE = UUID(int=999_999)


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(topics={"t": 3, "u": 1})
    offsets = harness.broker.groups.create("g", 0.0).offsets
    offsets.store("t", 0, Committed(offset=7, leader_epoch=4, metadata="note"))
    offsets.store("u", 0, Committed(offset=-7))
    harness.broker.groups.mark_dirty("g")
    return harness


def fetch(
    harness: BrokerHarness,
    version: int,
    requested: dict[str, list[int]] | None,
    group_id: str = "g",
    node: int | None = None,
) -> tuple[Any, ...]:
    """Return (offset, epoch, metadata, error) by topic name and partition, and the error of the group."""
    topics = None
    if version >= 8:
        if requested is not None:
            cluster_topics = harness.broker.cluster.topics
            topics = [
                Group.Topic(
                    name=name, topic_id=getattr(cluster_topics.get(name), "topic_id", NOWHERE), partition_indexes=ids
                )
                for name, ids in requested.items()
            ]
        request = OffsetFetchRequest(groups=[Group(group_id=group_id, topics=topics)])
        (response,) = harness.ask(request, version, node=node).groups
        assert response.group_id == group_id
    else:
        if requested is not None:
            topics = [OffsetFetchRequest.Topic(name=name, partition_indexes=ids) for name, ids in requested.items()]
        response = harness.ask(OffsetFetchRequest(group_id=group_id, topics=topics), version, node=node)
    names = {topic_id: name.name for topic_id, name in harness.broker.cluster.by_id.items()}
    listed = {
        topic.name if version < 10 else names.get(topic.topic_id, "?"): {
            each.partition_index: (each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code)
            for each in topic.partitions
        }
        for topic in response.topics
    }
    return listed, response.error_code


def epoch(version: int, value: int) -> int:
    return value if version >= 5 else -1


@pytest.mark.parametrize("version", range(1, 11))
def test_partitions_in_the_order_of_the_request(harness, version):
    found, error = fetch(harness, version, {"u": [0], "t": [2, 0, 99]})
    nothing = (-1, -1, "", E.NONE)
    assert error == E.NONE
    assert list(found) == ["u", "t"]
    assert found["u"] == {0: (-7, -1, "", E.NONE)}
    assert found["t"] == {2: nothing, 0: (7, epoch(version, 4), "note", E.NONE), 99: nothing}
    assert list(found["t"]) == [2, 0, 99]


@pytest.mark.parametrize("version", range(1, 10))
def test_unknown_topic_has_no_offset_and_no_error(harness, version):
    assert fetch(harness, version, {"no-such-topic": [0]}) == ({"no-such-topic": {0: (-1, -1, "", E.NONE)}}, E.NONE)


def test_v10_unknown_topic_id(harness):
    assert fetch(harness, 10, {"no-such-topic": [0, 1]}) == ({"?": dict.fromkeys((0, 1), (-1, -1, "", 100))}, E.NONE)


@pytest.mark.parametrize("version", range(2, 11))
def test_all_topics(harness, version):
    found, error = fetch(harness, version, None)
    assert error == E.NONE
    assert found == {"t": {0: (7, epoch(version, 4), "note", 0)}, "u": {0: (-7, -1, "", 0)}}


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("group_id", ["unknown", ""])
def test_absent_group_has_no_offsets_and_no_error(harness, version, group_id):
    assert fetch(harness, version, {"t": [0]}, group_id) == ({"t": {0: (-1, -1, "", E.NONE)}}, E.NONE)
    if version >= 2:
        assert fetch(harness, version, None, group_id) == ({}, E.NONE)
    assert list(harness.broker.groups) == ["g"]


@pytest.mark.parametrize("version", range(1, 11))
def test_no_topics(harness, version):
    assert fetch(harness, version, {}) == ({}, E.NONE)


@pytest.mark.parametrize("version", range(1, 11))
def test_not_the_coordinator(version):
    harness = BrokerHarness(brokers=3)
    node = (harness.broker.coordinator("g") + 1) % 3
    found, error = fetch(harness, version, {"t": [0]}, node=node)
    if version >= 2:
        assert (found, error) == ({}, E.NOT_COORDINATOR)
    else:
        assert found == {"t": {0: (-1, -1, "", E.NOT_COORDINATOR)}}  # v0-1 have no top-level error code


@pytest.mark.parametrize("version", [8, 9, 10])
def test_no_group_and_several_groups(harness, version):
    assert harness.ask(OffsetFetchRequest(groups=[]), version).groups == []
    groups = [Group(group_id=group_id, topics=None) for group_id in ("g", "x", "g")]
    response = harness.ask(OffsetFetchRequest(groups=groups), version)
    assert [(group.group_id, len(group.topics)) for group in response.groups] == [("g", 2), ("x", 0), ("g", 2)]


@pytest.mark.parametrize("version", [9, 10])
def test_member_and_epoch_of_a_classic_group_are_ignored(harness, version):
    groups = Group(group_id="g", member_id="unknown", member_epoch=99, topics=None)
    (found,) = harness.ask(OffsetFetchRequest(groups=[groups]), version).groups
    assert (found.error_code, len(found.topics)) == (E.NONE, 2)


@pytest.mark.parametrize("version", [7, 8])
def test_require_stable_changes_nothing_without_transactions(harness, version):
    if version < 8:
        request = OffsetFetchRequest(group_id="g", topics=None, require_stable=True)
    else:
        request = OffsetFetchRequest(groups=[Group(group_id="g", topics=None)], require_stable=True)
    assert harness.ask(request, version)
