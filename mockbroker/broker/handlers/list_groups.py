"""The handler of ListGroups v0-5, which lists the groups that the broker coordinates.

To list all groups, a client sends the request to every broker.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker


def handle(broker: Broker, call: Call[ListGroupsRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if any(broker.leads_offsets(index, call.client.node) for index in broker.loading):
        return [Reply(call.ticket, ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))]
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    groups = [
        ListGroupsResponse.Group(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.type_name,
        )
        for group in broker.groups.values()
        if broker.coordinator(group.group_id) == call.client.node
        and (not states or group.state_filter in states)
        and (not types or group.type_name in types)
    ]
    return [Reply(call.ticket, ListGroupsResponse(groups=groups))]
