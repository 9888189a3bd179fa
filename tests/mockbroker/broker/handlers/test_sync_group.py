"""SyncGroup: every version."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.sync_group import SyncGroupRequest

VERSIONS = range(6)


def sync(version: int, **changes: Any) -> SyncGroupRequest:
    fields = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    if version >= 5:
        fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    return SyncGroupRequest(**fields | changes)


def joined(harness: BrokerHarness) -> str:
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )
    return harness.ask(join, 3).member_id


@pytest.mark.parametrize("version", VERSIONS)
def test_leader_gets_its_assignment(version):
    harness = BrokerHarness()
    member_id = joined(harness)
    plan = [SyncGroupRequest.Assignment(member_id=member_id, assignment=b"plan")]
    response = harness.ask(sync(version, member_id=member_id, assignments=plan), version)
    assert (response.error_code, response.assignment) == (E.NONE, b"plan")
    protocol = ("consumer", "range") if version >= 5 else (None, None)
    assert (response.protocol_type, response.protocol_name) == protocol


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("group_id", "here", "error"),
    [
        pytest.param("", True, E.INVALID_GROUP_ID, id="empty group id"),
        pytest.param("", False, E.INVALID_GROUP_ID, id="INVALID_GROUP_ID before NOT_COORDINATOR"),
        pytest.param("g", False, E.NOT_COORDINATOR, id="not the coordinator"),
        pytest.param("g", True, E.UNKNOWN_MEMBER_ID, id="absent group"),
    ],
)
def test_rejected(version, group_id, here, error):
    harness = BrokerHarness(brokers=3)
    node = (harness.broker.coordinator(group_id) + (not here)) % 3
    response = harness.ask(sync(version, group_id=group_id), version, node=node)
    assert (response.error_code, response.assignment) == (error, b"")
    assert (response.protocol_type, response.protocol_name) == (None, None)
    assert harness.broker.groups == {}


@pytest.mark.parametrize("absent", ["protocol_type", "protocol_name"])
def test_v5_protocol_type_and_name_are_checked_first(absent):
    response = BrokerHarness(brokers=3).ask(sync(5, group_id="", **{absent: None}), 5, node=1)
    assert response.error_code == E.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", [3, 4, 5])
def test_unknown_instance_id(version):
    harness = BrokerHarness()
    member_id = joined(harness)
    response = harness.ask(sync(version, member_id=member_id, group_instance_id="i"), version)
    assert response.error_code == E.UNKNOWN_MEMBER_ID


def test_last_of_two_assignments_of_a_member_counts():
    harness = BrokerHarness()
    member_id = joined(harness)
    plan = [SyncGroupRequest.Assignment(member_id=member_id, assignment=text) for text in (b"1", b"2")]
    assert harness.ask(sync(0, member_id=member_id, assignments=plan), 0).assignment == b"2"
