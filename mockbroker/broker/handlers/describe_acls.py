"""DescribeAcls: v0-3. Always SECURITY_DISABLED, because there is no authorizer."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler

TEXT = "No Authorizer is configured on the broker"


def handle(broker: Broker, call: Call[DescribeAclsRequest], now: float) -> Effects:  # noqa: ARG001
    return [Reply(call.ticket, DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=TEXT))]


HANDLER = Handler(Versions.parse("0-3"), handle)
