"""Descriptions of a classic group: for DescribeGroups, snapshots and ``mockbroker import``."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.errors import WireError
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.classic.subscription import CONSUMER, decode_assignment
from mockbroker.groups.group_type import GroupView, MemberDescription
from mockbroker.groups.records.wall_time import WallClock

if TYPE_CHECKING:  # imported on demand: a group is created without it
    from kwire.messages.describe_groups import DescribeGroupsResponse

    Described = DescribeGroupsResponse.Group

WALL = WallClock(0.0)  # the times of imported groups are seconds since 1970


# --- DescribeGroups -----------------------------------------------------------------------------------------------


def describe(group: ClassicGroup) -> Described:
    """Return the group as an element of DescribeGroupsResponse, without authorized operations."""
    from kwire.messages.describe_groups import DescribeGroupsResponse

    stable = group.state is State.STABLE
    return DescribeGroupsResponse.Group(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if stable else "",
        members=[_describe_member(group, member) for member in group.in_map_order()],
    )


def _describe_member(group: ClassicGroup, member: Member) -> Described.Member:
    from kwire.messages.describe_groups import DescribeGroupsResponse

    protocol = group.protocol if group.state is State.STABLE else None
    assigned = protocol is not None or not group.quirks.assignment_described_in_stable_only
    return DescribeGroupsResponse.Group.Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol is None else member.metadata(protocol),
        member_assignment=member.assignment if assigned else b"",
    )


# --- snapshots ----------------------------------------------------------------------------------------------------


def view(group: ClassicGroup) -> GroupView:
    """Return the fields of a group snapshot that depend on the group type: protocol, leader and assignments."""
    return GroupView(
        protocol=group.protocol,
        leader=group.leader,
        assignments={
            member_id: decode_assignment(group.protocol_type, member.assignment)
            for member_id, member in group.members.items()
        },
    )


# --- control API --------------------------------------------------------------------------------------------------


def member_description(group: ClassicGroup, member: Member) -> MemberDescription:
    """Return ``member``, a member of ``group``, as the control API shows it."""
    subscription = _subscribed_topics(group.protocol_type, _subscription(group, member))
    return MemberDescription(
        member_id=member.member_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=round(member.session_timeout * 1000),
        instance_id=member.instance_id,
        subscription=subscription,
        assignment=_sorted(decode_assignment(group.protocol_type, member.assignment)),
    )


# --- mockbroker import --------------------------------------------------------------------------------------------


def to_json(group: ClassicGroup) -> dict[str, Any]:
    """Return the JSON object that ``mockbroker import`` prints for a group, without group id and offsets.

    Bytes are base64. ``state_timestamp_ms`` is in milliseconds since 1970; None if unknown.
    """
    return {
        "type": "classic",
        "state": group.state_name,
        "state_timestamp_ms": WALL.to_ms(group.state_since) if group.state_since else None,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader or None,
        "members": [_member_to_json(group, member) for member in group.members.values()],
    }


def _member_to_json(group: ClassicGroup, member: Member) -> dict[str, Any]:
    subscription = _subscription(group, member)
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": round(member.session_timeout * 1000),
        "rebalance_timeout_ms": round(member.rebalance_timeout * 1000),
        "subscribed_topics": _subscribed_topics(group.protocol_type, subscription),
        "subscription_bytes": _base64(subscription),
        "assignment": _sorted(decode_assignment(group.protocol_type, member.assignment)),
        "assignment_bytes": _base64(member.assignment),
    }


def _subscription(group: ClassicGroup, member: Member) -> bytes:
    """Return the metadata of a member for the selected protocol of the group.

    The result is empty if no protocol is selected, or if the member rejoined without the selected protocol.
    """
    return next((metadata for name, metadata in member.protocols if name == group.protocol), b"")


def _subscribed_topics(protocol_type: str, subscription: bytes) -> list[str] | None:
    if protocol_type != CONSUMER:
        return None
    try:
        return list(decode_stored(ConsumerProtocolSubscription, subscription)[0].topics)
    except WireError:  # clients may send any bytes
        return None


def _sorted(assignment: Mapping[str, list[int]] | None) -> dict[str, list[int]] | None:
    return None if assignment is None else {topic: sorted(indexes) for topic, indexes in sorted(assignment.items())}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
