"""The descriptions of a classic group: for DescribeGroups, the control API and ``mockbroker import``."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tools.group_harness import GroupHarness

from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from mockbroker.groups.classic.description import describe, member_description, to_json, view
from mockbroker.groups.classic.state import ClassicGroup, Member, State

SUBSCRIPTION = encode_stored(ConsumerProtocolSubscription(topics=["t", "u"]), 0)
ASSIGNMENT = encode_stored(
    ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic="u", partitions=[1, 0]),
            ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[2]),
        ]
    ),
    0,
)


def group_of(
    *, assignment: bytes = ASSIGNMENT, subscription: bytes = SUBSCRIPTION, kind: str = "consumer"
) -> GroupHarness:
    """Return a stable group of the static member ``m``, whose session and rebalance timeouts are 10 and 60 s."""
    harness = GroupHarness()
    protocols = (("other", b"o"), ("range", subscription))
    harness.join_as("", "m", protocols, instance_id="i", protocol_type=kind)
    harness.group.protocol = "range"
    harness.sync("m", {"m": assignment})
    assert harness.state is State.STABLE
    return harness


def test_member_is_printed_with_all_that_is_known() -> None:
    group = group_of().group
    group.state_since = 5.25
    assert to_json(group) == {
        "type": "classic",
        "state": "Stable",
        "state_timestamp_ms": 5_250,
        "generation": 1,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": "m",
        "members": [
            {
                "member_id": "m",
                "instance_id": "i",
                "client_id": "client",
                "client_host": "/127.0.0.1",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 60_000,
                "subscribed_topics": ["t", "u"],
                "subscription_bytes": "AAAAAAACAAF0AAF1/////w==",
                "assignment": {"t": [2], "u": [0, 1]},
                "assignment_bytes": "AAAAAAACAAF1AAAAAgAAAAEAAAAAAAF0AAAAAQAAAAL/////",
            }
        ],
    }


def test_unknown_time_and_leader_are_null() -> None:
    printed = to_json(ClassicGroup(group_id="g", initial_delay=0.0))
    assert (printed["state"], printed["state_timestamp_ms"], printed["leader"], printed["members"]) == (
        *("Empty", None, None),
        [],
    )


@pytest.mark.parametrize(
    ("subscription", "kind", "topics"),
    [(SUBSCRIPTION, "consumer", ["t", "u"]), (b"\x00", "consumer", None), (SUBSCRIPTION, "connect", None)],
)
def test_only_consumers_have_subscribed_topics(subscription: bytes, kind: str, topics: list[str] | None) -> None:
    group = group_of(subscription=subscription, kind=kind).group
    assert to_json(group)["members"][0]["subscribed_topics"] == topics
    assert member_description(group, group.members["m"]).subscription == topics


def test_member_of_the_control_api_has_milliseconds() -> None:
    group = group_of().group
    member = member_description(group, group.members["m"])
    assert (member.member_id, member.client_id, member.client_host) == ("m", "client", "/127.0.0.1")
    assert (member.session_timeout_ms, member.instance_id) == (10_000, "i")
    assert member.assignment == {"t": [2], "u": [0, 1]}


def test_view_has_protocol_leader_and_assignments() -> None:
    shown = view(group_of().group)
    assert (shown.protocol, shown.leader, shown.assignments) == ("range", "m", {"m": {"t": [2], "u": [1, 0]}})


@pytest.mark.parametrize(
    ("state", "in_stable_only", "metadata", "assignment"),
    [
        (State.STABLE, True, SUBSCRIPTION, ASSIGNMENT),
        (State.STABLE, False, SUBSCRIPTION, ASSIGNMENT),
        (State.COMPLETING, True, b"", b""),
        (State.COMPLETING, False, b"", ASSIGNMENT),
        (State.PREPARING, True, b"", b""),
    ],
)
def test_assignment_is_described_in_a_stable_group(
    state: State, in_stable_only: bool, metadata: bytes, assignment: bytes
) -> None:
    group = group_of().group
    group.quirks = replace(group.quirks, assignment_described_in_stable_only=in_stable_only)
    group.state = state
    described = describe(group)
    [member] = described.members
    assert (described.group_id, described.group_state, described.protocol_type) == ("g", state.value, "consumer")
    assert described.protocol_data == ("range" if state is State.STABLE else "")
    assert (member.member_id, member.group_instance_id, member.client_id) == ("m", "i", "client")
    assert (member.member_metadata, member.member_assignment) == (metadata, assignment)


def test_stable_group_without_a_protocol_has_no_metadata() -> None:
    group = group_of().group
    group.protocol = None
    [member] = describe(group).members
    assert (describe(group).protocol_data, member.member_metadata) == ("", b"")


def test_timeouts_of_a_member_are_in_milliseconds() -> None:
    group = ClassicGroup(group_id="g", initial_delay=0.0, protocol_type="consumer")
    group.add_member(
        Member(
            member_id="m",
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=10.0,
            rebalance_timeout=60.0,
            protocols=(("range", b""),),
        )
    )
    (member,) = to_json(group)["members"]
    assert (member["session_timeout_ms"], member["rebalance_timeout_ms"]) == (10_000, 60_000)
