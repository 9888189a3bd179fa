"""OffsetDelete: v0. Offsets of topics that the group does not read go; those of the others are kept."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Note, Reply
from mockbroker.group.consumer_state import ConsumerGroup
from mockbroker.group.expiry import is_over
from mockbroker.group.subscription import CONSUMER, subscribed_topics
from mockbroker.groups import AnyGroup
from mockbroker.handlers.handler import Handler

Answer = OffsetDeleteResponse.Topic


def handle(broker: Broker, call: Call[OffsetDeleteRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    group = broker.groups.get(request.group_id)
    error = broker.group_error(request.group_id, call.client.node) or _group_error(group)
    if error or group is None:
        return [Reply(call.ticket, OffsetDeleteResponse(error_code=error))]
    topics = [_delete(broker, group, topic) for topic in request.topics]
    broker.groups.touch(request.group_id)
    effects: Effects = []
    if is_over(group) and not broker.release.java_coordinator:
        broker.groups.drop(request.group_id)
        effects.append(
            Note(event="delete", group=request.group_id, client_id=call.client.client_id, reason="its last offset went")
        )
    return [*effects, Reply(call.ticket, OffsetDeleteResponse(topics=topics))]


def _group_error(group: AnyGroup | None) -> ErrorCode:
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    readable = isinstance(group, ConsumerGroup) or group.empty or group.protocol_type == CONSUMER
    return ErrorCode.NONE if readable else ErrorCode.NON_EMPTY_GROUP


def _subscribed(group: AnyGroup, topic: str) -> bool:
    """True if a member reads the topic. A subscription that cannot be read counts as one to everything."""
    if isinstance(group, ConsumerGroup):
        return group.reads(topic)
    topics = subscribed_topics(group)
    return bool(group.members) and (topics is None or topic in topics)


def _delete(broker: Broker, group: AnyGroup, asked: OffsetDeleteRequest.Topic) -> Answer:
    """Partitions that are not there come first."""
    subscribed = _subscribed(group, asked.name)
    known: list[Answer.Partition] = []
    unknown: list[Answer.Partition] = []
    for index in (partition.partition_index for partition in asked.partitions):
        if broker.cluster.partition(asked.name, index) is None:
            unknown.append(Answer.Partition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif subscribed:
            known.append(Answer.Partition(partition_index=index, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
        else:
            group.offsets.forget(asked.name, index)
            known.append(Answer.Partition(partition_index=index))
    return Answer(name=asked.name, partitions=unknown + known)


HANDLER = Handler(Versions.parse("0-0"), handle)
