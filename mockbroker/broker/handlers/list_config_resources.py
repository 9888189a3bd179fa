"""The handler of ListConfigResources v0-1. Version 0 lists client metrics subscriptions only."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker

Resource = ListConfigResourcesResponse.ConfigResource
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
RESOURCE_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(broker: Broker, call: Call[ListConfigResourcesRequest], now: float) -> Effects:  # noqa: ARG001
    requested_types = call.request.resource_types or RESOURCE_TYPES
    if call.version == 0:
        requested_types = [CLIENT_METRICS]
    if not set(requested_types) <= set(RESOURCE_TYPES):
        return [Reply(call.ticket, ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))]
    nodes = [str(node) for node in sorted(broker.cluster.nodes)]
    names = {
        TOPIC: list(broker.cluster.topics),
        BROKER: nodes,
        BROKER_LOGGER: nodes,
        CLIENT_METRICS: list(broker.cluster.client_metrics),
        GROUP: list(broker.cluster.group_configs),
    }
    resources = [
        Resource(resource_name=name, resource_type=resource_type)
        for resource_type in RESOURCE_TYPES
        if resource_type in requested_types
        for name in names.get(resource_type, [])
    ]
    return [Reply(call.ticket, ListConfigResourcesResponse(config_resources=resources))]
