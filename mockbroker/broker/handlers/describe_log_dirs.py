"""The handler of DescribeLogDirs v0-4.

The directories of ``log.dirs`` are only simulated. Each of them reports a volume of 1 TiB.
"""

from __future__ import annotations

from kwire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks
from mockbroker.topics.log_dirs import VOLUME, Replica
from mockbroker.topics.model import Partition, Topic

LogDir = DescribeLogDirsResponse.LogDir


def handle(broker: Broker, call: Call[DescribeLogDirsRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _describe(broker, call))


def _describe(broker: Broker, call: Call[DescribeLogDirsRequest]) -> Steps:
    node, requested, cluster = call.client.node, call.request.topics, broker.cluster
    wanted = None if requested is None else {(each.topic, index) for each in requested for index in each.partitions}
    dirs = {path: LogDir(log_dir=path, total_bytes=VOLUME, usable_bytes=VOLUME) for path in broker.log_dirs.paths}
    every = [(topic, partition) for topic in cluster.topics.values() for partition in topic.partitions]
    for number, chunk in enumerate(chunks(every, broker.slice_size)):
        if number:
            yield []
        for topic, partition in chunk:
            if node in partition.replicas:
                is_wanted = wanted is None or (topic.name, partition.index) in wanted
                _add(
                    broker, dirs, Replica(node, topic.topic_id, partition.index), topic, partition, is_wanted=is_wanted
                )
    return [Reply(call.ticket, DescribeLogDirsResponse(results=list(dirs.values())))]


def _add(
    broker: Broker, dirs: dict[str, LogDir], replica: Replica, topic: Topic, partition: Partition, *, is_wanted: bool
) -> None:
    """Add a replica to the response: to its log directory, and to the directory to which it is being moved.

    If the request does not ask for the partition, only the usable bytes of the directories are reduced.

    Args:
        broker: The state of the cluster.
        dirs: Path -> log directory in the response.
        replica: The replica.
        topic: The topic of the replica.
        partition: The partition of the replica.
        is_wanted: Whether the request asks for this partition.
    """
    future = broker.log_dirs.future.get(replica)
    for path in [broker.log_dirs.of(replica, topic.name), *([] if future is None else [future])]:
        described, is_future = dirs[path], path == future
        described.usable_bytes -= partition.log.size
        if not is_wanted:
            continue
        if not described.topics or described.topics[-1].name != topic.name:
            described.topics.append(LogDir.Topic(name=topic.name))
        described.topics[-1].partitions.append(
            LogDir.Topic.Partition(
                partition_index=partition.index,
                partition_size=0 if is_future else partition.log.size,
                offset_lag=partition.log.end - partition.log.start if is_future else 0,
                is_future_key=is_future,
            )
        )
