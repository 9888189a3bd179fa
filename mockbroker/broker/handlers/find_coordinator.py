"""FindCoordinator: v0-6, for groups and transactional ids. Not modelled: share groups (INVALID_REQUEST)."""

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
BATCHED_SINCE = 4  # first version with several keys, and without messages for most errors
SHARE_KEY = re.compile(r"[^:]+:[A-Za-z0-9_-]{22}:\d+")  # group, topic id, partition
NOT_SERVED = "Share groups are not supported: mockbroker coordinates only groups and transactions."
Coordinator = FindCoordinatorResponse.Coordinator


def handle(broker: Broker, call: Call[FindCoordinatorRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if call.version >= BATCHED_SINCE:
        coordinators = [_find_coordinator(broker, call, key) for key in request.coordinator_keys]
        return [Reply(call.ticket, FindCoordinatorResponse(coordinators=coordinators))]
    coordinator = _find_coordinator(broker, call, request.key)
    response = FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message
        if coordinator.error_code
        else "NONE",  # as Kafka, only in these versions
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )
    return [Reply(call.ticket, response)]


def _find_coordinator(broker: Broker, call: Call[FindCoordinatorRequest], key: str) -> Coordinator:
    key_type = call.request.key_type
    if key_type not in (GROUP, TRANSACTION):
        text = NOT_SERVED if SHARE_KEY.fullmatch(key) else OF_ERRORS[ErrorCode.INVALID_REQUEST]
        if key_type == SHARE and call.version < SHARE_SINCE:
            text = ""
        return Coordinator(key=key, node_id=-1, port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    if key_type == TRANSACTION and (error := _transaction_error(broker, key)):
        text = OF_ERRORS[error] if error == ErrorCode.COORDINATOR_NOT_AVAILABLE else ""
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=text)
    metadata = broker.metadata_view(call.client.node)
    topic = metadata.topics.get(OFFSETS_TOPIC if key_type == GROUP else TRANSACTIONS_TOPIC)
    node = None if topic is None else metadata.nodes.get(topic.partition_of(key).leader)
    if node is None:
        text = OF_ERRORS[ErrorCode.COORDINATOR_NOT_AVAILABLE] if call.version < BATCHED_SINCE else ""
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
