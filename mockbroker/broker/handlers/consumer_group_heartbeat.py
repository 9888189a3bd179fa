"""The handler of ConsumerGroupHeartbeat v0-1.

See kwire/messages/consumer_group_heartbeat.py for version notes.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from mockbroker.base.effects import AuthorizedCall, Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.groups.consumer.machine import heartbeat_error
from mockbroker.groups.consumer.state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
)
from mockbroker.groups.events import ConsumerHeartbeat
from mockbroker.groups.group_type import Refused
from mockbroker.groups.modern_group import check_subscription

OWN_ID_SINCE = 1  # first version in which members generate their ids (KIP-1082)
UNCHANGED = -1  # rebalance timeout of a request that does not change the timeout
BLANK = "".join(map(chr, range(0x21)))  # the characters that Java's String.trim removes


def handle(broker: Broker, call: Call[ConsumerGroupHeartbeatRequest], now: float) -> Effects:
    if not broker.serves_consumer_protocol:
        return [Reply(call.ticket, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))]
    request = call.request
    try:
        _check(broker, call)
        if error := broker.coordinator_error(request.group_id, call.client.node):
            return [Reply(call.ticket, ConsumerGroupHeartbeatResponse(error_code=error))]
        return broker.groups.receive(request.group_id, _event(call), now)
    except Refused as refused:
        return [heartbeat_error(call.ticket, refused)]


def _check(broker: Broker, call: Call[ConsumerGroupHeartbeatRequest]) -> None:
    """Validate the fields of a ConsumerGroupHeartbeat in Kafka's order.

    Raises: Refused if a field is not valid.
    Source: Kafka's GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
    """
    request = call.request
    if call.version >= OWN_ID_SINCE or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH:
        _not_empty(request.member_id, "MemberId")
    _not_empty(request.group_id, "GroupId")
    _not_empty(request.instance_id, "InstanceId")
    _not_empty(request.rack_id, "RackId")
    if request.member_epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == UNCHANGED:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    check_subscription(request.subscribed_topic_names)
    assignors = broker.settings.group_consumer_assignors.split(",")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        text = (
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
        raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, text)


def _not_empty(value: str | None, field: str) -> None:
    if value is not None and not value.strip(BLANK):
        raise _invalid(f"{field} can't be empty.")


def _invalid(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, text)


def _event(call: Call[ConsumerGroupHeartbeatRequest]) -> ConsumerHeartbeat:
    request = call.request
    timeout_ms, names, owned = request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions
    return ConsumerHeartbeat(
        ticket=call.ticket,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.client.client_id,
        client_host=call.client.host,
        rebalance_timeout=None if timeout_ms == UNCHANGED else timeout_ms / 1000,
        topics=None if names is None else frozenset(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned_partitions=None
        if owned is None
        else frozenset((topic.topic_id, n) for topic in owned for n in topic.partitions),
        may_describe=call.may_describe if isinstance(call, AuthorizedCall) else None,
    )
