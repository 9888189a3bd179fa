"""AlterConfigs: v0-2, for topics. Configurations that the request does not contain are reset to their defaults.

Not modelled: configurations of brokers and groups.
"""

from __future__ import annotations

from kwire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics import alteration
from mockbroker.topics.alteration import SET, Change


def handle(broker: Broker, call: Call[AlterConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    changes = [
        (
            (resource.resource_type, resource.resource_name),
            [Change(config.name, SET, config.value) for config in resource.configs],
        )
        for resource in call.request.resources
    ]
    results = alteration.alter_all(
        broker.cluster, broker.release, changes, replace_all=True, validate_only=call.request.validate_only
    )
    responses = [
        AlterConfigsResponse.Resource(
            error_code=result.error, error_message=result.text, resource_type=resource_type, resource_name=name
        )
        for ((resource_type, name), _), result in zip(changes, results, strict=True)
    ]
    return [Reply(call.ticket, AlterConfigsResponse(responses=responses))]


HANDLER = Handler(Versions.parse("0-2"), handle)
