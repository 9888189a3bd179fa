"""DescribeLogDirs: v0-4. Each broker reports one fictitious log directory, with the sizes of the logs in memory."""

from __future__ import annotations

from kwire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler

LogDir = DescribeLogDirsResponse.LogDir
LOG_DIR = "/memory"


def handle(broker: Broker, call: Call[DescribeLogDirsRequest], now: float) -> Effects:  # noqa: ARG001
    requested_topics = call.request.topics
    requested = (
        None
        if requested_topics is None
        else {(topic.topic, index) for topic in requested_topics for index in topic.partitions}
    )
    topics: list[LogDir.Topic] = []
    for topic in broker.cluster.topics.values():
        partitions = [
            LogDir.Topic.Partition(partition_index=partition.index, partition_size=partition.log.size)
            for partition in topic.partitions
            if call.client.node in partition.replicas
            and (requested is None or (topic.name, partition.index) in requested)
        ]
        if partitions:
            topics.append(LogDir.Topic(name=topic.name, partitions=partitions))
    return [Reply(call.ticket, DescribeLogDirsResponse(results=[LogDir(log_dir=LOG_DIR, topics=topics)]))]


HANDLER = Handler(Versions.parse("0-4"), handle)
