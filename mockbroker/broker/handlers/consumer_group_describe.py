"""ConsumerGroupDescribe: v0-1. Not modelled: authorization (everything is allowed)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import GROUP_OPERATIONS, Handler

Described = ConsumerGroupDescribeResponse.Group
Assignment = Described.Member.Assignment
MEMBER, TOPIC = 100, 20  # approximate bytes of a member and of a topic in a response, without names and partitions


def handle(broker: Broker, call: Call[ConsumerGroupDescribeRequest], now: float) -> Effects:  # noqa: ARG001
    """Describe each group in the request, duplicates included, as Kafka does."""
    room = broker.response_room()
    groups = room.describe_each(call.request.group_ids, lambda group_id: _describe(broker, call, group_id), _size)
    return [Reply(call.ticket, ConsumerGroupDescribeResponse(groups=groups))]


def _size(described: Described) -> int:
    return len(described.group_id) + sum(
        MEMBER
        + sum(map(len, member.subscribed_topic_names))
        + _assignment_size(member.assignment)
        + _assignment_size(member.target_assignment)
        for member in described.members
    )


def _assignment_size(assignment: Assignment) -> int:
    return sum(TOPIC + len(topic.topic_name) + 4 * len(topic.partitions) for topic in assignment.topic_partitions)


def _describe(broker: Broker, call: Call[ConsumerGroupDescribeRequest], group_id: str) -> Described:
    if not broker.serves_consumer_protocol:
        return Described(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if error := broker.group_error(group_id, call.client.node):
        return Described(group_id=group_id, error_code=error)
    group = broker.groups.get(group_id)
    described = (
        None if group is None else broker.groups.types.of(group).describe(group, Described, broker.groups.context)
    )
    if described is None:
        text = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return Described(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
    if call.request.include_authorized_operations:
        described.authorized_operations = GROUP_OPERATIONS
    return described


HANDLER = Handler(Versions.parse("0-1"), handle)
