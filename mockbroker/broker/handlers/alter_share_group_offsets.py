"""The handler of AlterShareGroupOffsets v0.

Source: Kafka's KafkaApis.handleAlterShareGroupOffsetsRequest and GroupCoordinatorService.alterShareGroupOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from kwire import ErrorCode
from kwire.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import in_slices, merge_by_topic, split_partitions
from mockbroker.groups.events import AlterShareOffsets
from mockbroker.groups.group_type import Refused

SLICE = 200  # partitions that are altered before other requests; they take about 20 ms


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


handle = in_slices(_handle, _split, _merge)
