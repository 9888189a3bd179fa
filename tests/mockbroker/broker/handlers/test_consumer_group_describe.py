"""ConsumerGroupDescribe: groups, members and their shares as administrators see them."""

from __future__ import annotations

from typing import Any

import pytest
from tools.consumers import Mixed

from kwire import ErrorCode as E
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from mockbroker.broker.handlers.handler import GROUP_OPERATIONS

UNASKED = -2_147_483_648


@pytest.fixture
def desk() -> Mixed:
    return Mixed()


def lines(assignment: Any) -> dict[Any, Any]:
    return {line.topic_name: line.partitions for line in assignment.topic_partitions}


def test_states(desk):
    desk.join("a")
    assert desk.describe().group_state == "Stable"
    desk.join("b")
    assert desk.describe().group_state == "Reconciling"
    desk.leave("b")
    found = desk.describe()
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Assigning", 3, 2)
    desk.leave("a")
    found = desk.describe()
    assert (found.group_state, found.members, found.assignor_name) == ("Empty", [], "uniform")


def test_members(desk):
    desk.join("a", ["u", "t"], instance_id="i", rack_id="r", subscribed_topic_regex="x.*")
    (member,) = desk.describe().members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("a", "i", "r", 1)
    assert (member.client_id, member.client_host, member.member_type) == ("a", "/127.0.0.1", 1)
    assert sorted(member.subscribed_topic_names) == ["t", "u"]
    assert member.subscribed_topic_regex == "x.*"
    assert lines(member.assignment) == lines(member.target_assignment) == {"t": [0, 1, 2], "u": [0, 1]}
    assert member.assignment.topic_partitions[0].topic_id in {desk.topic_id("t"), desk.topic_id("u")}


def test_what_a_member_has_and_what_it_shall_have(desk):
    desk.join("a")
    desk.join("b")
    members = {member.member_id: member for member in desk.describe().members}
    assert lines(members["a"].assignment) == {"t": [0, 1, 2]}
    assert len(lines(members["a"].target_assignment)["t"]) == 2
    assert lines(members["b"].assignment) == {}
    assert len(lines(members["b"].target_assignment)["t"]) == 1


def test_topics_that_are_gone_are_left_out(desk):
    desk.join("a", ["t", "u"])
    desk.broker.cluster.delete_topic(desk.broker.cluster.topics["t"])
    (member,) = desk.describe().members
    assert lines(member.assignment) == {"u": [0, 1]}


def test_members_of_the_classic_protocol(desk):
    desk.join("a")
    old = desk.classic()
    assert {member.member_id: member.member_type for member in desk.describe().members} == {"a": 1, old: 0}
    request = ConsumerGroupDescribeRequest(group_ids=["g"])
    assert desk.ask(request, 0).groups[0].members[0].member_type == -1, "version 0 does not tell"


def test_groups_that_are_none(desk):
    desk.classic()
    request = ConsumerGroupDescribeRequest(group_ids=["g", "nope", ""])
    found = desk.ask(request, 1).groups
    assert [(group.group_id, group.error_code, group.error_message) for group in found] == [
        ("g", E.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
        ("nope", E.GROUP_ID_NOT_FOUND, "Group nope not found."),
        ("", E.INVALID_GROUP_ID, None),
    ]
    assert {(group.group_state, group.group_epoch) for group in found} == {("", 0)}


@pytest.mark.parametrize(("asked", "told"), [(True, GROUP_OPERATIONS), (False, UNASKED)])
def test_operations(desk, asked, told):
    desk.join("a")
    request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=asked)
    assert desk.ask(request, 1).groups[0].authorized_operations == told


def test_another_broker(desk):
    desk = Mixed(brokers=3)
    other = next(node for node in desk.broker.cluster.nodes if node != desk.broker.coordinator("g"))
    found = desk.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1, node=other).groups[0]
    assert found.error_code == E.NOT_COORDINATOR
