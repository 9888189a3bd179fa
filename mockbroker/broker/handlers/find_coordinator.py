"""FindCoordinator: v0-6. Served: groups and transactional ids. Not modelled: share groups (INVALID_REQUEST)."""

from __future__ import annotations

import re

from kwire import ErrorCode
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

GROUP, TRANSACTION, SHARE = range(3)
SHARE_SINCE = 6
SILENT_SINCE = 4  # the version that asks for several, and has no words for errors
SHARE_KEY = re.compile(r"[^:]+:[A-Za-z0-9_-]{22}:\d+")  # group, topic id, partition
NOT_SERVED = "mockbroker coordinates groups and transactions, not share groups"
Coordinator = FindCoordinatorResponse.Coordinator


def handle(broker: Broker, call: Call[FindCoordinatorRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if call.version >= SILENT_SINCE:
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
    if kind not in (GROUP, TRANSACTION):
        text = NOT_SERVED if SHARE_KEY.fullmatch(key) else OF_ERRORS[ErrorCode.INVALID_REQUEST]
        if kind == SHARE and call.version < SHARE_SINCE:
            text = ""
        return Coordinator(key=key, node_id=-1, port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    if kind == TRANSACTION and (error := _transaction_error(broker, key)):
        text = OF_ERRORS[error] if error == ErrorCode.COORDINATOR_NOT_AVAILABLE else ""
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=text)
    seen = broker.metadata_view(call.client.node)
    topic = seen.topics.get(OFFSETS_TOPIC if kind == GROUP else TRANSACTIONS_TOPIC)
    node = None if topic is None else seen.nodes.get(topic.partition_of(key).leader)
    if node is None:
        text = OF_ERRORS[ErrorCode.COORDINATOR_NOT_AVAILABLE] if call.version < SILENT_SINCE else ""
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=text)
    return Coordinator(
        key=key,
        node_id=node.node_id,
        host=node.host_of(call.client.listener),
        port=node.port_of(call.client.listener),
        error_message="",
    )


def _transaction_error(broker: Broker, transactional_id: str) -> ErrorCode:
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    missing = TRANSACTIONS_TOPIC not in broker.cluster.topics
    broker.transaction_coordinator(transactional_id)
    on_demand = broker.settings.mockbroker_transaction_log_on_demand
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if missing and on_demand else ErrorCode.NONE


HANDLER = Handler(Versions.parse("0-6"), handle)
