"""DeleteAcls: v0-3. Always SECURITY_DISABLED, because there is no authorizer."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import NO_AUTHORIZER, Handler


def handle(broker: Broker, call: Call[DeleteAclsRequest], now: float) -> Effects:  # noqa: ARG001
    refused = DeleteAclsResponse.FilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return [Reply(call.ticket, DeleteAclsResponse(filter_results=[refused for _ in call.request.filters]))]


HANDLER = Handler(Versions.parse("0-3"), handle)
