"""The handler of ConsumerGroupDescribe v0-1, which returns the state, members and assignments of consumer groups."""

from __future__ import annotations

from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.broker.group_descriptions import MEMBER, assignment_size, describe_groups

Described = ConsumerGroupDescribeResponse.Group


def handle(broker: Broker, call: Call[ConsumerGroupDescribeRequest], now: float) -> Effects:  # noqa: ARG001
    return describe_groups(
        broker, call, ConsumerGroupDescribeResponse, "consumer", _size, served=broker.serves_consumer_protocol
    )


def _size(described: Described) -> int:
    return len(described.group_id) + sum(
        MEMBER
        + sum(map(len, member.subscribed_topic_names))
        + assignment_size(member.assignment)
        + assignment_size(member.target_assignment)
        for member in described.members
    )
