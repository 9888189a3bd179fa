"""A classic group as DescribeGroups, snapshots and ``mockbroker import`` show it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from kwire.errors import WireError
from kwire.messages.describe_groups import DescribeGroupsResponse
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.classic.subscription import CONSUMER, readable_assignment
from mockbroker.groups.group_type import GroupView
from mockbroker.groups.records.wall_time import Wall

WALL = Wall(0.0)  # times of imported groups are seconds since 1970
Described = DescribeGroupsResponse.Group


# --- DescribeGroups -----------------------------------------------------------------------------------------------


def described(group: ClassicGroup) -> Described:
    """Return the group, without authorized operations."""
    stable = group.state is State.STABLE
    return Described(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if stable else "",
        members=[_described(group, member) for member in group.in_map_order()],
    )


def _described(group: ClassicGroup, member: Member) -> Described.Member:
    stable = group.state is State.STABLE and group.protocol is not None
    assigned = stable or not group.quirks.assignment_described_in_stable_only
    return Described.Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol or "") if stable else b"",
        member_assignment=member.assignment if assigned else b"",
    )


# --- snapshots ----------------------------------------------------------------------------------------------------


def view(group: ClassicGroup) -> GroupView:
    """Return what snapshots show."""
    return GroupView(
        protocol=group.protocol,
        leader=group.leader,
        assignments={
            member_id: readable_assignment(group.protocol_type, member.assignment)
            for member_id, member in group.members.items()
        },
    )


# --- mockbroker import --------------------------------------------------------------------------------------------


def to_json(group: ClassicGroup) -> dict[str, Any]:
    """Return the group without id and offsets. Bytes are base64; times are milliseconds since 1970 or null."""
    return {
        "type": "classic",
        "state": group.state_name,
        "state_timestamp_ms": WALL.ms(group.since) if group.since else None,
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "leader": group.leader or None,
        "members": [_member(group, member) for member in group.members.values()],
    }


def _member(group: ClassicGroup, member: Member) -> dict[str, Any]:
    subscription = member.metadata(group.protocol or "")
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "session_timeout_ms": round(member.session_timeout * 1000),
        "rebalance_timeout_ms": round(member.rebalance_timeout * 1000),
        "subscribed_topics": _topics(group.protocol_type, subscription),
        "subscription_bytes": _text(subscription),
        "assignment": _sorted(readable_assignment(group.protocol_type, member.assignment)),
        "assignment_bytes": _text(member.assignment),
    }


def _topics(protocol_type: str, subscription: bytes) -> list[str] | None:
    if protocol_type != CONSUMER:
        return None
    try:
        return list(decode_stored(ConsumerProtocolSubscription, subscription)[0].topics)
    except WireError:  # the bytes are the clients' own
        return None


def _sorted(assignment: Mapping[str, list[int]] | None) -> dict[str, list[int]] | None:
    return None if assignment is None else {topic: sorted(which) for topic, which in sorted(assignment.items())}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
