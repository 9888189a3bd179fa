"""The handler of FindCoordinator v0-6, for groups, transactional ids and partitions of share groups."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import in_slices, merge_array, split_array
from mockbroker.share.state import StateKey
from mockbroker.topics.configs import JAVA_SPACE
from mockbroker.topics.model import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC

GROUP, TRANSACTION, SHARE = range(3)
SHARE_SINCE = 6
BATCHED_SINCE = 4  # first version with several keys, and without messages for most errors
STATE_TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_STATE_TOPIC}  # by key type
INTEGER = re.compile(r"[+-]?\d{1,10}")
Coordinator = FindCoordinatorResponse.Coordinator


def _handle(broker: Broker, call: Call[FindCoordinatorRequest], now: float) -> Effects:  # noqa: ARG001
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
    state_key = _share_key(key) if key_type == SHARE and call.version >= SHARE_SINCE else None
    if key_type not in (GROUP, TRANSACTION) and state_key is None:
        has_text = key_type != SHARE or call.version < BATCHED_SINCE
        text = OF_ERRORS[ErrorCode.INVALID_REQUEST] if has_text else ""
        return Coordinator(key=key, node_id=-1, port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    if key_type == TRANSACTION and (error := _transaction_error(broker, key)):
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=OF_ERRORS[error])
    if state_key is not None:
        broker.share_state_topic()
    metadata = broker.metadata_view(call.client.node)
    topic = metadata.topics.get(STATE_TOPICS[key_type])
    hashed = key if state_key is None else state_key.coordinator_key
    node = None if topic is None else metadata.nodes.get(topic.partition_of(hashed).leader)
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


def _share_key(key: str) -> StateKey | None:
    """Return the share partition that a key of a FindCoordinator request contains, or None if the key is not valid.

    Source: Kafka's SharePartitionKey.
    """
    parts = key.rstrip(":").split(":")
    if len(parts) != 3 or not parts[0].strip(JAVA_SPACE) or not INTEGER.fullmatch(parts[2]):
        return None
    try:
        topic_id = UUID(bytes=urlsafe_b64decode(parts[1] + "=="))
    except ValueError:
        return None
    return StateKey(parts[0].strip(JAVA_SPACE), topic_id, int(parts[2]))


def _transaction_error(broker: Broker, transactional_id: str) -> ErrorCode:
    missing = TRANSACTIONS_TOPIC not in broker.cluster.topics
    broker.transaction_coordinator(transactional_id)
    on_demand = broker.settings.mockbroker_transaction_log_on_demand
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if missing and on_demand else ErrorCode.NONE


handle = in_slices(_handle, split_array("coordinator_keys"), merge_array("coordinators"))
