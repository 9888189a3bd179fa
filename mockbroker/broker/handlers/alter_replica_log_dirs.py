"""The handler of AlterReplicaLogDirs v0-2. A move takes ``mockbroker.replica.catch.up.ms``.

Source: Kafka's ReplicaManager.alterReplicaLogDirs.
"""

from __future__ import annotations

from uuid import UUID

from kwire import ErrorCode
from kwire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.failover import schedule_move
from mockbroker.broker.slices import chunks
from mockbroker.topics.log_dirs import Replica

FUTURE_SUFFIX = len(f".{UUID(int=0).hex}-future")  # characters after topic and partition in the folder of a future log
MAX_FOLDER_NAME = 255
Topic = AlterReplicaLogDirsResponse.Topic


def handle(broker: Broker, call: Call[AlterReplicaLogDirsRequest], now: float) -> Effects:
    return begin(call.ticket, _alter(broker, call, now))


def _alter(broker: Broker, call: Call[AlterReplicaLogDirsRequest], now: float) -> Steps:
    """Begin to move replicas to log directories.

    If the request contains several directories for a replica, the last directory is used.

    The generator handles the request in slices (parts of limited size); the router handles other requests between two
    slices. The generator yields the effects of each slice, such as journal events. It returns the effects of the last
    slice, which include the response.

    Args:
        broker: the state of the cluster.
        call: the request, its client, and its ticket (the object that identifies the request).
        now: the broker's time in seconds.
    """
    paths = {
        (topic.name, index): each.path
        for each in call.request.dirs
        for topic in each.topics
        for index in topic.partitions
    }
    topics: dict[str, Topic] = {}
    for number, chunk in enumerate(chunks(list(paths.items()), broker.slice_size)):
        if number:
            now = yield []
        for (name, index), path in chunk:
            error = _move(broker, call.client.node, name, index, path, now)
            answered = Topic.Partition(partition_index=index, error_code=error)
            topics.setdefault(name, Topic(topic_name=name)).partitions.append(answered)
    return [Reply(call.ticket, AlterReplicaLogDirsResponse(results=list(topics.values())))]


def _move(broker: Broker, node: int, name: str, index: int, path: str, now: float) -> ErrorCode:
    dirs = broker.log_dirs
    if len(f"{name}-{index}") + FUTURE_SUFFIX > MAX_FOLDER_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path not in dirs.paths:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = broker.cluster.topics.get(name)
    partition = None if topic is None else topic.partition(index)
    if topic is None or partition is None or node not in partition.replicas:
        dirs.prefer(node, name, index, path)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    replica = Replica(node, topic.topic_id, index)
    if dirs.begin_move(replica, name, path):
        schedule_move(broker, replica, now)
    return ErrorCode.NONE
