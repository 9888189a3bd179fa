"""DescribeGroups."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness, stable_member

from kwire import ErrorCode as E
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.heartbeat import HeartbeatRequest

NOT_ASKED = -2147483648


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


def describe(harness: BrokerHarness, version: int, *groups: Any, **how: Any) -> Any:
    return harness.ask(DescribeGroupsRequest(groups=list(groups), **how), version).groups


@pytest.mark.parametrize("version", range(7))
def test_missing_group(harness, version):
    (group,) = describe(harness, version, "g")
    assert (group.group_state, group.protocol_type, group.members) == ("Dead", "", [])
    assert group.error_code == (E.GROUP_ID_NOT_FOUND if version >= 6 else E.NONE)
    assert bool(group.error_message) is (version >= 6)


@pytest.mark.parametrize("version", range(7))
def test_stable_group(harness, version):
    member_id = stable_member(harness, "g", metadata=b"wants", assignment=b"gets")
    (group,) = describe(harness, version, "g")
    assert (group.error_code, group.group_state) == (E.NONE, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"wants", b"gets")
    assert group.authorized_operations == NOT_ASKED


def test_rebalancing_group_has_the_last_assignment(harness):
    stable_member(harness, "g", metadata=b"wants", assignment=b"gets")
    harness.send(harness.join("g", "", b"new"), 3)
    (group,) = describe(harness, 5, "g")
    assert (group.group_state, group.protocol_data, len(group.members)) == ("PreparingRebalance", "", 2)
    assert {(member.member_metadata, member.member_assignment) for member in group.members} == {
        (b"", b"gets"),
        (b"", b""),
    }


def test_duplicate_group_is_described_twice(harness):
    assert [group.group_id for group in describe(harness, 5, "g", "h", "g")] == ["g", "h", "g"]


def test_authorized_operations_if_requested(harness):
    stable_member(harness, "g")
    (group,) = describe(harness, 3, "g", include_authorized_operations=True)
    assert group.authorized_operations == 3400


def test_not_the_coordinator():
    harness = BrokerHarness(brokers=3)
    other = next(node for node in range(3) if node != harness.broker.coordinator("g"))
    (group,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 5, node=other).groups
    assert group.error_code == E.NOT_COORDINATOR


def test_static_member_has_its_instance_id(harness):
    member_id = stable_member(harness, "g", instance_id="shelf-7")
    (group,) = describe(harness, 4, "g")
    assert group.members[0].group_instance_id == "shelf-7"
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id, group_instance_id="shelf-7")
    assert harness.ask(beat, 4).error_code == E.NONE
