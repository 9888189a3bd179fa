"""The handler of IncrementalAlterConfigs v0-1, for topics, groups, brokers, loggers and client metrics."""

from __future__ import annotations

from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.config_requests import merge, split
from mockbroker.broker.slices import in_slices
from mockbroker.topics.alteration import Alteration
from mockbroker.topics.config_changes import Change


def _handle(broker: Broker, call: Call[IncrementalAlterConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    changes = [
        (
            (resource.resource_type, resource.resource_name),
            [Change(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in call.request.resources
    ]
    alteration = Alteration(
        cluster=broker.cluster,
        release=broker.release,
        brokers=broker.broker_settings,
        loggers=broker.loggers,
        node=call.client.node,
        validate_only=call.request.validate_only,
    )
    results = alteration.alter_all(changes)
    responses = [
        IncrementalAlterConfigsResponse.Resource(
            error_code=result.error, error_message=result.text, resource_type=resource_type, resource_name=name
        )
        for ((resource_type, name), _), result in zip(changes, results, strict=True)
    ]
    return [Reply(call.ticket, IncrementalAlterConfigsResponse(responses=responses))]


handle = in_slices(_handle, split, merge)
