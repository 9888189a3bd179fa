"""ConsumerGroupHeartbeat: validation of the fields, and the order of the checks."""

from __future__ import annotations

from typing import Any

import pytest
from tools.consumer_group_harness import ConsumerGroupHarness

from kwire import ErrorCode as E
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from mockbroker.base.release import RELEASES

JOIN = {
    "group_id": "g",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 5_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


def ask(harness: Any, version: int = 1, node: int | None = None, **fields: Any) -> Any:
    return harness.ask(ConsumerGroupHeartbeatRequest(**JOIN | fields), version, node=node)


@pytest.fixture
def harness() -> ConsumerGroupHarness:
    return ConsumerGroupHarness(topics={"t": 3})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
        (
            {"subscribed_topic_names": [f"t{n}" for n in range(10_001)]},
            "The subscription has 10001 topic names, the maximum is 10000: use several groups.",
        ),
    ],
)
def test_invalid_fields(harness, fields, text):
    response = ask(harness, **fields)
    assert (response.error_code, response.error_message) == (E.INVALID_REQUEST, text)
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == (None, 0, 0)
    assert not harness.broker.groups


def test_join_with_owned_partitions_is_rejected(harness):
    lines = harness.lines(frozenset({("t", 0)}))
    assert ask(harness, topic_partitions=lines).error_message == "TopicPartitions must be empty when (re-)joining."


@pytest.mark.parametrize(
    "fields", [{"subscribed_topic_names": []}, {"subscribed_topic_regex": "", "subscribed_topic_names": None}]
)
def test_empty_subscription_is_accepted(harness, fields):
    response = ask(harness, **fields)
    assert (response.error_code, response.member_epoch, response.assignment.topic_partitions) == (E.NONE, 1, [])


def test_v0_generates_member_ids(harness):
    response = ask(harness, 0, member_id="")
    assert response.error_code == E.NONE
    assert len(response.member_id) == 22
    assert ask(harness, 0, member_id="", member_epoch=1).error_code == E.INVALID_REQUEST


def test_unknown_assignor_precedes_the_group(harness):
    response = ask(harness, server_assignor="zz", member_epoch=5)
    assert response.error_code == E.UNSUPPORTED_ASSIGNOR
    assert response.error_message == "ServerAssignor zz is not supported. Supported assignors: uniform, range."


def test_invalid_fields_precede_not_coordinator():
    harness = ConsumerGroupHarness(topics={"t": 3}, brokers=3)
    other = next(node for node in harness.broker.cluster.nodes if node != harness.broker.coordinator("g"))
    assert ask(harness, node=other).error_code == E.NOT_COORDINATOR
    assert ask(harness, node=other, rack_id="").error_code == E.INVALID_REQUEST


def test_disabled_protocol_is_unsupported():
    harness = ConsumerGroupHarness(config={"group.coordinator.rebalance.protocols": "classic"})
    response = ask(harness, group_id="")
    assert (response.error_code, response.error_message) == (E.UNSUPPORTED_VERSION, None)
    assert harness.describe().error_code == E.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("config", "error"),
    [({}, E.UNSUPPORTED_VERSION), ({"group.coordinator.rebalance.protocols": "classic,consumer"}, E.NONE)],
)
def test_protocol_is_disabled_by_default_before_4_0(config, error):
    harness = ConsumerGroupHarness(config=config)
    harness.broker.release = RELEASES["3.9"]
    assert ask(harness, 0).error_code == error


@pytest.mark.parametrize(
    ("blank", "is_blank"),
    [(" ", True), ("\t", True), ("\0", True), ("\x1f", True), ("\x7f", False), ("\xa0", False), ("\u2003", False)],
)
@pytest.mark.parametrize("field", ["group_id", "member_id", "instance_id", "rack_id"])
def test_blank_means_the_characters_that_java_trims(harness, field, blank, is_blank):
    assert ask(harness, **{field: blank}).error_code == (E.INVALID_REQUEST if is_blank else E.NONE)
