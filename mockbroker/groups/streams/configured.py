"""The configured topology of a streams group: the topology with its number of tasks and its internal topics.

Source: Kafka's InternalTopicManager, RepartitionTopics, ChangelogTopics and ConfiguredTopology (4.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from kwire import ErrorCode
from kwire.java import map_order, utf16
from kwire.lazy_dataclass import dataclass
from mockbroker.groups.group_type import Refused
from mockbroker.groups.streams.copartition import enforce_copartitioning
from mockbroker.groups.streams.partition_counts import PartitionCounts, decide_changelogs, decide_repartitions
from mockbroker.groups.streams.status import Status, TopicProblem
from mockbroker.groups.streams.topology import Subtopology, TopicInfo, Topology, source_names
from mockbroker.topics.model import ClusterState

MAX_TASKS = 10_000  # of a group, which take 50 ms; a small request can name the same topic in many subtopologies
NAMED_TOPICS = 3  # topics that a status names


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic that the coordinator creates.

    Attributes:
        name: Topic name.
        partitions: Number of partitions.
        replication_factor: Replication factor; 0 for the default of the brokers.
        configs: Topic configurations.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology whose partition counts are known.

    Attributes:
        subtopology: The subtopology.
        task_count: Number of tasks: the largest partition count of the source and repartition topics.
        repartition_topics: Repartition topics that the subtopology reads.
        changelog_topics: Changelog topics of its state stores; empty for a stateless subtopology.
    """

    subtopology: Subtopology
    task_count: int
    repartition_topics: tuple[InternalTopic, ...]
    changelog_topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology and the internal topics that it needs.

    Attributes:
        subtopologies: Configured subtopologies by id, in the order of their ids; None if source topics are missing or
            have wrong partition counts.
        missing_topics: Internal topics that have to be created.
        problem: Status and detail of the problem that prevents an assignment; None if tasks can be assigned.
    """

    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing_topics: tuple[InternalTopic, ...] = ()
    problem: tuple[Status, str] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None


@dataclass(slots=True)
class _Counts(PartitionCounts):
    """Partition counts of topics by topic name.

    An existing topic has its actual count. A topic that the coordinator will create has its planned count.

    Attributes:
        cluster: The state of the cluster, with the existing topics.
        decided: Planned partition counts of topics that will be created, by topic name.
    """

    cluster: ClusterState
    decided: dict[str, int] = field(default_factory=dict)

    def get(self, topic: str) -> int | None:
        existing = self.cluster.topics.get(topic)
        return self.decided.get(topic) if existing is None else len(existing.partitions)


def configure(topology: Topology, cluster: ClusterState) -> ConfiguredTopology:
    """Return the topology, configured for the existing topics.

    The result lists the internal topics that have to be created.

    Args:
        topology: The topology.
        cluster: Cluster that has the topics.

    Raises:
        Refused: The topology is not valid.
    """
    try:
        return _configure(topology, cluster)
    except TopicProblem as problem:
        return ConfiguredTopology(None, problem=(problem.status, problem.detail))


def _configure(topology: Topology, cluster: ClusterState) -> ConfiguredTopology:
    subtopologies = topology.in_map_order()
    missing = {name for each in subtopologies for name in each.source_topics if name not in cluster.topics}
    if missing:
        named = _summarized(sorted(missing, key=utf16))
        raise TopicProblem(Status.MISSING_SOURCE_TOPICS, f"Source topics {named} are missing.")
    counts = _Counts(cluster)
    counts.decided |= decide_repartitions(subtopologies, counts)
    enforce_copartitioning(subtopologies, counts)
    counts.decided |= decide_changelogs(subtopologies, counts)
    configured = {
        each.subtopology_id: _configured_subtopology(each, counts)
        for each in sorted(subtopologies, key=lambda each: utf16(each.subtopology_id))
    }
    tasks = sum(each.task_count for each in configured.values())
    missing_topics = _missing_internal_topics(configured.values(), topology, cluster)
    if not missing_topics and tasks > MAX_TASKS:
        text = f"The topology has {tasks} tasks, the maximum is {MAX_TASKS}: use fewer partitions."
        raise Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if not missing_topics:
        return ConfiguredTopology(configured)
    named = _summarized([topic.name for topic in missing_topics])
    problem = Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {named}"
    return ConfiguredTopology(configured, missing_topics, problem)


def _configured_subtopology(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        subtopology,
        max(counts.get(name) or 0 for name in source_names(subtopology)),
        tuple(_internal_topic(topic, counts) for topic in subtopology.repartition_source_topics),
        tuple(_internal_topic(topic, counts) for topic in subtopology.state_changelog_topics),
    )


def _internal_topic(topic: TopicInfo, counts: _Counts) -> InternalTopic:
    partitions = topic.partitions or counts.decided[topic.name]
    if partitions < 1:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)  # Kafka: at least 1
    configs = {config.key: config.value for config in topic.topic_configs}
    return InternalTopic(topic.name, partitions, topic.replication_factor, configs)


def _missing_internal_topics(
    subtopologies: Iterable[ConfiguredSubtopology], topology: Topology, cluster: ClusterState
) -> tuple[InternalTopic, ...]:
    """Return the internal topics of a topology that do not exist.

    Args:
        subtopologies: The configured subtopologies.
        topology: The topology.
        cluster: Cluster that has the topics.

    Raises:
        TopicProblem: An internal topic exists with another number of partitions.
    """
    topics: dict[str, InternalTopic] = {}
    for each in subtopologies:
        for topic in (*each.repartition_topics, *each.changelog_topics):
            topics[topic.name] = topic
    most = len(topics)
    for name in map_order(topology.required_topics):
        existing, expected = cluster.topics.get(name), topics.get(name)
        if existing is None or expected is None:
            continue
        del topics[name]
        if len(existing.partitions) != expected.partitions:
            raise TopicProblem(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected.partitions}, found"
                f" {len(existing.partitions)}",
            )
    return tuple(topics[name] for name in map_order(topics, most))


def _summarized(names: list[str]) -> str:
    text = ", ".join(names[:NAMED_TOPICS])
    return text if len(names) <= NAMED_TOPICS else f"{text} and {len(names) - NAMED_TOPICS} additional topics"
