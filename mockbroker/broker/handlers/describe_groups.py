"""The handler of DescribeGroups v0-6, which returns the state, protocol and members of classic groups."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from mockbroker.base.effects import Call, Effects, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import GROUP_OPERATIONS, GROUP_OPERATIONS_BEFORE_4_0
from mockbroker.broker.slices import describe_in_slices
from mockbroker.groups.coordinated import DEAD

Described = DescribeGroupsResponse.Group
MEMBER = 100  # approximate size in bytes of a member in a response, without metadata and assignment


def handle(broker: Broker, call: Call[DescribeGroupsRequest], now: float) -> Effects:  # noqa: ARG001
    """Respond with a description of each group in the request. As in Kafka, a duplicate group is described twice.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    steps = describe_in_slices(
        broker,
        call.ticket,
        call.request.groups,
        lambda group_id: _describe(broker, call, group_id),
        _size,
        lambda groups: DescribeGroupsResponse(groups=groups),
    )
    return begin(call.ticket, steps)


def _size(described: Described) -> int:
    members = ((len(each.member_metadata), len(each.member_assignment)) for each in described.members)
    return len(described.group_id) + sum(MEMBER + metadata + assignment for metadata, assignment in members)


def _describe(broker: Broker, call: Call[DescribeGroupsRequest], group_id: str) -> Described:
    if error := broker.coordinator_error(group_id, call.client.node):
        return Described(group_id=group_id, error_code=error)
    group = broker.groups.get(group_id)
    described = (
        None if group is None else broker.groups.types.of(group).describe(group, Described, broker.groups.context)
    )
    if described is None:
        if group is not None:
            return _not_found(broker, call, group_id, f"Group {group_id} is not a classic group.")
        return _not_found(broker, call, group_id, f"Group {group_id} not found.")
    _report_operations(broker, call, described)
    return described


def _not_found(broker: Broker, call: Call[DescribeGroupsRequest], group_id: str, text: str) -> Described:
    """Return the description of a group that does not exist or is not a classic group.

    Since v6, the description contains an error. Before v6, it contains the state Dead without an error.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        group_id: The group id.
        text: Error message since v6.
    """
    described = Described(group_id=group_id, group_state=DEAD)
    if call.version >= 6:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = text
    else:
        _report_operations(broker, call, described)
    return described


def _report_operations(broker: Broker, call: Call[DescribeGroupsRequest], described: Described) -> None:
    """Set the authorized operations in the description of a group, if the request asks for them."""
    if call.request.include_authorized_operations:
        older = broker.release.quirks.group_operations_before_4_0
        described.authorized_operations = GROUP_OPERATIONS_BEFORE_4_0 if older else GROUP_OPERATIONS
