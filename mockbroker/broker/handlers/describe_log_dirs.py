"""DescribeLogDirs: v0-4. Each broker has one folder, which does not exist; sizes are those of the logs in memory."""

from __future__ import annotations

from kwire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler

LogDir = DescribeLogDirsResponse.LogDir
FOLDER = "/memory"


def handle(broker: Broker, call: Call[DescribeLogDirsRequest], now: float) -> Effects:  # noqa: ARG001
    asked = call.request.topics
    wanted = None if asked is None else {(topic.topic, index) for topic in asked for index in topic.partitions}
    found: list[LogDir.Topic] = []
    for topic in broker.cluster.topics.values():
        partitions = [
            LogDir.Topic.Partition(partition_index=partition.index, partition_size=partition.log.size)
            for partition in topic.partitions
            if call.client.node in partition.replicas and (wanted is None or (topic.name, partition.index) in wanted)
        ]
        if partitions:
            found.append(LogDir.Topic(name=topic.name, partitions=partitions))
    return [Reply(call.ticket, DescribeLogDirsResponse(results=[LogDir(log_dir=FOLDER, topics=found)]))]


HANDLER = Handler(Versions.parse("0-4"), handle)
