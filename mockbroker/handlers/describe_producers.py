"""DescribeProducers: v0."""

from __future__ import annotations

from kwire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kwire.schema import Versions
from mockbroker.broker import Broker
from mockbroker.calls import Call, Effects, Reply
from mockbroker.handlers.handler import Handler

Answer = DescribeProducersResponse.Topic
NO_SUCH_TOPIC = "This server does not host this topic-partition."


def handle(broker: Broker, call: Call[DescribeProducersRequest], now: float) -> Effects:  # noqa: ARG001
    topics = [
        Answer(
            name=topic.name,
            partitions=[_describe(broker, call.client.node, topic.name, index) for index in topic.partition_indexes],
        )
        for topic in call.request.topics
    ]
    return [Reply(call.ticket, DescribeProducersResponse(topics=topics))]


def _describe(broker: Broker, node: int, topic: str, index: int) -> Answer.Partition:
    partition = broker.cluster.partition(topic, index)
    error = broker.leader_error(partition, node)
    if error or partition is None:
        text = None if topic in broker.cluster.topics else NO_SUCH_TOPIC  # of a partition alone Kafka says nothing
        return Answer.Partition(partition_index=index, error_code=error, error_message=text)
    active = [
        Answer.Partition.Producer(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=-1 if producer.opened is None else producer.opened,
        )
        for producer in partition.producers
    ]
    return Answer.Partition(partition_index=index, active_producers=active)


HANDLER = Handler(Versions.parse("0"), handle)
