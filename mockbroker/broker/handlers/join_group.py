"""The handler of JoinGroup v0-9.

See kwire/messages/join_group.py for version notes.
"""

from __future__ import annotations

from dataclasses import replace

from kwire import ErrorCode
from kwire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mockbroker.base.effects import AuthorizedCall, Call, Effects
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.replies import join_error
from mockbroker.groups.events import Join


def handle(broker: Broker, call: Call[JoinGroupRequest], now: float) -> Effects:
    request = call.request
    if error := _validate(broker, call):
        return [join_error(call.ticket, error, request.member_id)]
    rebalance_timeout_ms = request.rebalance_timeout_ms
    if call.version == 0:  # v0 has no rebalance timeout
        rebalance_timeout_ms = request.session_timeout_ms
    event = Join(
        ticket=call.ticket,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        new_member_id="" if request.member_id else broker.new_member_id(_id_prefix(call)),
        require_member_id=call.version >= 4,
        supports_skipping_assignment=call.version >= 9,
        client_id=call.client.client_id,
        client_host=call.client.host,
        session_timeout=request.session_timeout_ms / 1000,
        rebalance_timeout=rebalance_timeout_ms / 1000,
        protocol_type=request.protocol_type,
        protocols=tuple([(protocol.name, protocol.metadata) for protocol in request.protocols]),
        reason=request.reason or "",
        may_describe=call.may_describe if isinstance(call, AuthorizedCall) else None,
    )
    return broker.groups.receive(request.group_id, event, now)


def adapt_response(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Return the response in the format of its API version.

    Before v7, a missing protocol name is "" instead of null.
    """
    if version < 7 and response.protocol_name is None:
        return replace(response, protocol_name="")
    return response


def _validate(broker: Broker, call: Call[JoinGroupRequest]) -> ErrorCode:
    """Return the error of a JoinGroup that does not depend on the group, or NONE if the request has no such error.

    In Kafka's order, the errors are INVALID_GROUP_ID for an empty group id, INVALID_SESSION_TIMEOUT for a session
    timeout outside of the configured range, and the errors of ``Broker.coordinator_error``.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
    """
    request, settings = call.request, broker.settings
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    minimum, maximum = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not minimum <= request.session_timeout_ms <= maximum:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return broker.coordinator_error(request.group_id, call.client.node)


def _id_prefix(call: Call[JoinGroupRequest]) -> str:
    """Return the prefix of the new member id for a JoinGroup: the instance id of a static member, else the client id.

    The client library franz-go requires this prefix.
    """
    instance_id = call.request.group_instance_id
    return call.client.client_id if instance_id is None else instance_id
