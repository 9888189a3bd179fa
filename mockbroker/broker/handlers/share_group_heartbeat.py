"""The handler of ShareGroupHeartbeat v1.

Source: Kafka's KafkaApis.handleShareGroupHeartbeat and GroupCoordinatorService.shareGroupHeartbeat.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.groups.events import ShareHeartbeat
from mockbroker.groups.group_type import Refused
from mockbroker.groups.modern_group import check_subscription
from mockbroker.groups.share.machine import heartbeat_error
from mockbroker.groups.share.state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
)
from mockbroker.topics.configs import JAVA_SPACE

MAX_MEMBER_ID = 36  # UTF-16 units; Source: KafkaApis.isMemberIdValid


def handle(broker: Broker, call: Call[ShareGroupHeartbeatRequest], now: float) -> Effects:
    request = call.request
    if not broker.serves_share_groups:
        return [Reply(call.ticket, ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))]
    if not 0 < len(request.member_id.encode("utf-16-le", "surrogatepass")) // 2 <= MAX_MEMBER_ID:
        return [Reply(call.ticket, ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST))]
    try:
        _check(request)
        if error := broker.coordinator_error(request.group_id, call.client.node):
            return [Reply(call.ticket, ShareGroupHeartbeatResponse(error_code=error))]
        return broker.groups.receive(request.group_id, _event(call), now)
    except Refused as refused:
        return [heartbeat_error(call.ticket, refused)]


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Validate the fields of a ShareGroupHeartbeat in Kafka's order.

    Raises: Refused if a field is not valid.
    Source: Kafka's GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid.
    """
    for value, field in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip(JAVA_SPACE):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{field} can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise Refused(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    check_subscription(request.subscribed_topic_names)


def _event(call: Call[ShareGroupHeartbeatRequest]) -> ShareHeartbeat:
    request = call.request
    names = request.subscribed_topic_names
    return ShareHeartbeat(
        ticket=call.ticket,
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        client_id=call.client.client_id,
        client_host=call.client.host,
        topics=None if names is None else frozenset(names),
    )
