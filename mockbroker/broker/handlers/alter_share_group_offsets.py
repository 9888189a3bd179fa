"""The handler of AlterShareGroupOffsets v0.

Source: Kafka's KafkaApis.handleAlterShareGroupOffsetsRequest and GroupCoordinatorService.alterShareGroupOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from kwire import ErrorCode
from kwire.json.objects import uuid_text
from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS, shortened
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import in_slices, merge_by_topic, split_partitions
from mockbroker.groups.events import AlterShareOffsets
from mockbroker.groups.group_type import Refused

SLICE = 200  # partitions that are altered before other requests; they take about 20 ms


def handle(broker: Broker, call: Call[AlterShareGroupOffsetsRequest], now: float) -> Effects:
    request = call.request
    invalid = _invalid_partition(broker, request)
    if invalid is None or not broker.serves_share_groups or broker.group_error(request.group_id, call.client.node):
        return _alter_in_slices(broker, call, now)
    try:  # without topics: errors of the group come first
        broker.groups.receive(request.group_id, AlterShareOffsets(ticket=call.ticket, offsets={}), now)
    except Refused as refused:
        error, text = refused.error, refused.message
    else:
        error, text = ErrorCode.UNKNOWN_SERVER_ERROR, invalid
    return [Reply(call.ticket, AlterShareGroupOffsetsResponse(error_code=error, error_message=text))]


def _invalid_partition(broker: Broker, request: AlterShareGroupOffsetsRequest) -> str | None:
    """Return Kafka's message if a request has a negative partition of a topic that exists; else None.

    Args:
        broker: The state of the cluster.
        request: The request.
    """
    for requested in request.topics:
        topic = broker.cluster.topics.get(requested.topic_name)
        index = min((each.partition_index for each in requested.partitions), default=0)
        if topic is not None and index < 0:
            parameters = f"{shortened(request.group_id)} {uuid_text(topic.topic_id)} {index}"
            return f"Initialize share group parameters has invalid partitionId - {parameters}"
    return None


def _handle(broker: Broker, call: Call[AlterShareGroupOffsetsRequest], now: float) -> Effects:
    request, response = call.request, AlterShareGroupOffsetsResponse
    if not broker.serves_share_groups:
        return [Reply(call.ticket, response(error_code=ErrorCode.UNSUPPORTED_VERSION))]
    if error := broker.group_error(request.group_id, call.client.node):
        return [Reply(call.ticket, response(error_code=error, error_message=OF_ERRORS.get(error)))]
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        starts = offsets.setdefault(topic.topic_name, {})
        starts.update((each.partition_index, each.start_offset) for each in topic.partitions)
    try:
        return broker.groups.receive(request.group_id, AlterShareOffsets(ticket=call.ticket, offsets=offsets), now)
    except Refused as refused:
        return [Reply(call.ticket, response(error_code=refused.error, error_message=refused.message))]


def _split(_: Broker, request: AlterShareGroupOffsetsRequest) -> Iterator[Any]:
    return split_partitions(request, SLICE)


_merge_topics = merge_by_topic("responses", attrgetter("topic_name"))


def _merge(response: AlterShareGroupOffsetsResponse, more: AlterShareGroupOffsetsResponse) -> None:
    """Append the topics of the response ``more`` to ``response``, and copy an error of ``more``.

    If both responses contain a topic, its partitions are merged. A copied error removes the earlier topics of
    ``response``.
    """
    if more.error_code and not response.error_code:
        response.error_code, response.error_message, response.responses = more.error_code, more.error_message, []
    _merge_topics(response, more)


_alter_in_slices = in_slices(_handle, _split, _merge)
