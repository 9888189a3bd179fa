"""The partitions of each endpoint for interactive queries. Source: Kafka's EndpointToPartitionsManager (4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.assignors.sticky_tasks import Task
from kwire.java import map_order, timeline_map_order
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from mockbroker.groups.streams.configured import ConfiguredSubtopology, ConfiguredTopology
from mockbroker.groups.streams.state import StreamsGroup, StreamsMember
from mockbroker.groups.streams.tasks import by_subtopology
from mockbroker.groups.streams.topology import source_names
from mockbroker.topics.model import ClusterState

EndpointPartitions = StreamsGroupHeartbeatResponse.EndpointPartitions


def partitions_by_endpoint(
    group: StreamsGroup, updated: StreamsMember, configured: ConfiguredTopology, cluster: ClusterState
) -> list[EndpointPartitions]:
    """Return the endpoint and the partitions of each member that has an endpoint.

    If the member ``updated`` has an endpoint, the last element of the list is about this member.

    Args:
        group: The group.
        updated: The member that sent the heartbeat.
        configured: The configured topology.
        cluster: The topics that exist.
    """
    others = [
        group.members[member_id]
        for member_id in timeline_map_order(group.with_endpoint, group.peak_member_count)
        if member_id != updated.member_id
    ]
    members = others if updated.endpoint is None else [*others, updated]
    return [_endpoint_partitions(member, configured, cluster) for member in members]


def _endpoint_partitions(
    member: StreamsMember, configured: ConfiguredTopology, cluster: ClusterState
) -> EndpointPartitions:
    assert member.endpoint is not None
    subtopologies = configured.subtopologies or {}
    return EndpointPartitions(
        user_endpoint=EndpointPartitions.Endpoint(host=member.endpoint.host, port=member.endpoint.port),
        active_partitions=_partitions(member.assigned.active, subtopologies, cluster),
        standby_partitions=_partitions(member.assigned.standby, subtopologies, cluster),
    )


def _partitions(
    tasks: Iterable[Task], subtopologies: Mapping[str, ConfiguredSubtopology], cluster: ClusterState
) -> list[EndpointPartitions.TopicPartition]:
    """Return the source and repartition topics that tasks read, each with partition indexes.

    The partition indexes of a topic are the task numbers of its subtopology, in ascending order. As in Kafka, a topic
    with n partitions gets the first n task numbers, even if one of them is not an index of the topic.

    Args:
        tasks: The tasks.
        subtopologies: Configured subtopologies by id.
        cluster: Cluster that has the topics. Topics that do not exist are left out.
    """
    numbers = by_subtopology(tasks)
    partitions: list[EndpointPartitions.TopicPartition] = []
    for name in map_order(name for name in numbers if name in subtopologies):
        for topic_name in map_order(dict.fromkeys(source_names(subtopologies[name].subtopology))):
            topic = cluster.topics.get(topic_name)
            if topic is not None:
                first = numbers[name][: len(topic.partitions)]
                partitions.append(EndpointPartitions.TopicPartition(topic=topic_name, partitions=first))
    return partitions
