"""The handler of DescribeCluster v0-2. A stopped broker is fenced. Not modelled: controller endpoints."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import CLUSTER_OPERATIONS

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
                rack=broker.rack(node.node_id),
            )
            for node in cluster.nodes.values()
        ],
    )
    if request.include_fenced_brokers:
        response.brokers += [
            DescribeClusterResponse.Broker(
                broker_id=node.node_id,
                host=node.host_of(call.client.listener),
                port=node.port_of(call.client.listener),
                is_fenced=True,
            )
            for node in cluster.down.values()
            if node.node_id in cluster.broker_ids
        ]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return [Reply(call.ticket, response)]


def _error_response(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        error, text = ErrorCode.MISMATCHED_ENDPOINT_TYPE, NOT_A_CONTROLLER
    else:
        error, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}"
    return DescribeClusterResponse(error_code=error, error_message=text)
