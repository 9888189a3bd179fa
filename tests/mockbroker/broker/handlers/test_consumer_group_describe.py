"""ConsumerGroupDescribe: groups, members and assignments."""

from __future__ import annotations

from typing import Any

import pytest
from tools.consumer_group_harness import MixedGroupHarness

from kwire import ErrorCode as E
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from mockbroker.broker.handlers.handler import GROUP_OPERATIONS

UNASKED = -2_147_483_648


@pytest.fixture
def harness() -> MixedGroupHarness:
    return MixedGroupHarness()


def partitions_by_topic(assignment: Any) -> dict[Any, Any]:
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


def test_states(harness):
    harness.join("a")
    assert harness.describe().group_state == "Stable"
    harness.join("b")
    assert harness.describe().group_state == "Reconciling"
    harness.leave("b")
    described = harness.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Assigning", 3, 2)
    harness.leave("a")
    described = harness.describe()
    assert (described.group_state, described.members, described.assignor_name) == ("Empty", [], "uniform")


def test_members(harness):
    harness.join("a", ["u", "t"], instance_id="i", rack_id="r", subscribed_topic_regex="x.*")
    (member,) = harness.describe().members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("a", "i", "r", 1)
    assert (member.client_id, member.client_host, member.member_type) == ("a", "/127.0.0.1", 1)
    assert sorted(member.subscribed_topic_names) == ["t", "u"]
    assert member.subscribed_topic_regex == "x.*"
    assert (
        partitions_by_topic(member.assignment)
        == partitions_by_topic(member.target_assignment)
        == {"t": [0, 1, 2], "u": [0, 1]}
    )
    assert member.assignment.topic_partitions[0].topic_id in {harness.topic_id("t"), harness.topic_id("u")}


def test_assignment_and_target_assignment(harness):
    harness.join("a")
    harness.join("b")
    members = {member.member_id: member for member in harness.describe().members}
    assert partitions_by_topic(members["a"].assignment) == {"t": [0, 1, 2]}
    assert len(partitions_by_topic(members["a"].target_assignment)["t"]) == 2
    assert partitions_by_topic(members["b"].assignment) == {}
    assert len(partitions_by_topic(members["b"].target_assignment)["t"]) == 1


def test_deleted_topics_are_omitted(harness):
    harness.join("a", ["t", "u"])
    harness.broker.cluster.delete_topic(harness.broker.cluster.topics["t"])
    (member,) = harness.describe().members
    assert partitions_by_topic(member.assignment) == {"u": [0, 1]}


def test_members_of_the_classic_protocol(harness):
    harness.join("a")
    old = harness.classic()
    assert {member.member_id: member.member_type for member in harness.describe().members} == {"a": 1, old: 0}
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    assert harness.ask(request, 0).groups[0].members[0].member_type == -1, "version 0 does not tell"


def test_missing_and_classic_groups_are_not_found(harness):
    harness.classic()
    request = ConsumerGroupDescribeRequest(group_ids=["g", "nope", ""])
    described = harness.ask(request, 1).groups
    assert [(group.group_id, group.error_code, group.error_message) for group in described] == [
        ("g", E.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
        ("nope", E.GROUP_ID_NOT_FOUND, "Group nope not found."),
        ("", E.INVALID_GROUP_ID, None),
    ]
    assert {(group.group_state, group.group_epoch) for group in described} == {("", 0)}


@pytest.mark.parametrize(("requested", "operations"), [(True, GROUP_OPERATIONS), (False, UNASKED)])
def test_authorized_operations(harness, requested, operations):
    harness.join("a")
    request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=requested)
    assert harness.ask(request, 1).groups[0].authorized_operations == operations


def test_not_the_coordinator(harness):
    harness = MixedGroupHarness(brokers=3)
    other = next(node for node in harness.broker.cluster.nodes if node != harness.broker.coordinator("g"))
    described = harness.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1, node=other).groups[0]
    assert described.error_code == E.NOT_COORDINATOR
