"""ConsumerGroupDescribe: v0-1. Not modelled: authorization (everything is allowed)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.java import map_order
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import GROUP_OPERATIONS, Handler
from mockbroker.groups.consumer.state import ConsumerGroup, ConsumerMember, Share, by_topic
from mockbroker.groups.consumer.target import assignor_of
from mockbroker.topics.model import Cluster

Described = ConsumerGroupDescribeResponse.Group
Assignment = Described.Member.Assignment
CLASSIC, CONSUMER = 0, 1  # member types
MEMBER, TOPIC = 100, 20  # bytes of each in a response, roughly, without what is counted


def handle(broker: Broker, call: Call[ConsumerGroupDescribeRequest], now: float) -> Effects:  # noqa: ARG001
    """A group that is named twice is described twice, as by Kafka."""
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
    return sum(TOPIC + len(line.topic_name) + 4 * len(line.partitions) for line in assignment.topic_partitions)


def _describe(broker: Broker, call: Call[ConsumerGroupDescribeRequest], group_id: str) -> Described:
    if not broker.serves_consumer_protocol:
        return Described(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if error := broker.group_error(group_id, call.client.node):
        return Described(group_id=group_id, error_code=error)
    group = broker.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        text = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return Described(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
    found = Described(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_of(group, broker.settings),
        members=[_member(group, member, broker.cluster) for member in group.in_map_order()],
    )
    if call.request.include_authorized_operations:
        found.authorized_operations = GROUP_OPERATIONS
    return found


def _member(group: ConsumerGroup, member: ConsumerMember, cluster: Cluster) -> Described.Member:
    return Described.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=map_order(sorted(member.topics)),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned, cluster),
        target_assignment=_assignment(group.target_of(member.member_id), cluster),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(share: Share, cluster: Cluster) -> Assignment:
    """Topics that are gone are left out."""
    found = ((cluster.by_id.get(topic_id), partitions) for topic_id, partitions in by_topic(share).items())
    line = Assignment.TopicPartition
    lines = [line(topic_id=t.topic_id, topic_name=t.name, partitions=indexes) for t, indexes in found if t is not None]
    return Assignment(topic_partitions=lines)


HANDLER = Handler(Versions.parse("0-1"), handle)
