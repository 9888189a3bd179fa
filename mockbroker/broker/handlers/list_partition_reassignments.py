"""ListPartitionReassignments: v0. Always empty, because replicas cannot be reassigned."""

from __future__ import annotations

from kwire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler


def handle(broker: Broker, call: Call[ListPartitionReassignmentsRequest], now: float) -> Effects:  # noqa: ARG001
    return [Reply(call.ticket, ListPartitionReassignmentsResponse(error_message=None))]


HANDLER = Handler(Versions.parse("0"), handle)
