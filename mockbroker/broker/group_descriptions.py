"""Functions that ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kwire import ErrorCode
from mockbroker.base.effects import Call, Effects, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import GROUP_OPERATIONS
from mockbroker.broker.slices import describe_in_slices

MEMBER, TOPIC = 100, 20  # approximate bytes of a member and of a topic in a response, without names and partitions


def describe_groups(
    broker: Broker, call: Call[Any], response: Any, group_type: str, size: Callable[[Any], int], *, served: bool
) -> Effects:
    """Respond with a description of each group in a request. As in Kafka, a duplicate group is described twice.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        response: Class of the response, such as ShareGroupDescribeResponse.
        group_type: Name of the group type, such as ``share``.
        size: Function that returns the approximate size in bytes of a described group.
        served: Whether the broker serves groups of this type.

    Returns: the effects, such as the response.
    """

    def describe(group_id: str) -> Any:
        return _describe(broker, call, response.Group, group_type, group_id, served=served)

    steps = describe_in_slices(
        broker, call.ticket, call.request.group_ids, describe, size, lambda groups: response(groups=groups)
    )
    return begin(call.ticket, steps)


def _describe(
    broker: Broker, call: Call[Any], described_class: Any, group_type: str, group_id: str, *, served: bool
) -> Any:
    if not served:
        return described_class(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if error := broker.group_error(group_id, call.client.node):
        return described_class(group_id=group_id, error_code=error)
    group, groups = broker.groups.get(group_id), broker.groups
    described = None if group is None else groups.types.of(group).describe(group, described_class, groups.context)
    if described is None:
        text = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a {group_type} group."
        return described_class(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=text)
    if call.request.include_authorized_operations:
        described.authorized_operations = GROUP_OPERATIONS
    return described


def assignment_size(assignment: Any) -> int:
    """Return the approximate encoded size in bytes of an assignment, a struct with the field ``topic_partitions``."""
    return sum(TOPIC + len(topic.topic_name) + 4 * len(topic.partitions) for topic in assignment.topic_partitions)
