"""The handler of UnregisterBroker v0. An unregistered broker is registered again when it starts.

Source: Kafka's ClusterControlManager.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker


def handle(broker: Broker, call: Call[UnregisterBrokerRequest], now: float) -> Effects:  # noqa: ARG001
    node, cluster = call.request.broker_id, broker.cluster
    if node not in cluster.broker_ids:
        error, text = ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node} is not currently registered"
        return [Reply(call.ticket, UnregisterBrokerResponse(error_code=error, error_message=text))]
    if node in cluster.down:
        cluster.unregister(node)
    return [Reply(call.ticket, UnregisterBrokerResponse(error_message=""))]
