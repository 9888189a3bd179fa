"""The handler of DescribeQuorum v0-2, which returns the same end offset for all controllers.

mockbroker has no metadata log. In the response, every broker is also a controller and has all records.

Source: Kafka's KafkaRaftClient.handleDescribeQuorumRequest.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import topics_in_slices
from mockbroker.topics.model import METADATA_LOG

LEADER_EPOCH = 1
LISTENER = "CONTROLLER"  # name of the listener of controllers
NOT_HOSTED = "This server does not host this topic-partition."
Topic = DescribeQuorumResponse.Topic
Node = DescribeQuorumResponse.Node


def handle(broker: Broker, call: Call[DescribeQuorumRequest], now: float) -> Effects:
    topics = call.request.topics
    if (
        len(topics) != 1
        or topics[0].topic_name != METADATA_LOG
        or [p.partition_index for p in topics[0].partitions] != [0]
    ):
        return begin(call.ticket, _not_hosted(broker, call))
    cluster = broker.cluster
    partition = Topic.Partition(
        error_message="",
        leader_id=cluster.controller,
        leader_epoch=LEADER_EPOCH,
        high_watermark=cluster.epoch,
        current_voters=[_voter(broker, node, now) for node in sorted(cluster.broker_ids)],
    )
    nodes = [
        Node(node_id=node_id, listeners=[Node.Listener(name=LISTENER, host=node.host, port=node.port)])
        for node_id, node in sorted({**cluster.nodes, **cluster.down}.items())
    ]
    described = [Topic(topic_name=METADATA_LOG, partitions=[partition])]
    return [Reply(call.ticket, DescribeQuorumResponse(error_message="", topics=described, nodes=nodes))]


def _voter(broker: Broker, node: int, now: float) -> Topic.Partition.ReplicaState:
    is_running = node in broker.cluster.nodes
    fetched_ms = broker.wall_ms(now) if is_running else -1
    return Topic.Partition.ReplicaState(
        replica_id=node,
        log_end_offset=broker.cluster.epoch if is_running else -1,
        last_fetch_timestamp=fetched_ms,
        last_caught_up_timestamp=fetched_ms,
    )


def _not_hosted(broker: Broker, call: Call[DescribeQuorumRequest]) -> Steps:
    """Respond to a request for partitions other than partition 0 of the metadata log: an error for each partition."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = yield from topics_in_slices(
        broker,
        call.request.topics,
        lambda topic: Topic(topic_name=topic.topic_name, partitions=[]),
        lambda _, partitions: [
            Topic.Partition(partition_index=each.partition_index, error_code=error, error_message=NOT_HOSTED)
            for each in partitions
        ],
    )
    return [Reply(call.ticket, DescribeQuorumResponse(error_message="", topics=topics))]


def adapt_response(response: DescribeQuorumResponse, version: int) -> DescribeQuorumResponse:
    if version < NODES_SINCE:
        response.nodes = []
    return response


NODES_SINCE = 2  # first version with the listeners of the controllers
