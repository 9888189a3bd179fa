"""The handler of ShareGroupDescribe v1, which returns the state, members and assignments of share groups."""

from __future__ import annotations

from kwire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.group_descriptions import MEMBER, assignment_size, describe_groups

Described = ShareGroupDescribeResponse.Group


def handle(broker: Broker, call: Call[ShareGroupDescribeRequest], now: float) -> Effects:  # noqa: ARG001
    return describe_groups(broker, call, ShareGroupDescribeResponse, "share", _size, served=broker.serves_share_groups)


def _size(described: Described) -> int:
    return len(described.group_id) + sum(
        MEMBER + sum(map(len, member.subscribed_topic_names)) + assignment_size(member.assignment)
        for member in described.members
    )
