"""FindCoordinator: v0-6. Served: groups. Not modelled: transactional ids and share groups (INVALID_REQUEST)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.handlers.handler import Handler

GROUP, SHARE = 0, 2
SHARE_SINCE = 6
NOT_SERVED = "mockbroker coordinates groups only, not transactions or share groups"
Coordinator = FindCoordinatorResponse.Coordinator


def handle(broker: Broker, call: Call[FindCoordinatorRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if call.version >= 4:
        found = [_find(broker, call, key) for key in request.coordinator_keys]
        return [Reply(call.ticket, FindCoordinatorResponse(coordinators=found))]
    one = _find(broker, call, request.key)
    response = FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message if one.error_code else "NONE",  # Kafka names success, in these versions only
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )
    return [Reply(call.ticket, response)]


def _find(broker: Broker, call: Call[FindCoordinatorRequest], key: str) -> Coordinator:
    kind = call.request.key_type
    if kind != GROUP:
        text = "" if kind == SHARE and call.version < SHARE_SINCE else NOT_SERVED  # Kafka has no words for it there
        return Coordinator(key=key, node_id=-1, port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    node = broker.cluster.nodes[broker.coordinator(key)]
    return Coordinator(
        key=key, node_id=node.node_id, host=node.host, port=node.port_of(call.client.listener), error_message=""
    )


HANDLER = Handler(Versions.parse("0-6"), handle)
