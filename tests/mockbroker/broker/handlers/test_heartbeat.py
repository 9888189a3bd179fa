"""Heartbeat: every version. Responses by state of the group: tests/mockbroker/groups/classic/test_rules.py."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest

VERSIONS = range(5)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness(brokers=3)


def test_groups_of_the_test_have_different_coordinators():
    assert BrokerHarness(brokers=1).broker.coordinator("g") == 0
    assert BrokerHarness(brokers=3).broker.coordinator("g") in range(3)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("group_id", "elsewhere", "error"),
    [
        pytest.param("", False, E.INVALID_GROUP_ID, id="empty group id"),
        pytest.param("", True, E.INVALID_GROUP_ID, id="INVALID_GROUP_ID before NOT_COORDINATOR"),
        pytest.param("g", True, E.NOT_COORDINATOR, id="not the coordinator"),
        pytest.param("g", False, E.UNKNOWN_MEMBER_ID, id="absent group"),
    ],
)
def test_rejected(harness, version, group_id, elsewhere, error):
    node = (harness.broker.coordinator(group_id) + elsewhere) % 3
    request = HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
    assert harness.ask(request, version, node=node).error_code == error
    assert harness.broker.groups == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_heartbeat_of_a_member(version):
    harness = BrokerHarness()
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )
    member_id = harness.ask(join, 1).member_id
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    for _ in range(3):
        harness.wait(0.9)
        assert harness.ask(beat, version).error_code == E.NONE
    harness.wait(1.0)
    assert harness.ask(beat, version).error_code == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [3, 4])
def test_unknown_instance_id(version):
    harness = BrokerHarness()
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="i")
    assert harness.ask(beat, version).error_code == E.UNKNOWN_MEMBER_ID
