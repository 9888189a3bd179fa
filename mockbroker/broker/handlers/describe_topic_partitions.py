"""The handler of DescribeTopicPartitions v0. Not modelled: eligible leader replicas (always empty).

The response contains topics sorted by name, up to a maximum number of partitions. The cursor in the response contains
the topic and partition at which the next page begins.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import TOPIC_OPERATIONS
from mockbroker.broker.partition_metadata import partition_metadata
from mockbroker.topics.model import ClusterState, Partition, Topic, legal_topic_name

ResponseTopic = DescribeTopicPartitionsResponse.Topic
MAX_PAGE = 2000  # maximum partitions in a response: Kafka's default of max.request.partition.size.limit


def handle(broker: Broker, call: Call[DescribeTopicPartitionsRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    requested = {topic.name for topic in request.topics}
    cluster = broker.metadata_view(call.client.node)
    names = requested or set(cluster.topics)
    cursor = request.cursor
    if cursor is not None:
        names = {name for name in names if name >= cursor.topic_name}
        if cursor.partition_index < 0 or (requested and cursor.topic_name not in names):
            return [Reply(call.ticket, _error_response(request, ErrorCode.INVALID_REQUEST))]
    if "" in names:  # as Kafka, which fails on it
        return [Reply(call.ticket, _error_response(request, ErrorCode.UNKNOWN_SERVER_ERROR))]
    first = {cursor.topic_name: cursor.partition_index} if cursor else {}
    limit = max(1, min(request.response_partition_limit, MAX_PAGE))
    return begin(call.ticket, _page(broker, call, sorted(names), first, limit))


def _error_response(request: DescribeTopicPartitionsRequest, error: ErrorCode) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[ResponseTopic(error_code=error, name=topic.name) for topic in request.topics]
    )


def _page(
    broker: Broker,
    call: Call[DescribeTopicPartitionsRequest],
    names: list[str],
    first: dict[str, int],
    limit: int,
) -> Steps:
    """Respond with a page of topics. Topics that do not exist count as no partition, so that a page may have many.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        names: Sorted topic names.
        first: Topic name -> index of the first partition to return; for a topic that is not in the dict, the index is
            0.
        limit: Maximum number of partitions in the page.
    """
    response = DescribeTopicPartitionsResponse()
    cluster = broker.metadata_view(call.client.node)
    for number, name in enumerate(names):
        if number and number % broker.slice_size == 0:
            yield []
            cluster = broker.metadata_view(call.client.node)
        start = first.get(name, 0)
        if limit == 0:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=start)
            break
        topic = cluster.topics.get(name)
        if topic is None:
            error = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal_topic_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION
            )
            response.topics.append(
                ResponseTopic(error_code=error, name=name, topic_authorized_operations=TOPIC_OPERATIONS)
            )
            continue
        partitions = topic.partitions[start : start + limit]
        limit -= len(partitions)
        response.topics.append(_response_topic(cluster, topic, partitions))
        if (following := start + len(partitions)) < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=following)
            break
    return [Reply(call.ticket, response)]


def _response_topic(cluster: ClusterState, topic: Topic, partitions: list[Partition]) -> ResponseTopic:
    return ResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition(cluster, partition) for partition in partitions],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _partition(cluster: ClusterState, partition: Partition) -> ResponseTopic.Partition:
    described = partition_metadata(ResponseTopic.Partition, cluster, partition)
    described.eligible_leader_replicas, described.last_known_elr = [], []
    return described
