"""The handler of DeleteShareGroupOffsets v0.

Source: Kafka's KafkaApis.handleDeleteShareGroupOffsetsRequest and GroupCoordinatorService.deleteShareGroupOffsets.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import copy_with, in_slices
from mockbroker.groups.events import DeleteShareOffsets
from mockbroker.groups.group_type import Refused

SLICE = 200  # partitions whose state is deleted before other requests; they take about 20 ms


def handle(broker: Broker, call: Call[DeleteShareGroupOffsetsRequest], now: float) -> Effects:
    request, response = call.request, DeleteShareGroupOffsetsResponse
    if not broker.serves_share_groups:
        return [Reply(call.ticket, response(error_code=ErrorCode.UNSUPPORTED_VERSION))]
    if error := broker.group_error(request.group_id, call.client.node):
        return [Reply(call.ticket, response(error_code=error, error_message=OF_ERRORS.get(error)))]
    try:  # without topics: the group is checked before the request is split, which takes time in proportion to it
        broker.groups.receive(request.group_id, DeleteShareOffsets(ticket=call.ticket, topics=()), now)
    except Refused as refused:
        return [Reply(call.ticket, response(error_code=refused.error, error_message=refused.message))]
    return _delete_in_slices(broker, call, now)


def _delete(broker: Broker, call: Call[DeleteShareGroupOffsetsRequest], now: float) -> Effects:
    topics = [topic.topic_name for topic in call.request.topics]
    event = DeleteShareOffsets(ticket=call.ticket, topics=topics)
    try:
        return broker.groups.receive(call.request.group_id, event, now)
    except Refused as refused:  # a member joined between two slices
        response = DeleteShareGroupOffsetsResponse(error_code=refused.error, error_message=refused.message)
        return [Reply(call.ticket, response)]


def _split(broker: Broker, request: DeleteShareGroupOffsetsRequest) -> list[Any]:
    """Split a request into requests with topics of about SLICE partitions in total. A topic is never divided.

    A topic with offsets is in one slice, once. All other topics occur as often as in the request.

    Args:
        broker: The state of the cluster.
        request: The request.
    """
    group = broker.groups.get(request.group_id)
    deletable = {} if group is None else broker.groups.types.of(group).share_partitions(group)
    listed: set[UUID] = set()
    slices: list[list[Any]] = [[]]
    room = SLICE
    for requested in request.topics:
        if room <= 0:
            slices.append([])
            room = SLICE
        topic = broker.cluster.topics.get(requested.topic_name)
        room -= 1
        if topic is not None and topic.topic_id in deletable:
            if topic.topic_id in listed:
                continue
            listed.add(topic.topic_id)
            room -= len(topic.partitions)
        slices[-1].append(requested)
    return [copy_with(request, topics=topics) for topics in slices]


def _merge(response: DeleteShareGroupOffsetsResponse, more: DeleteShareGroupOffsetsResponse) -> None:
    """Append the topics of the response ``more`` to ``response``, and copy an error of ``more``.

    A copied error removes the earlier topics of ``response``.
    """
    if more.error_code and not response.error_code:
        response.error_code, response.error_message, response.responses = more.error_code, more.error_message, []
    response.responses += more.responses


_delete_in_slices = in_slices(_delete, _split, _merge)
