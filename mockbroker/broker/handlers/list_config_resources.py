"""ListConfigResources: v0-1. v0 lists client metrics only, of which there are none; nor has a group settings."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler

Resource = ListConfigResourcesResponse.ConfigResource
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
KINDS = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(broker: Broker, call: Call[ListConfigResourcesRequest], now: float) -> Effects:  # noqa: ARG001
    wanted = call.request.resource_types or KINDS
    if call.version == 0:
        wanted = [CLIENT_METRICS]
    if not set(wanted) <= set(KINDS):
        return [Reply(call.ticket, ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))]
    nodes = [str(node) for node in sorted(broker.cluster.nodes)]
    names = {TOPIC: list(broker.cluster.topics), BROKER: nodes, BROKER_LOGGER: nodes}
    found = [
        Resource(resource_name=name, resource_type=kind)
        for kind in KINDS
        if kind in wanted
        for name in names.get(kind, [])
    ]
    return [Reply(call.ticket, ListConfigResourcesResponse(config_resources=found))]


HANDLER = Handler(Versions.parse("0-1"), handle)
