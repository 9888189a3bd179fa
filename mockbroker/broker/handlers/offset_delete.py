"""OffsetDelete: v0. Offsets of topics that the group does not read go; those of the others are kept."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from kwire import ErrorCode
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Note, Reply
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.groups.coordinated import CoordinatedGroup

Answer = OffsetDeleteResponse.Topic


@dataclass(slots=True)
class _Topic:
    """The answer for one topic, however often it is named: partitions that are not there come first."""

    unknown: list[Answer.Partition] = field(default_factory=list)
    known: list[Answer.Partition] = field(default_factory=list)


def handle(broker: Broker, call: Call[OffsetDeleteRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    group = broker.groups.get(request.group_id)
    error = broker.group_error(request.group_id, call.client.node)
    if error or group is None:
        return [Reply(call.ticket, OffsetDeleteResponse(error_code=error or ErrorCode.GROUP_ID_NOT_FOUND))]
    subscribed = broker.groups.types.of(group).subscribed(group)
    if subscribed is None:
        return [Reply(call.ticket, OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP))]
    topics: dict[str, _Topic] = {}
    for topic in request.topics:
        _delete(broker, group, topic, subscribed, topics.setdefault(topic.name, _Topic()))
    answers = [Answer(name=name, partitions=topic.unknown + topic.known) for name, topic in topics.items()]
    broker.groups.touch(request.group_id)
    effects: Effects = []
    if group.is_over and broker.release.quirks.last_offset_deletes_group:
        broker.groups.drop(request.group_id)
        reason = "its last offset went"
        effects.append(
            Note(event=EventKind.DELETE, group=request.group_id, client_id=call.client.client_id, reason=reason)
        )
    return [*effects, Reply(call.ticket, OffsetDeleteResponse(topics=answers))]


def _delete(
    broker: Broker,
    group: CoordinatedGroup,
    asked: OffsetDeleteRequest.Topic,
    subscribed: Container[str],
    answer: _Topic,
) -> None:
    for index in (partition.partition_index for partition in asked.partitions):
        if broker.cluster.partition(asked.name, index) is None:
            answer.unknown.append(
                Answer.Partition(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            )
        elif asked.name in subscribed:
            answer.known.append(Answer.Partition(partition_index=index, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
        else:
            group.offsets.forget(asked.name, index)
            answer.known.append(Answer.Partition(partition_index=index))


HANDLER = Handler(Versions.parse("0-0"), handle)
