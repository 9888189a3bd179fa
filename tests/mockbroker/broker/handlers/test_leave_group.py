"""LeaveGroup: one member up to v2, several from v3 on."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.leave_group import LeaveGroupRequest

VERSIONS = range(6)


def leave(version: int, *member_ids: str, group_id: str = "g") -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(group_id=group_id, member_id=member_ids[0])
    members = [LeaveGroupRequest.Member(member_id=member_id) for member_id in member_ids]
    return LeaveGroupRequest(group_id=group_id, members=members)


def join(harness: BrokerHarness, version: int = 3) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
    )
    return harness.send(request, version)


def errors(version: int, response: Any) -> list[int]:
    """Return the error codes of the members. From v3 on, the top-level error code must be NONE."""
    if version < 3:
        return [response.error_code]
    assert response.error_code == E.NONE
    return [member.error_code for member in response.members]


@pytest.mark.parametrize("version", VERSIONS)
def test_member_leaves(version):
    harness = BrokerHarness()
    member_id = join(harness).answer.member_id
    assert errors(version, harness.ask(leave(version, member_id), version)) == [E.NONE]
    assert harness.broker.groups["g"].members == {}
    assert errors(version, harness.ask(leave(version, member_id), version)) == [E.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", VERSIONS)
def test_absent_group(version):
    harness = BrokerHarness()
    assert errors(version, harness.ask(leave(version, "z"), version)) == [E.UNKNOWN_MEMBER_ID]
    assert harness.broker.groups == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_pending_member_leaves(version):
    harness = BrokerHarness()
    member_id = join(harness, 4).answer.member_id
    assert errors(version, harness.ask(leave(version, member_id), version)) == [E.NONE]
    assert harness.broker.groups["g"].pending_members == {}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("group_id", "here", "error"),
    [
        pytest.param("", True, E.INVALID_GROUP_ID, id="empty group id"),
        pytest.param("", False, E.INVALID_GROUP_ID, id="INVALID_GROUP_ID before NOT_COORDINATOR"),
        pytest.param("g", False, E.NOT_COORDINATOR, id="not the coordinator"),
    ],
)
def test_rejected(version, group_id, here, error):
    harness = BrokerHarness(brokers=3)
    node = (harness.broker.coordinator(group_id) + (not here)) % 3
    response = harness.ask(leave(version, "z", group_id=group_id), version, node=node)
    assert (response.error_code, response.members) == (error, [])


@pytest.mark.parametrize("version", [3, 4, 5])
def test_batch_echoes_member_and_instance_ids(version):
    harness = BrokerHarness()
    member_id = join(harness).answer.member_id
    members = [
        LeaveGroupRequest.Member(member_id=member_id),
        LeaveGroupRequest.Member(member_id="unknown"),
        LeaveGroupRequest.Member(member_id="", group_instance_id="i"),
    ]
    response = harness.ask(LeaveGroupRequest(group_id="g", members=members), version)
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in response.members] == [
        (member_id, None, E.NONE),
        ("unknown", None, E.UNKNOWN_MEMBER_ID),
        ("", "i", E.UNKNOWN_MEMBER_ID),
    ]


def test_no_members():
    assert errors(3, BrokerHarness().ask(leave(3), 3)) == []


def test_v5_reason_is_journaled():
    harness = BrokerHarness()
    member_id = join(harness).answer.member_id
    leaving = LeaveGroupRequest.Member(member_id=member_id, reason="the consumer is being closed")
    harness.ask(LeaveGroupRequest(group_id="g", members=[leaving]), 5)
    assert [event.reason for event in harness.journal.events if event.event == "leave"] == [
        "the consumer is being closed"
    ]
