"""The handler of Heartbeat v0-4."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.replies import heartbeat_response
from mockbroker.groups.events import Heartbeat


def handle(broker: Broker, call: Call[HeartbeatRequest], now: float) -> Effects:
    request = call.request
    if error := broker.group_error(request.group_id, call.client.node):
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE  # members are unknown until the group is loaded
        return [heartbeat_response(call.ticket, error)]
    event = Heartbeat(
        ticket=call.ticket,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return broker.groups.receive(request.group_id, event, now)
