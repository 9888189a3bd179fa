"""The handler of ListGroups v0-5, which lists the groups that the broker coordinates.

To list all groups, a client sends the request to every broker.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import SLICE_SIZE, Broker
from mockbroker.broker.slices import chunks


def handle(broker: Broker, call: Call[ListGroupsRequest], now: float) -> Effects:  # noqa: ARG001
    if any(broker.leads_offsets(index, call.client.node) for index in broker.loading):
        return [Reply(call.ticket, ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))]
    return begin(call.ticket, _list_groups(broker, call))


def _list_groups(broker: Broker, call: Call[ListGroupsRequest]) -> Steps:
    """List the groups in slices (parts of limited size). The router handles other requests between two slices.

    The smaller slices of a simulation are not used, because its checks compare the list with the state at the time of
    the response.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
    """
    states = {state.lower() for state in call.request.states_filter}
    types = {type_.lower() for type_ in call.request.types_filter}
    listed: list[ListGroupsResponse.Group] = []
    for number, group_ids in enumerate(chunks(list(broker.groups), SLICE_SIZE)):
        if number:
            yield []
        groups = [group for group in map(broker.groups.get, group_ids) if group is not None]  # others were deleted
        listed += [
            ListGroupsResponse.Group(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type_name,
            )
            for group in groups
            if broker.coordinator(group.group_id) == call.client.node
            and (not states or group.state_filter in states)
            and (not types or group.type_name in types)
        ]
    return [Reply(call.ticket, ListGroupsResponse(groups=listed))]
