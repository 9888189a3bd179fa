"""The handler of OffsetDelete v0, which deletes committed offsets of topics to which the group is not subscribed."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import field

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from mockbroker.base.effects import Call, Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.groups.coordinated import CoordinatedGroup

ResponseTopic = OffsetDeleteResponse.Topic


@dataclass(slots=True)
class _TopicResult:
    """The result of all entries of a topic in the request.

    Attributes:
        missing: Results of partitions that do not exist, which come first in the response.
        existing: Results of partitions that exist.
    """

    missing: list[ResponseTopic.Partition] = field(default_factory=list)
    existing: list[ResponseTopic.Partition] = field(default_factory=list)


def handle(broker: Broker, call: Call[OffsetDeleteRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    group = broker.groups.get(request.group_id)
    error = broker.group_error(request.group_id, call.client.node)
    if error or group is None:
        return [Reply(call.ticket, OffsetDeleteResponse(error_code=error or ErrorCode.GROUP_ID_NOT_FOUND))]
    if error := broker.groups.types.of(group).offset_delete_error(group):
        return [Reply(call.ticket, OffsetDeleteResponse(error_code=error))]
    subscribed = broker.groups.types.of(group).subscribed_topics(group)
    if subscribed is None:
        return [Reply(call.ticket, OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP))]
    topics: dict[str, _TopicResult] = {}
    for topic in request.topics:
        _delete(broker, group, topic, subscribed, topics.setdefault(topic.name, _TopicResult()))
    responses = [ResponseTopic(name=name, partitions=topic.missing + topic.existing) for name, topic in topics.items()]
    broker.groups.mark_dirty(request.group_id)
    effects: Effects = []
    if group.is_deletable and broker.release.quirks.last_offset_deletes_group:
        broker.groups.delete(request.group_id)
        reason = "its last committed offset was deleted"
        effects.append(
            Note(event=EventKind.DELETE, group=request.group_id, client_id=call.client.client_id, reason=reason)
        )
    return [*effects, Reply(call.ticket, OffsetDeleteResponse(topics=responses))]


def _delete(
    broker: Broker,
    group: CoordinatedGroup,
    requested: OffsetDeleteRequest.Topic,
    subscribed: Container[str],
    result: _TopicResult,
) -> None:
    for index in (partition.partition_index for partition in requested.partitions):
        if broker.cluster.partition(requested.name, index) is None:
            result.missing.append(
                ResponseTopic.Partition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            )
        elif requested.name in subscribed:
            result.existing.append(
                ResponseTopic.Partition(partition_index=index, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            )
        else:
            group.offsets.delete(requested.name, index)
            result.existing.append(ResponseTopic.Partition(partition_index=index))
