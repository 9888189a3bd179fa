"""The handler of ListPartitionReassignments v0. Source: Kafka's ReplicationControlManager."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks
from mockbroker.topics.model import Partition

Topic = ListPartitionReassignmentsResponse.Topic


def handle(broker: Broker, call: Call[ListPartitionReassignmentsRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _list(broker, call))


def _list(broker: Broker, call: Call[ListPartitionReassignmentsRequest]) -> Steps:
    cluster, wanted = broker.cluster, call.request.topics
    if wanted is None:
        named: Iterable[tuple[str, Iterable[int]]] = [
            (name, range(len(topic.partitions))) for name, topic in cluster.topics.items()
        ]
    else:
        named = [(topic.name, topic.partition_indexes) for topic in wanted]
    places = [(name, index) for name, indexes in named for index in indexes]
    topics: dict[str, Topic] = {}
    for number, chunk in enumerate(chunks(places, broker.slice_size)):
        if number:
            yield []
        for name, index in chunk:
            partition = cluster.partition(name, index)
            if partition is not None and partition.reassignment is not None:
                topics.setdefault(name, Topic(name=name)).partitions.append(_ongoing(partition))
    return [Reply(call.ticket, ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values())))]


def _ongoing(partition: Partition) -> Topic.Partition:
    assert partition.reassignment is not None
    return Topic.Partition(
        partition_index=partition.index,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.reassignment.adding),
        removing_replicas=list(partition.reassignment.removing),
    )
