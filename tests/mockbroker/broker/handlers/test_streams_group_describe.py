"""StreamsGroupDescribe: topology, members and tasks."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import stable_member
from tools.streams_group_harness import WORD_COUNT, Request, StreamsGroupHarness, internal, part, topology

from kwire import ErrorCode as E
from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.messages.streams_group_heartbeat import KeyValue
from mockbroker.broker.handlers.handler import GROUP_OPERATIONS


@pytest.fixture
def harness() -> StreamsGroupHarness:
    return StreamsGroupHarness()


def tasks_of(assignment: Any) -> dict[str, list[int]]:
    return {each.subtopology_id: each.partitions for each in assignment.active_tasks}


def test_topology_has_partitions_once_it_is_complete(harness: StreamsGroupHarness) -> None:
    harness.join("a", WORD_COUNT)
    described = harness.describe()
    assert (described.group_state, described.topology.epoch) == ("NotReady", 0)
    assert [topic.partitions for topic in described.topology.subtopologies[1].state_changelog_topics] == [0]
    harness.poll("a")
    described = harness.describe()
    first, second = described.topology.subtopologies
    assert (described.group_state, first.source_topics, first.repartition_sink_topics) == ("Stable", ["t"], ["again"])
    topics = [*second.repartition_source_topics, *second.state_changelog_topics]
    assert [(topic.name, topic.partitions) for topic in topics] == [("again", 3), ("log", 3)]


def test_members(harness: StreamsGroupHarness) -> None:
    tags = [KeyValue(key="zone", value="z")]
    harness.join("a", process_id="p", rack_id="r", client_tags=tags, user_endpoint=Request.Endpoint(host="h", port=9))
    (member,) = harness.describe().members
    assert (member.member_id, member.member_epoch, member.process_id, member.rack_id) == ("a", 2, "p", "r")
    assert (member.client_id, member.client_host, member.topology_epoch) == ("a", "/127.0.0.1", 0)
    assert (member.user_endpoint.host, member.user_endpoint.port) == ("h", 9)
    assert [(tag.key, tag.value) for tag in member.client_tags] == [("zone", "z")]
    assert (member.instance_id, member.task_offsets, member.is_classic) == (None, [], False)
    assert tasks_of(member.assignment) == tasks_of(member.target_assignment) == {"0": [0, 1, 2]}


def test_target_differs_until_the_member_has_reconciled(harness: StreamsGroupHarness) -> None:
    harness.join("a")
    harness.join("b")
    members = {member.member_id: member for member in harness.describe().members}
    assert harness.describe().group_state == "Reconciling"
    assert len(tasks_of(members["a"].target_assignment)["0"]) == 2
    assert tasks_of(members["a"].assignment) == {"0": [0, 1, 2]}


def test_groups_that_are_not_streams_groups(harness: StreamsGroupHarness) -> None:
    stable_member(harness, "c")
    groups = harness.ask(StreamsGroupDescribeRequest(group_ids=["none", "c", ""]), 0).groups
    assert [(group.error_code, group.error_message) for group in groups] == [
        (E.GROUP_ID_NOT_FOUND, "Group none not found."),
        (E.GROUP_ID_NOT_FOUND, "Group c is not a streams group."),
        (E.INVALID_GROUP_ID, None),
    ]


def test_operations_on_request_and_unsupported_when_switched_off(harness: StreamsGroupHarness) -> None:
    harness.join("a", topology(part("0", "t", state_changelog_topics=[internal("log")])))
    request = StreamsGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    assert harness.ask(request, 0).groups[0].authorized_operations == GROUP_OPERATIONS
    off = StreamsGroupHarness(config={"group.coordinator.rebalance.protocols": "classic"})
    assert off.describe().error_code == E.UNSUPPORTED_VERSION
