"""CreateAcls: v0-3. Always SECURITY_DISABLED, because there is no authorizer."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import NO_AUTHORIZER, Handler


def handle(broker: Broker, call: Call[CreateAclsRequest], now: float) -> Effects:  # noqa: ARG001
    refused = CreateAclsResponse.Result(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return [Reply(call.ticket, CreateAclsResponse(results=[refused for _ in call.request.creations]))]


HANDLER = Handler(Versions.parse("0-3"), handle)
