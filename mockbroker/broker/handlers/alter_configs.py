"""The handler of AlterConfigs v0-2, for all resources except broker loggers.

A configuration that the request omits is reset to its default.
"""

from __future__ import annotations

from kwire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.config_requests import merge, split
from mockbroker.broker.slices import in_slices
from mockbroker.topics.alteration import Alteration
from mockbroker.topics.config_changes import SET, Change


def _handle(broker: Broker, call: Call[AlterConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    changes = [
        (
            (resource.resource_type, resource.resource_name),
            [Change(config.name, SET, config.value) for config in resource.configs],
        )
        for resource in call.request.resources
    ]
    alteration = Alteration(
        cluster=broker.cluster,
        release=broker.release,
        brokers=broker.broker_settings,
        loggers=broker.loggers,
        node=call.client.node,
        replace_all=True,
        validate_only=call.request.validate_only,
    )
    results = alteration.alter_all(changes)
    responses = [
        AlterConfigsResponse.Resource(
            error_code=result.error, error_message=result.text, resource_type=resource_type, resource_name=name
        )
        for ((resource_type, name), _), result in zip(changes, results, strict=True)
    ]
    return [Reply(call.ticket, AlterConfigsResponse(responses=responses))]


handle = in_slices(_handle, split, merge)
