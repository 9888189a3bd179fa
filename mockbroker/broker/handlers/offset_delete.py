"""The handler of OffsetDelete v0, which deletes committed offsets of topics to which the group is not subscribed."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import field
from itertools import chain

from kwire import ErrorCode
from kwire.lazy_dataclass import dataclass
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from mockbroker.base.effects import Call, Effects, Note, Reply, Steps, begin
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import SLICE_SIZE, Broker
from mockbroker.broker.slices import topic_slices
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

    def add_errors(self, requested: OffsetDeleteRequest.Topic, error: ErrorCode) -> None:
        """Add an error for each partition of a topic in the request."""
        self.existing += [
            ResponseTopic.Partition(partition_index=each.partition_index, error_code=error)
            for each in requested.partitions
        ]


def handle(broker: Broker, call: Call[OffsetDeleteRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _delete_offsets(broker, call))


def _delete_offsets(broker: Broker, call: Call[OffsetDeleteRequest]) -> Steps:
    """Delete offsets in slices (parts of limited size). The router handles other requests between two slices.

    Each slice is checked again: if the group is deleted meanwhile, for example, the remaining partitions get the error.
    The smaller slices of a simulation are not used, because its model deletes the offsets at the time of the response.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
    """
    group_id = call.request.group_id
    topics = {topic.name: _TopicResult() for topic in call.request.topics}
    slices = topic_slices(call.request.topics, SLICE_SIZE)
    for number, part in enumerate(chain([next(slices, call.request.topics)], slices)):
        if number:
            yield []
        group, subscribed, error = _check(broker, group_id, call.client.node)
        if error and not number:
            return [Reply(call.ticket, OffsetDeleteResponse(error_code=error))]
        for topic in part:
            if group is None:
                topics[topic.name].add_errors(topic, error)
            else:
                _delete(broker, group, topic, subscribed, topics[topic.name])
        if group is not None:
            broker.groups.mark_dirty(group_id)
    responses = [ResponseTopic(name=name, partitions=topic.missing + topic.existing) for name, topic in topics.items()]
    effects: Effects = []
    group = broker.groups.get(group_id)
    if group is not None and group.is_deletable and broker.release.quirks.last_offset_deletes_group:
        broker.groups.delete(group_id)
        reason = "its last committed offset was deleted"
        effects.append(Note(event=EventKind.DELETE, group=group_id, client_id=call.client.client_id, reason=reason))
    return [*effects, Reply(call.ticket, OffsetDeleteResponse(topics=responses))]


def _check(broker: Broker, group_id: str, node: int) -> tuple[CoordinatedGroup | None, Container[str], ErrorCode]:
    """Return the group, the topics to which it is subscribed, and NONE; or None, no topics, and the error.

    Args:
        broker: The state of the cluster.
        group_id: The group id.
        node: Id of the broker that received the request.
    """
    group = broker.groups.get(group_id)
    if error := broker.group_error(group_id, node):
        return None, (), error
    if group is None:
        return None, (), ErrorCode.GROUP_ID_NOT_FOUND
    if error := broker.groups.types.of(group).offset_delete_error(group):
        return None, (), error
    subscribed = broker.groups.types.of(group).subscribed_topics(group)
    if subscribed is None:
        return None, (), ErrorCode.NON_EMPTY_GROUP
    return group, subscribed, ErrorCode.NONE


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
