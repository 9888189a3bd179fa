"""The handler of Heartbeat v0-4."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.heartbeat import HeartbeatRequest
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.heartbeat import renew_valid_session
from mockbroker.groups.classic.replies import heartbeat_response
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.events import Heartbeat

UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID


def handle(broker: Broker, call: Call[HeartbeatRequest], now: float) -> Effects:
    request, groups = call.request, broker.groups
    if error := broker.group_error(request.group_id, call.client.node):
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error = ErrorCode.NONE  # members are unknown until the group is loaded
        return [heartbeat_response(call.ticket, error)]
    group = groups.get(request.group_id)
    if group is None:
        return [heartbeat_response(call.ticket, UNKNOWN_MEMBER_ID)]
    if type(group) is ClassicGroup:  # without an event, because no request is more frequent
        result = renew_valid_session(group, request, now)
        if result is not None:
            groups.schedule_session(group)
            return [heartbeat_response(call.ticket, result)]
    event = Heartbeat(
        ticket=call.ticket,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return groups.receive(request.group_id, event, now)
