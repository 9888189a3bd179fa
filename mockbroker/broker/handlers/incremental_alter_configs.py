"""IncrementalAlterConfigs: v0-1, of topics. Not modelled: brokers, groups."""

from __future__ import annotations

from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics import alteration
from mockbroker.topics.alteration import Change


def handle(broker: Broker, call: Call[IncrementalAlterConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    wanted = [
        (
            (asked.resource_type, asked.resource_name),
            [Change(config.name, config.config_operation, config.value) for config in asked.configs],
        )
        for asked in call.request.resources
    ]
    refusals = alteration.alter_all(broker.cluster, broker.release, wanted, validate_only=call.request.validate_only)
    responses = [
        IncrementalAlterConfigsResponse.Resource(
            error_code=refusal.error, error_message=refusal.text, resource_type=resource_type, resource_name=name
        )
        for ((resource_type, name), _), refusal in zip(wanted, refusals, strict=True)
    ]
    return [Reply(call.ticket, IncrementalAlterConfigsResponse(responses=responses))]


HANDLER = Handler(Versions.parse("0-1"), handle)
