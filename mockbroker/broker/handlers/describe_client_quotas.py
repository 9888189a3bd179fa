"""DescribeClientQuotas: v0-1. Always empty. Not modelled: quotas."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler

ENTITIES = frozenset({"user", "client-id", "ip"})


def handle(broker: Broker, call: Call[DescribeClientQuotasRequest], now: float) -> Effects:  # noqa: ARG001
    unknown = [each.entity_type for each in call.request.components if each.entity_type not in ENTITIES]
    if unknown:
        return [
            Reply(
                call.ticket,
                DescribeClientQuotasResponse(
                    error_code=ErrorCode.UNSUPPORTED_VERSION,
                    error_message=f"Unsupported entity type {unknown[0]}",
                    entries=None,
                ),
            )
        ]
    return [Reply(call.ticket, DescribeClientQuotasResponse(error_message=""))]


HANDLER = Handler(Versions.parse("0-1"), handle)
