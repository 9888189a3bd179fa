"""DescribeCluster: v0-2. Not modelled: controller endpoints, fenced brokers (no broker is ever fenced)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import CLUSTER_OPERATIONS, Handler

BROKERS, CONTROLLERS = 1, 2  # endpoint types
NOT_A_CONTROLLER = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"


def handle(broker: Broker, call: Call[DescribeClusterRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if request.endpoint_type != BROKERS:
        return [Reply(call.ticket, _error_response(request.endpoint_type))]
    cluster = broker.metadata_view(call.client.node)
    response = DescribeClusterResponse(
        cluster_id=cluster.cluster_text,
        controller_id=cluster.controller,
        brokers=[
            DescribeClusterResponse.Broker(
                broker_id=node.node_id,
                host=node.host_of(call.client.listener),
                port=node.port_of(call.client.listener),
            )
            for node in cluster.nodes.values()
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return [Reply(call.ticket, response)]


def _error_response(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        error, text = ErrorCode.MISMATCHED_ENDPOINT_TYPE, NOT_A_CONTROLLER
    else:
        error, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}"
    return DescribeClusterResponse(error_code=error, error_message=text)


HANDLER = Handler(Versions.parse("0-2"), handle)
