"""Functions of the modern group types for sets of partitions by topic id, and for the metadata of subscribed topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TypeAlias
from uuid import UUID

from kwire.assignors import MemberAssignment
from kwire.assignors.server import numbers_by_key
from kwire.json.objects import uuid_text
from mockbroker.topics.model import ClusterState, Topic

METADATA_REFRESH_INTERVAL = 600.0  # maximum seconds between two reads of the metadata of subscribed topics

TopicIdPartition: TypeAlias = tuple[UUID, int]
PartitionSet: TypeAlias = frozenset[TopicIdPartition]
NO_PARTITIONS: PartitionSet = frozenset()


def by_topic_id(partition_set: PartitionSet) -> MemberAssignment:
    """Return the partitions of a set as a dict: topic id -> sorted partition indexes."""
    return numbers_by_key(partition_set)


def existing_topics(partition_set: PartitionSet, cluster: ClusterState) -> list[tuple[Topic, list[int]]]:
    """Return the topics of a partition set that still exist, sorted by topic id, each with its partition indexes."""
    topics = ((cluster.by_id.get(topic_id), partitions) for topic_id, partitions in by_topic_id(partition_set).items())
    return [(topic, partitions) for topic, partitions in topics if topic is not None]


def by_topic_name(partition_set: PartitionSet, cluster: ClusterState) -> dict[str, list[int]]:
    """Return a partition set as a dict: topic name -> partition indexes. Topics that no longer exist are left out."""
    return {topic.name: partitions for topic, partitions in existing_topics(partition_set, cluster)}


def by_known_name(partition_set: PartitionSet, names: Mapping[UUID, str]) -> dict[str, list[int]]:
    """Return the partitions of a set by topic name: name -> indexes. Names and indexes are sorted.

    A topic without a known name is listed by its id.

    Args:
        partition_set: The partitions.
        names: Topic names by topic id.
    """
    named = {
        names.get(topic_id) or uuid_text(topic_id): indexes for topic_id, indexes in by_topic_id(partition_set).items()
    }
    return dict(sorted(named.items()))


def topic_metadata(names: Iterable[str], cluster: ClusterState) -> dict[str, tuple[UUID, int]]:
    """Return the id and the number of partitions of each topic, by topic name.

    Topics that do not exist are left out.
    """
    topics = ((name, cluster.topics.get(name)) for name in names)
    return {name: (topic.topic_id, len(topic.partitions)) for name, topic in topics if topic is not None}


def metadata_hash(metadata: Mapping[str, tuple[UUID, int]]) -> int:
    """Return a hash of topic names, ids and partition counts, or 0 without topics.

    The hash function differs from Kafka's. This is allowed, because a coordinator only compares the stored hash with
    its own hash. If they differ, the coordinator reads the topic metadata again.
    """
    if not metadata:
        return 0
    text = repr(sorted((name, topic_id.hex, count) for name, (topic_id, count) in metadata.items()))
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)
