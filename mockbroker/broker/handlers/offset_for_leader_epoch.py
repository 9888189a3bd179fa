"""The handler of OffsetForLeaderEpoch v0-4. All replicas share one log, so a follower never truncates its log."""

from __future__ import annotations

from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker

ResponseTopic = OffsetForLeaderEpochResponse.Topic
ResponsePartition = ResponseTopic.Partition


def handle(broker: Broker, call: Call[OffsetForLeaderEpochRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _list_end_offsets(broker, call))


def _list_end_offsets(broker: Broker, call: Call[OffsetForLeaderEpochRequest]) -> Steps:
    topics: list[ResponseTopic] = []
    remaining = broker.slice_size
    for topic in call.request.topics:
        results: list[ResponsePartition] = []
        for requested in topic.partitions:
            if remaining <= 0:
                yield []
                remaining = broker.slice_size
            remaining -= 1
            results.append(_end_offset(broker, call, topic.topic, requested))
        topics.append(ResponseTopic(topic=topic.topic, partitions=results))
    return [Reply(call.ticket, OffsetForLeaderEpochResponse(topics=topics))]


def _end_offset(
    broker: Broker,
    call: Call[OffsetForLeaderEpochRequest],
    topic: str,
    requested: OffsetForLeaderEpochRequest.Topic.Partition,
) -> ResponsePartition:
    partition = broker.cluster.partition(topic, requested.partition)
    error = broker.leader_error(partition, call.client.node, requested.current_leader_epoch)
    if error or partition is None:
        return ResponsePartition(partition=requested.partition, error_code=error)
    epoch, end = partition.epochs.end_of(requested.leader_epoch, partition.log.end)
    return ResponsePartition(partition=requested.partition, leader_epoch=epoch, end_offset=end)
