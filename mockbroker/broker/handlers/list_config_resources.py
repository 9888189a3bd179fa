"""ListConfigResources: v0-1. Not modelled: client metrics (the only resources that v0 lists), group configurations."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler

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
    names = {TOPIC: list(broker.cluster.topics), BROKER: nodes, BROKER_LOGGER: nodes}
    resources = [
        Resource(resource_name=name, resource_type=resource_type)
        for resource_type in RESOURCE_TYPES
        if resource_type in requested_types
        for name in names.get(resource_type, [])
    ]
    return [Reply(call.ticket, ListConfigResourcesResponse(config_resources=resources))]


HANDLER = Handler(Versions.parse("0-1"), handle)
