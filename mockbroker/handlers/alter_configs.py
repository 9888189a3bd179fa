"""AlterConfigs: v0-2, of topics: what is not named goes back to its default. Not modelled: brokers, groups."""

from __future__ import annotations

from collections import Counter

from kwire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.cluster import alteration
from mockbroker.cluster.alteration import SET, Change
from mockbroker.handlers.handler import Handler


def handle(broker: Broker, call: Call[AlterConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    response = AlterConfigsResponse()
    named = Counter((asked.resource_type, asked.resource_name) for asked in call.request.resources)
    for asked in call.request.resources:
        repeated = named[asked.resource_type, asked.resource_name] > 1
        refusal = (
            alteration.REPEATED
            if repeated
            else alteration.alter(
                broker.cluster,
                broker.release,
                asked.resource_type,
                asked.resource_name,
                [Change(config.name, SET, config.value) for config in asked.configs],
                afresh=True,
                validate_only=call.request.validate_only,
            )
        )
        response.responses.append(
            AlterConfigsResponse.Resource(
                error_code=refusal.error,
                error_message=refusal.text,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        )
    return [Reply(call.ticket, response)]


HANDLER = Handler(Versions.parse("0-2"), handle)
