"""The handler of DescribeProducers v0. Every replica of a partition serves the request, not only the leader."""

from __future__ import annotations

from collections.abc import Sequence

from kwire import ErrorCode
from kwire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.base.texts import OF_ERRORS
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import topics_in_slices
from mockbroker.topics.model import name_error

ResponseTopic = DescribeProducersResponse.Topic
PRODUCER = 40  # approximate bytes of a producer in a response


def handle(broker: Broker, call: Call[DescribeProducersRequest], now: float) -> Effects:  # noqa: ARG001
    """Respond with the producers of each partition in the request.

    As in Kafka, a duplicate partition is described twice.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        now: the broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    return begin(call.ticket, _describe_topics(broker, call))


def _describe_topics(broker: Broker, call: Call[DescribeProducersRequest]) -> Steps:
    """Describe the partitions in slices. The last effect is the response."""
    room = broker.response_room()

    def describe(topic: DescribeProducersRequest.Topic, indexes: Sequence[int]) -> list[ResponseTopic.Partition]:
        places = [(topic.name, index) for index in indexes]
        return room.describe_each(places, lambda place: _describe(broker, call.client.node, *place), _size)

    topics = yield from topics_in_slices(
        broker,
        call.request.topics,
        lambda topic: ResponseTopic(name=topic.name, partitions=[]),
        describe,
        "partition_indexes",
    )
    return [Reply(call.ticket, DescribeProducersResponse(topics=topics))]


def _size(described: ResponseTopic.Partition) -> int:
    return PRODUCER * (1 + len(described.active_producers))


def _describe(broker: Broker, node: int, topic: str, index: int) -> ResponseTopic.Partition:
    if text := name_error(topic):
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return ResponseTopic.Partition(partition_index=index, error_code=error, error_message=text)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic not in broker.cluster.topics:
        return ResponseTopic.Partition(partition_index=index, error_code=error, error_message=OF_ERRORS[error])
    partition = broker.cluster.partition(topic, index)
    if partition is None:
        return ResponseTopic.Partition(partition_index=index, error_code=error)
    if node not in partition.replicas:
        return ResponseTopic.Partition(partition_index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    active = [
        ResponseTopic.Partition.Producer(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=-1 if producer.opened is None else producer.opened,
        )
        for producer in partition.producers
    ]
    return ResponseTopic.Partition(partition_index=index, active_producers=active)
