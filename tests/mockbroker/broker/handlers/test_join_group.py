"""JoinGroup: versions, and the order of checks before the group handles the request."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.join_group import JoinGroupRequest

VERSIONS = range(10)
LIMITS = {"group.min.session.timeout.ms": 6_000, "group.max.session.timeout.ms": 1_800_000}


def join(**changes: Any) -> JoinGroupRequest:
    fields = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.Protocol(name="range", metadata=b"m")],
    }
    return JoinGroupRequest(**fields | changes)


@pytest.fixture
def harness() -> BrokerHarness:
    return BrokerHarness()


@pytest.mark.parametrize("version", VERSIONS)
def test_first_join(harness, version):
    sent = harness.send(join(), version, client_id="me")
    if version >= 4:
        assert sent.answer.error_code == E.MEMBER_ID_REQUIRED
        assert sent.answer.generation_id == -1
        assert sent.answer.protocol_name == ("" if version < 7 else None)
        sent = harness.send(join(member_id=sent.answer.member_id), version)
    response = sent.answer
    assert response.error_code == E.NONE
    assert (response.generation_id, response.protocol_name, response.skip_assignment) == (1, "range", False)
    assert response.leader == response.member_id
    assert re.fullmatch(r"me-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", response.member_id)
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert [(m.member_id, m.metadata, m.group_instance_id) for m in response.members] == [
        (response.member_id, b"m", None)
    ]


def test_member_id_of_a_client_without_client_id(harness):
    assert re.fullmatch(r"-[0-9a-f-]{36}", harness.ask(join(), 4, client_id="").member_id)


REFUSED = [  # fields, whether on the coordinator, error
    pytest.param({"group_id": ""}, True, E.INVALID_GROUP_ID, id="empty group id"),
    pytest.param(
        {"group_id": "", "session_timeout_ms": 1},
        False,
        E.INVALID_GROUP_ID,
        id="INVALID_GROUP_ID before INVALID_SESSION_TIMEOUT and NOT_COORDINATOR",
    ),
    pytest.param({"session_timeout_ms": 5_999}, True, E.INVALID_SESSION_TIMEOUT, id="session timeout too short"),
    pytest.param({"session_timeout_ms": 1}, True, E.INVALID_SESSION_TIMEOUT, id="session timeout of 1 ms"),
    pytest.param({"session_timeout_ms": -1}, True, E.INVALID_SESSION_TIMEOUT, id="negative session timeout"),
    pytest.param({"session_timeout_ms": 1_800_001}, True, E.INVALID_SESSION_TIMEOUT, id="session timeout too long"),
    pytest.param({"session_timeout_ms": 2**31 - 1}, True, E.INVALID_SESSION_TIMEOUT, id="session timeout of 2^31-1"),
    pytest.param(
        {"session_timeout_ms": 1, "member_id": "z"},
        True,
        E.INVALID_SESSION_TIMEOUT,
        id="INVALID_SESSION_TIMEOUT before UNKNOWN_MEMBER_ID",
    ),
    pytest.param(
        {"session_timeout_ms": 1, "protocols": []},
        True,
        E.INVALID_SESSION_TIMEOUT,
        id="INVALID_SESSION_TIMEOUT before INCONSISTENT_GROUP_PROTOCOL",
    ),
    pytest.param(
        {"session_timeout_ms": 1}, False, E.INVALID_SESSION_TIMEOUT, id="INVALID_SESSION_TIMEOUT before NOT_COORDINATOR"
    ),
    pytest.param({}, False, E.NOT_COORDINATOR, id="not the coordinator"),
    pytest.param({"member_id": "z"}, False, E.NOT_COORDINATOR, id="NOT_COORDINATOR before UNKNOWN_MEMBER_ID"),
    pytest.param({"member_id": "z"}, True, E.UNKNOWN_MEMBER_ID, id="absent group"),
    pytest.param(
        {"member_id": "z", "protocols": []},
        True,
        E.UNKNOWN_MEMBER_ID,
        id="UNKNOWN_MEMBER_ID before INCONSISTENT_GROUP_PROTOCOL, no group",
    ),
    pytest.param({"protocols": []}, True, E.INCONSISTENT_GROUP_PROTOCOL, id="no protocols"),
    pytest.param({"protocol_type": ""}, True, E.INCONSISTENT_GROUP_PROTOCOL, id="empty protocol type"),
]


@pytest.mark.parametrize("version", [0, 3, 4, 6, 7, 9])
@pytest.mark.parametrize(("fields", "here", "error"), REFUSED)
def test_rejected(version, fields, here, error):
    harness = BrokerHarness(brokers=3, config=LIMITS)
    request = join(**fields)
    node = (harness.broker.coordinator(request.group_id) + (not here)) % 3
    response = harness.ask(request, version, node=node)
    assert response.error_code == error
    assert (response.member_id, response.generation_id, response.leader) == (request.member_id, -1, "")
    assert (response.protocol_type, response.protocol_name) == (None, "" if version < 7 else None)
    assert response.members == []


@pytest.mark.parametrize("timeout", [6_000, 1_800_000])
def test_session_timeout_bounds_are_inclusive(timeout):
    harness = BrokerHarness(config=LIMITS)
    assert harness.ask(join(session_timeout_ms=timeout), 0).error_code == E.NONE


def test_join_with_invalid_protocols_creates_the_group(harness):
    harness.ask(join(protocols=[]), 5)
    assert list(harness.broker.groups) == ["g"]


def test_other_rejected_joins_create_no_group(harness):
    harness.ask(join(member_id="z"), 5)
    harness.ask(join(session_timeout_ms=1), 5)
    assert harness.broker.groups == {}


def test_v0_rebalance_timeout_is_the_session_timeout(harness):
    """JoinGroup v0 has no rebalance timeout."""
    first = harness.ask(join(session_timeout_ms=1_500, rebalance_timeout_ms=-1), 0).member_id
    assert harness.broker.groups["g"].members[first].rebalance_timeout == 1.5


@pytest.mark.parametrize("version", [5, 9])
def test_id_of_a_static_member_begins_with_its_instance_id(harness, version):
    response = harness.ask(join(group_instance_id="shelf-7"), version)
    assert response.error_code == E.NONE
    assert response.member_id.startswith("shelf-7-")
    assert [member.group_instance_id for member in response.members] == ["shelf-7"]


@pytest.mark.parametrize("group_id", ["x" * 32_767, "a\0b", "a\nb", "../../etc/passwd", "\U0001f600"])
def test_any_group_id_is_accepted(harness, group_id):
    assert harness.ask(join(group_id=group_id), 0).error_code == E.NONE


def test_first_of_duplicate_protocol_names_wins(harness):
    twice = [JoinGroupRequest.Protocol(name="range", metadata=text) for text in (b"1", b"2")]
    response = harness.ask(join(protocols=twice), 3)
    assert [member.metadata for member in response.members] == [b"1"]


def test_undecodable_metadata_is_stored(harness):
    garbage = bytes(range(256)) * 40
    response = harness.ask(join(protocols=[JoinGroupRequest.Protocol(name="range", metadata=garbage)]), 3)
    assert [member.metadata for member in response.members] == [garbage]


@pytest.mark.parametrize("version", VERSIONS)
def test_delayed_error_is_encoded_in_the_request_version(version):
    """The response to a pending JoinGroup has the format of the request's version."""
    harness = BrokerHarness(config={"group.initial.rebalance.delay.ms": 400_000})
    sent = harness.send(join(), version)
    if version >= 4:
        sent = harness.send(join(member_id=sent.answer.member_id), version)
    assert sent.parked
    harness.wait(300.0)
    assert (sent.answer.error_code, sent.answer.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert sent.answer.protocol_name == ("" if version < 7 else None)


def test_member_id_of_a_long_client_id_is_cut():
    """All members receive the member id of the leader, so it must fit into a string."""
    harness = BrokerHarness(config={"group.initial.rebalance.delay.ms": 500})
    long = harness.send(join(), 3, client_id="x" * 32_740)
    honest = harness.send(join(), 3)
    harness.wait(2.0)
    assert len(long.answer.member_id) == 32_767
    assert honest.answer.leader == long.answer.member_id
