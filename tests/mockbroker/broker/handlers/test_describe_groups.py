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
    (found,) = describe(harness, version, "g")
    assert (found.group_state, found.protocol_type, found.members) == ("Dead", "", [])
    assert found.error_code == (E.GROUP_ID_NOT_FOUND if version >= 6 else E.NONE)
    assert bool(found.error_message) is (version >= 6)


@pytest.mark.parametrize("version", range(7))
def test_stable_group(harness, version):
    who = stable_member(harness, "g", metadata=b"wants", assignment=b"gets")
    (found,) = describe(harness, version, "g")
    assert (found.error_code, found.group_state) == (E.NONE, "Stable")
    assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
    (one,) = found.members
    assert (one.member_id, one.client_id, one.client_host) == (who, "client", "/127.0.0.1")
    assert (one.member_metadata, one.member_assignment) == (b"wants", b"gets")
    assert found.authorized_operations == NOT_ASKED


def test_rebalancing_group_has_the_last_assignment(harness):
    stable_member(harness, "g", metadata=b"wants", assignment=b"gets")
    harness.send(harness.join("g", "", b"new"), 3)
    (found,) = describe(harness, 5, "g")
    assert (found.group_state, found.protocol_data, len(found.members)) == ("PreparingRebalance", "", 2)
    assert {(one.member_metadata, one.member_assignment) for one in found.members} == {(b"", b"gets"), (b"", b"")}


def test_duplicate_group_is_described_twice(harness):
    assert [found.group_id for found in describe(harness, 5, "g", "h", "g")] == ["g", "h", "g"]


def test_authorized_operations_if_requested(harness):
    stable_member(harness, "g")
    (found,) = describe(harness, 3, "g", include_authorized_operations=True)
    assert found.authorized_operations == 3400


def test_not_the_coordinator():
    harness = BrokerHarness(brokers=3)
    other = next(node for node in range(3) if node != harness.broker.coordinator("g"))
    (found,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 5, node=other).groups
    assert found.error_code == E.NOT_COORDINATOR


def test_static_member_has_its_instance_id(harness):
    who = stable_member(harness, "g", instance_id="shelf-7")
    (found,) = describe(harness, 4, "g")
    assert found.members[0].group_instance_id == "shelf-7"
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=who, group_instance_id="shelf-7")
    assert harness.ask(beat, 4).error_code == E.NONE
