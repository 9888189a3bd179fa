"""DescribeCluster: v0-2. Not modelled: controllers as endpoints, fenced brokers (there are none)."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.handlers.handler import Handler

BROKERS = 1  # endpoint type
ALL_OPERATIONS = 3576  # what Kafka 4.2 tells without ACLs, as bits


def handle(broker: Broker, call: Call[DescribeClusterRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    if request.endpoint_type != BROKERS:
        refused = DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message="Brokers answer here, not controllers."
        )
        return [Reply(call.ticket, refused)]
    cluster = broker.cluster
    response = DescribeClusterResponse(
        cluster_id=cluster.cluster_text,
        controller_id=cluster.controller,
        brokers=[
            DescribeClusterResponse.Broker(broker_id=node.node_id, host=node.host, port=node.port)
            for node in cluster.nodes.values()
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_OPERATIONS
    return [Reply(call.ticket, response)]


HANDLER = Handler(Versions.parse("0-2"), handle)
