"""DescribeAcls: v0-3. There is no authorizer, and it is said so."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.handlers.handler import NO_AUTHORIZER, Handler


def handle(broker: Broker, call: Call[DescribeAclsRequest], now: float) -> Effects:  # noqa: ARG001
    return [
        Reply(call.ticket, DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER))
    ]


HANDLER = Handler(Versions.parse("0-3"), handle)
