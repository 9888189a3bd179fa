"""OffsetForLeaderEpoch: v0-4. Brokers of a cluster share their logs, so nothing is ever cut."""

from __future__ import annotations

from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler

Topic = OffsetForLeaderEpochResponse.Topic
Answer = Topic.Partition


def handle(broker: Broker, call: Call[OffsetForLeaderEpochRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _answered(broker, call))


def _answered(broker: Broker, call: Call[OffsetForLeaderEpochRequest]) -> Steps:
    topics: list[Topic] = []
    left = broker.slice_size
    for topic in call.request.topics:
        answers: list[Answer] = []
        for asked in topic.partitions:
            if left <= 0:
                yield []
                left = broker.slice_size
            left -= 1
            answers.append(_answer(broker, call, topic.topic, asked))
        topics.append(Topic(topic=topic.topic, partitions=answers))
    return [Reply(call.ticket, OffsetForLeaderEpochResponse(topics=topics))]


def _answer(
    broker: Broker,
    call: Call[OffsetForLeaderEpochRequest],
    topic: str,
    asked: OffsetForLeaderEpochRequest.Topic.Partition,
) -> Answer:
    partition = broker.cluster.partition(topic, asked.partition)
    error = broker.leader_error(partition, call.client.node, asked.current_leader_epoch)
    if error or partition is None:
        return Answer(partition=asked.partition, error_code=error)
    epoch, end = partition.epochs.end_of(asked.leader_epoch, partition.log.end)
    return Answer(partition=asked.partition, leader_epoch=epoch, end_offset=end)


HANDLER = Handler(Versions.parse("0-4"), handle)
