"""ListGroups: v0-5. A broker lists the groups that it coordinates; clients ask every broker."""

from __future__ import annotations

from kwire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.handlers.handler import Handler

CLASSIC = "classic"


def handle(broker: Broker, call: Call[ListGroupsRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    states = {state.lower() for state in request.states_filter}
    types = {type_.lower() for type_ in request.types_filter}
    groups = [
        ListGroupsResponse.Group(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state.value,
            group_type=CLASSIC,
        )
        for group in broker.groups.values()
        if broker.coordinator(group.group_id) == call.client.node
        and (not states or group.state.value.lower() in states)
        and (not types or CLASSIC in types)
    ]
    return [Reply(call.ticket, ListGroupsResponse(groups=groups))]


HANDLER = Handler(Versions.parse("0-5"), handle)
