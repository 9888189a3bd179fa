"""The topology that the members of a streams group send when they join. Source: Kafka's StreamsTopology (4.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from kwire.blobs.offsets_topic import StreamsGroupTopologyValue
from kwire.java import map_order
from kwire.lazy_dataclass import dataclass
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

Subtopology: TypeAlias = StreamsGroupTopologyValue.Subtopology
TopicInfo: TypeAlias = Subtopology.TopicInfo
RequestTopology: TypeAlias = StreamsGroupHeartbeatRequest.Topology


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of a streams group.

    Attributes:
        epoch: Epoch of the topology.
        subtopologies: Subtopologies by id.
        subtopology_of: Source or repartition topic -> id of the subtopology that reads the topic.
        required_topics: Names of the source, repartition and changelog topics.
    """

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    subtopology_of: Mapping[str, str]
    required_topics: frozenset[str]

    @property
    def value(self) -> StreamsGroupTopologyValue:
        """The topology as the value of its record."""
        return StreamsGroupTopologyValue(epoch=self.epoch, subtopologies=list(self.subtopologies.values()))

    def in_map_order(self) -> list[Subtopology]:
        """Return the subtopologies in the iteration order of Kafka's hash map."""
        return [self.subtopologies[name] for name in map_order(self.subtopologies)]


def source_names(subtopology: Subtopology) -> list[str]:
    """Return the names of the topics that a subtopology reads: source and repartition topics."""
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def topology_of(epoch: int, subtopologies: Iterable[Subtopology]) -> Topology:
    """Return a topology that consists of the given subtopologies.

    Args:
        epoch: Epoch of the topology.
        subtopologies: The subtopologies.

    Raises: ValueError if the epoch is negative, or two subtopologies have the same id.
    """
    if epoch < 0:
        raise ValueError("Topology epoch must be non-negative.")
    by_id: dict[str, Subtopology] = {}
    for each in subtopologies:
        if each.subtopology_id in by_id:
            raise ValueError(f"Duplicate key {each.subtopology_id}")
        by_id[each.subtopology_id] = each
    subtopology_of = {topic: name for name in map_order(by_id) for topic in source_names(by_id[name])}
    changelogs = (topic.name for each in by_id.values() for topic in each.state_changelog_topics)
    return Topology(epoch, by_id, subtopology_of, frozenset([*subtopology_of, *changelogs]))


def topology_of_request(request: RequestTopology) -> Topology:
    """Return the topology in a heartbeat. ``request``: the topology field of the request.

    Raises: ValueError if the epoch is negative, or two subtopologies have the same id.
    """
    return topology_of(request.epoch, map(_subtopology, request.subtopologies))


def _subtopology(given: RequestTopology.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=given.subtopology_id,
        source_topics=list(given.source_topics),
        source_topic_regex=list(given.source_topic_regex),
        state_changelog_topics=[_topic_info(topic) for topic in given.state_changelog_topics],
        repartition_sink_topics=list(given.repartition_sink_topics),
        repartition_source_topics=[_topic_info(topic) for topic in given.repartition_source_topics],
        copartition_groups=[
            Subtopology.CopartitionGroup(
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                repartition_source_topics=list(each.repartition_source_topics),
            )
            for each in given.copartition_groups
        ],
    )


def _topic_info(given: RequestTopology.Subtopology.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=given.name,
        partitions=given.partitions,
        replication_factor=given.replication_factor,
        topic_configs=[TopicInfo.Config(key=config.key, value=config.value) for config in given.topic_configs],
    )
