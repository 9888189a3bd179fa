"""IncrementalAlterConfigs: v0-1, of topics. Not modelled: brokers, groups."""

from __future__ import annotations

from collections import Counter

from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.cluster import alteration
from mockbroker.cluster.alteration import Change
from mockbroker.handlers.handler import Handler


def handle(broker: Broker, call: Call[IncrementalAlterConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    response = IncrementalAlterConfigsResponse()
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
                [Change(config.name, config.config_operation, config.value) for config in asked.configs],
                validate_only=call.request.validate_only,
            )
        )
        response.responses.append(
            IncrementalAlterConfigsResponse.Resource(
                error_code=refusal.error,
                error_message=refusal.text,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        )
    return [Reply(call.ticket, response)]


HANDLER = Handler(Versions.parse("0-1"), handle)
