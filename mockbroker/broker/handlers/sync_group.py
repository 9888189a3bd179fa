"""The handler of SyncGroup v0-5."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.sync_group import SyncGroupRequest
from mockbroker.base.effects import Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.replies import sync_error
from mockbroker.groups.events import Sync


def handle(broker: Broker, call: Call[SyncGroupRequest], now: float) -> Effects:
    request = call.request
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return [sync_error(call.ticket, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
    if error := broker.group_error(request.group_id, call.client.node):
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and broker.release.quirks.sync_while_loading_is_rebalance:
            error = ErrorCode.REBALANCE_IN_PROGRESS  # the new coordinator will rebalance
        return [sync_error(call.ticket, error)]
    event = Sync(
        ticket=call.ticket,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={assignment.member_id: assignment.assignment for assignment in request.assignments},
    )
    return broker.groups.receive(request.group_id, event, now)
